package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/mcp-via-llm/mcp-via-llm/config"
	"github.com/mcp-via-llm/mcp-via-llm/extproc"
	"github.com/mcp-via-llm/mcp-via-llm/loop"
	"github.com/mcp-via-llm/mcp-via-llm/telemetry"
)

type serveCommand struct{ configFlag }

func (c *serveCommand) Run(out output) error {
	cfg, err := config.Load(c.Config)
	if err != nil {
		return err
	}
	log := telemetry.NewLog(out.stderr, cfg.Log.Level, cfg.Log.Format)
	tuneMemory(log)
	number, _ := build()
	signals, err := telemetry.Start(context.Background(), number, log)
	if err != nil {
		return err
	}
	log = signals.Log(log, cfg.Log.Level)
	listeners, err := listen(cfg.Listen)
	if err != nil {
		return err
	}
	ctx, restore := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer restore()
	a, err := newApp(cfg, log, signals)
	if err != nil {
		return err
	}
	s, err := newServer(a, cfg)
	if err != nil {
		a.memory.Close(ctx)
		a.closeAudit()
		return errors.Join(err, a.host.Close(), a.store.Close())
	}
	watcher := &config.Watcher{Path: c.Config, Refused: a.refused, Changed: func(cfg *config.Config) {
		a.changed(cfg)
		s.background.Go(func() { a.checkBudgets(ctx) })
	}}
	s.background.Go(func() { a.checkBudgets(ctx) })
	s.background.Go(func() { a.watchIdle(ctx) })
	s.background.Go(func() { watcher.Run(ctx, cfg) })
	s.background.Go(func() { s.becomeReady(ctx) })
	s.background.Go(func() { a.tryStore(ctx) })
	s.background.Go(func() { a.reopenAudit(ctx) })
	s.serve(listeners)
	log.Info("serving", "ext_proc", address(listeners.extProc), "admin", address(listeners.admin), "metrics", address(listeners.metrics), "http", address(listeners.http), "version", number)
	select {
	case <-ctx.Done():
		restore() // a second signal ends the process at once
		return s.drain(a.current.Load().config.DrainTimeout)
	case err := <-s.failed:
		return errors.Join(err, s.drain(0))
	}
}

// listeners are bound before anything starts, so that a taken address is the
// first thing said. Those that are off are nil.
type listeners struct{ extProc, admin, metrics, http net.Listener }

func listen(l config.Listen) (listeners, error) {
	var all listeners
	var errs []error
	for _, one := range []struct {
		key, address string
		into         *net.Listener
	}{{"ext_proc", l.ExtProc, &all.extProc}, {"admin", l.Admin, &all.admin}, {"metrics", l.Metrics, &all.metrics}, {"http", l.HTTP, &all.http}} {
		if one.address == "" {
			continue
		}
		listener, err := net.Listen("tcp", one.address)
		if err != nil {
			errs = append(errs, fmt.Errorf("listen.%s: %w", one.key, err))
			continue
		}
		*one.into = listener
	}
	return all, errors.Join(errs...)
}

func address(l net.Listener) string {
	if l == nil {
		return "off"
	}
	return l.Addr().String()
}

// server is everything that listens, and how it ends.
type server struct {
	app        *app
	log        *slog.Logger
	processor  *extproc.Server
	grpc       *grpc.Server
	health     *health.Server
	admin      *http.Server
	metrics    *http.Server
	direct     *http.Server // the mode without Envoy
	notReady   atomic.Value // a string: why; empty when ready
	background sync.WaitGroup
	failed     chan error
}

