package extproc

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"text/template"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
)

const mainVersion = "1.40.0"

// flavour is one filter configuration of one Envoy version.
type flavour struct{ version, mode string }

func (f flavour) String() string { return f.version + "/" + f.mode }

// chunked is a mode without allow_content_length_header.
const chunked = "-chunked"

// contentLength: Envoy knows allow_content_length_header since 1.38.
func (f flavour) contentLength() bool {
	return !strings.HasPrefix(f.version, "1.37.") && !strings.HasSuffix(f.mode, chunked)
}

// filter is the mode as the filter has it.
func (f flavour) filter() string { return strings.TrimSuffix(f.mode, chunked) }

// envoyBinary finds the Envoy of a version. A missing one fails the test: what
// was not run was not shown.
func envoyBinary(t testing.TB, version string) string {
	t.Helper()
	if bin := os.Getenv("ENVOY_BIN"); bin != "" && version == mainVersion {
		return bin
	}
	bin, err := filepath.Abs(filepath.Join("..", ".tools", "envoy", version, "bin", "envoy"))
	if err == nil {
		_, err = os.Stat(bin)
	}
	if err != nil {
		t.Fatalf("Envoy %s is not installed: run `make tools` (%v)", version, err)
	}
	return bin
}

// rig is a real Envoy between a client and an upstream, with a Server as its
// external processor. The handlers of both are the test's own.
type rig struct {
	flavour
	server   *Server
	serving  atomic.Pointer[Server]
	grpc     *grpc.Server
	handler  atomic.Pointer[http.HandlerFunc]
	upstream atomic.Pointer[http.HandlerFunc]
	loop     atomic.Pointer[string] // the listener that later round trips go to
	ports    map[string]int
	admin    string
	events   eventLog
	client   *http.Client
}

type rigOptions struct {
	wrap func(pb.ExternalProcessorServer) pb.ExternalProcessorServer
}

func newRig(t testing.TB, f flavour, opts rigOptions) *rig {
	t.Helper()
	r := &rig{flavour: f, client: &http.Client{Transport: &http.Transport{DisableCompression: true}}}
	up := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		(*r.upstream.Load())(w, req)
	}))
	up.Config.Protocols = new(http.Protocols)
	up.Config.Protocols.SetHTTP1(true)
	up.Config.Protocols.SetUnencryptedHTTP2(true)
	up.Start()
	t.Cleanup(up.Close)
	t.Cleanup(r.client.CloseIdleConnections)
	r.server = New(Options{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { (*r.handler.Load())(w, req) }),
		Match:   func(req *http.Request) bool { return req.Header.Get("X-Match") != "no" },
		Strip:   []string{"x-secret"},
		LoopURL: func() *url.URL { return &url.URL{Scheme: "http", Host: r.addr(*r.loop.Load())} },
		Secret:  []byte("shared"),
		Log:     slog.New(slog.DiscardHandler),
		Observe: r.events.add,
	})
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.grpc = grpc.NewServer(Codec())
	r.swap(r.server)
	var service pb.ExternalProcessorServer = r
	if opts.wrap != nil {
		service = opts.wrap(service)
	}
	pb.RegisterExternalProcessorServer(r.grpc, service)
	go func() { _ = r.grpc.Serve(lis) }()
	t.Cleanup(r.grpc.Stop)
	r.start(t, port(up.Listener), port(lis))
	r.on(copyHandler, upstreamOK)
	return r
}

// Process hands a stream to the Server that is in service.
func (r *rig) Process(st pb.ExternalProcessor_ProcessServer) error {
	return r.serving.Load().Process(st)
}

func (r *rig) swap(s *Server) { r.serving.Store(s) }

func port(l net.Listener) int { return l.Addr().(*net.TCPAddr).Port }

// on sets what the two sides do from now on.
func (r *rig) on(handler, upstream http.HandlerFunc) {
	r.loopTo("loop")
	r.handler.Store(&handler)
	r.upstream.Store(&upstream)
}

func (r *rig) loopTo(listener string) { r.loop.Store(&listener) }

func (r *rig) addr(listener string) string { return "127.0.0.1:" + strconv.Itoa(r.ports[listener]) }

func (r *rig) url(path string) string { return "http://" + r.addr("main") + path }

func (r *rig) start(t testing.TB, upstream, processor int) {
	t.Helper()
	type listener struct {
		Name, Mode, Processor                     string
		Filter, Disabled, FailOpen, ContentLength bool
	}
	with := func(l listener) listener {
		l.Filter, l.Mode, l.ContentLength = true, r.filter(), r.contentLength()
		return l
	}
	dir := t.TempDir()
	var config bytes.Buffer
	err := template.Must(template.ParseFiles("testdata/bootstrap.yaml")).Execute(&config, map[string]any{
		"Upstream": upstream, "ProcessorPort": processor,
		"Listeners": []listener{
			with(listener{Name: "main", Processor: "processor"}),
			with(listener{Name: "routed", Processor: "processor", Disabled: true}),
			with(listener{Name: "open", Processor: "nowhere", FailOpen: r.filter() == "override"}),
			{Name: "loop"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	path, adminPath := filepath.Join(dir, "envoy.yaml"), filepath.Join(dir, "admin")
	if err := os.WriteFile(path, config.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(envoyBinary(t, r.version), "-c", path, "--admin-address-path", adminPath,
		"--disable-hot-restart", "--concurrency", "2", "-l", "warning")
	var log lockedBuffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-exited
		if t.Failed() {
			t.Logf("Envoy's log:\n%s", log.String())
		}
	})
	r.await(t, adminPath, &log, exited)
}

// await reads the ports once Envoy is live.
func (r *rig) await(t testing.TB, adminPath string, log fmt.Stringer, exited <-chan struct{}) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		select {
		case <-exited:
			t.Fatalf("Envoy %s refused to start:\n%s", r.version, log)
		default:
		}
		addr, err := os.ReadFile(adminPath)
		if err != nil {
			continue
		}
		r.admin = "http://" + strings.TrimSpace(string(addr))
		if text, err := get(r.admin + "/ready"); err != nil || !strings.HasPrefix(text, "LIVE") {
			continue
		}
		text, err := get(r.admin + "/listeners?format=json")
		var list struct {
			Statuses []struct {
				Name  string `json:"name"`
				Local struct {
					Socket struct {
						Port int `json:"port_value"`
					} `json:"socket_address"`
				} `json:"local_address"`
			} `json:"listener_statuses"`
		}
		if err != nil || json.Unmarshal([]byte(text), &list) != nil || len(list.Statuses) < 4 {
			continue
		}
		r.ports = map[string]int{}
		for _, l := range list.Statuses {
			r.ports[l.Name] = l.Local.Socket.Port
		}
		return
	}
	t.Fatalf("Envoy %s did not come up:\n%s", r.version, log)
}

func get(url string) (string, error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

// stat is a counter of the main listener's ext_proc filter.
func (r *rig) stat(t testing.TB, name string) int {
	t.Helper()
	text, err := get(r.admin + "/stats?filter=" + url.QueryEscape(`^http\.main\.ext_proc\.`+name+"$"))
	if err != nil {
		t.Fatal(err)
	}
	_, value, _ := strings.Cut(strings.TrimSpace(text), ": ")
	n, err := strconv.Atoi(value)
	if err != nil {
		t.Fatalf("stat %s: %q", name, text)
	}
	return n
}

// clean fails the test if Envoy refused anything that the Server did.
func (r *rig) clean(t testing.TB) {
	t.Helper()
	for _, name := range []string{"spurious_msgs_received", "rejected_header_mutations", "message_timeouts"} {
		if n := r.stat(t, name); n != 0 {
			t.Errorf("%s: Envoy's %s = %d", r.flavour, name, n)
		}
	}
	if e := r.events.find(EventProtocol); e != nil {
		t.Errorf("%s: protocol error: %v", r.flavour, e.Err)
	}
}

type eventLog struct {
	mu     sync.Mutex
	events []Event
}

func (l *eventLog) add(_ context.Context, e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, e)
}

func (l *eventLog) find(kind EventKind) *Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.events {
		if l.events[i].Kind == kind {
			return &l.events[i]
		}
	}
	return nil
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// copyHandler forwards a request and copies the answer through, flushing as it
// comes.
func copyHandler(w http.ResponseWriter, r *http.Request) {
	resp, err := Transport().RoundTrip(r.Clone(r.Context()))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer resp.Body.Close()
	copyResponse(w, resp)
}

func copyResponse(w http.ResponseWriter, resp *http.Response) {
	for key, values := range resp.Header {
		w.Header()[key] = values
	}
	w.WriteHeader(resp.StatusCode)
	buf := make([]byte, 32<<10)
	for {
		n, err := resp.Body.Read(buf)
		if n > 0 {
			_, _ = w.Write(buf[:n])
			w.(http.Flusher).Flush()
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			panic(http.ErrAbortHandler)
		}
	}
	for key, values := range resp.Trailer {
		for _, value := range values {
			w.Header().Add(http.TrailerPrefix+key, value)
		}
	}
}

func upstreamOK(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	_, _ = io.WriteString(w, "upstream answer")
}

// rawRequest sends bytes as they are and returns the answer as it is.
func rawRequest(t testing.TB, addr, text string) string {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(bufio.NewReader(conn))
	if err != nil {
		t.Fatalf("%v after %q", err, b)
	}
	return string(b)
}

func withTimeout(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}