func newServer(a *app, cfg *config.Config) (*server, error) {
	options, err := grpcOptions(cfg.Listen.TLS)
	if err != nil {
		return nil, err
	}
	secret := cfg.Fingerprint()
	s := &server{app: a, log: a.log, failed: make(chan error, 4), grpc: grpc.NewServer(options...), health: health.NewServer()}
	s.processor = extproc.New(extproc.Options{
		Handler: http.HandlerFunc(a.serveBehind),
		Match:   loop.Wants,
		Strip:   loop.Headers,
		LoopURL: func() *url.URL { return a.current.Load().loopURL },
		Secret:  secret[:],
		Log:     a.log,
		Observe: a.observe,
		Context: a.place,
	})
	extprocv3.RegisterExternalProcessorServer(s.grpc, s.processor)
	healthv1.RegisterHealthServer(s.grpc, s.health)
	s.setHealth(healthv1.HealthCheckResponse_NOT_SERVING)
	s.notReady.Store(connecting)
	s.admin = &http.Server{Handler: a.adminHandler(&s.notReady, cfg.Listen.Admin), ReadHeaderTimeout: 10 * time.Second}
	s.metrics = &http.Server{Handler: a.metricsMux(&s.notReady), ReadHeaderTimeout: 10 * time.Second}
	s.direct = &http.Server{Handler: a.placed(a.serveDirect), ReadHeaderTimeout: 10 * time.Second}
	return s, nil
}

func (s *server) setHealth(status healthv1.HealthCheckResponse_ServingStatus) {
	for _, name := range []string{"", extprocv3.ExternalProcessor_ServiceDesc.ServiceName} {
		s.health.SetServingStatus(name, status)
	}
}

const connecting = "a server that is not optional has not connected yet, see /debug/servers"

// becomeReady turns the health to SERVING, and /readyz to ok, once every required
// server has connected. What a reload adds does not take it back: the running
// clients lose nothing.
func (s *server) becomeReady(ctx context.Context) {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for !s.app.host.Ready() {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
	s.setHealth(healthv1.HealthCheckResponse_SERVING)
	s.notReady.CompareAndSwap(connecting, "")
}

func (s *server) serve(l listeners) {
	start := func(listener net.Listener, serve func(net.Listener) error) {
		if listener == nil {
			return
		}
		s.background.Go(func() {
			if err := serve(listener); err != nil && !errors.Is(err, http.ErrServerClosed) {
				s.failed <- err
			}
		})
	}
	start(l.extProc, s.grpc.Serve)
	start(l.admin, s.admin.Serve)
	start(l.metrics, s.metrics.Serve)
	start(l.http, s.direct.Serve)
}

// drain says NOT_SERVING first, so that load balancers turn away; then refuses
// new turns and lets running ones finish, for at most limit; then ends the rest.
func (s *server) drain(limit time.Duration) error {
	s.log.Info("draining", "drain_timeout", limit.String())
	s.notReady.Store("draining")
	s.health.Shutdown() // every service NOT_SERVING, for good
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var direct sync.WaitGroup
	direct.Go(func() {
		if s.direct.Shutdown(ctx) != nil {
			s.direct.Close() //nolint:errcheck // what is left is cut, as the limit says
		}
	})
	if err := s.processor.Shutdown(ctx); err != nil {
		s.log.Warn("turns were still running when drain_timeout ended", "err", err)
	}
	direct.Wait()
	s.stopGRPC()
	s.app.memory.Close(ctx) // before the servers that its calls are at
	err := errors.Join(s.app.host.Close(), s.app.store.Close())
	s.app.closeAudit()
	err = errors.Join(err, s.admin.Close(), s.metrics.Close())
	s.background.Wait()
	s.log.Info("stopped")
	ctx, cancel = context.WithTimeout(context.Background(), exportTime)
	defer cancel()
	if err := s.app.telemetry.Shutdown(ctx); err != nil {
		s.log.Warn("the last of traces, metrics or logs may be lost", "err", err)
	}
	return err
}

// exportTime is what is left of a Kubernetes grace period after the drain, for
// telemetry that has not been sent.
const exportTime = 3 * time.Second

// flushTime is how long connections may take to send what ended turns have left,
// health watchers to leave, and the disk to take the last audit records.
const flushTime = 2 * time.Second

// stopGRPC ends the gRPC server. Its Stop alone would cut the last messages of
// turns that have just ended.
func (s *server) stopGRPC() {
	timer := time.AfterFunc(flushTime, s.grpc.Stop)
	defer timer.Stop()
	s.grpc.GracefulStop()
}
