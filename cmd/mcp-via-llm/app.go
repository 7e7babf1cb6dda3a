package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"reflect"
	"sync"
	"sync/atomic"

	"github.com/mcp-via-llm/mcp-via-llm/admin"
	"github.com/mcp-via-llm/mcp-via-llm/chat"
	"github.com/mcp-via-llm/mcp-via-llm/config"
	"github.com/mcp-via-llm/mcp-via-llm/envoy"
	"github.com/mcp-via-llm/mcp-via-llm/extproc"
	"github.com/mcp-via-llm/mcp-via-llm/loop"
	"github.com/mcp-via-llm/mcp-via-llm/mcp"
	"github.com/mcp-via-llm/mcp-via-llm/policy"
	"github.com/mcp-via-llm/mcp-via-llm/schema"
	"github.com/mcp-via-llm/mcp-via-llm/sessions"
	"github.com/mcp-via-llm/mcp-via-llm/telemetry"
)

// app is what all requests share. Its snapshot is swapped as a whole.
type app struct {
	log       *slog.Logger
	telemetry *telemetry.Telemetry
	host      *mcp.Host
	store     sessions.Store
	memory    *loop.Memory
	turns     admin.Turns
	limits    policy.Limits
	audit     *policy.Audit
	short     shortage
	repeated  sync.Map // headers in which a caller repeated its LLM credential, once said
	current   atomic.Pointer[snapshot]
}

// snapshot is one valid configuration with the handlers made from it. A request
// takes it once, so a running turn keeps what it began with.
type snapshot struct {
	app      *app
	config   *config.Config
	clients  map[string]*loop.Client
	profiles map[string]*policy.Profile
	loopURL  *url.URL
	callers  []header     // by which MCP servers tell callers apart
	unsafe   []header     // that MCP servers get, if they do not repeat the LLM credential
	proof    string       // the header that proves who sent a request; "" for none
	behind   http.Handler // behind Envoy
	direct   http.Handler // on net/http, without Envoy
}

func newApp(cfg *config.Config, log *slog.Logger, t *telemetry.Telemetry) (*app, error) {
	a := &app{log: log, telemetry: t}
	var err error
	if a.store, err = a.openStore(cfg.Store); err != nil {
		return nil, err
	}
	a.memory = loop.NewMemory(a.store, log, t.Session)
	number, _ := build()
	options := mcp.Options{
		Servers:   mcpServers(cfg),
		Log:       log,
		Version:   number,
		Observe:   a.callEnded,
		Telemetry: mcp.Telemetry{Meters: t.Meters(), Propagator: t.Propagator},
	}
	if t.Tracing() {
		options.Telemetry.Traces = t.Traces
	}
	options.Egress = egress(cfg)
	a.host = mcp.NewHost(options)
	a.audit = a.newAudit(cfg)
	a.swap(cfg)
	return a, t.Observe(a.state)
}

// egress is where HTTP MCP servers are dialled; nil: at their own address.
func egress(cfg *config.Config) *url.URL {
	if !cfg.Envoy.UseMCPEgress {
		return nil
	}
	return &url.URL{Scheme: "http", Host: cfg.Envoy.MCPEgress}
}

// swap puts a configuration in force for new requests.
func (a *app) swap(cfg *config.Config) {
	s := newSnapshot(a, cfg)
	options := s.options()
	s.behind = loop.New(options)
	if cfg.LLM.BaseURL != "" {
		options.Transport = &direct{base: mustParse(cfg.LLM.BaseURL), next: directTransport}
		options.Aside = options.Transport
		s.direct = loop.New(options)
	}
	for _, w := range cfg.Warnings() {
		a.log.Warn("the configuration is valid, and may not be what is meant", "file", w.File, "line", w.Line, "key", w.Key, "problem", w.Text)
	}
	a.limits.Update(limits(cfg))
	a.audit.Update(cfg.Audit.Target())
	a.current.Store(s)
	a.begin(cfg)
}

// newSnapshot prepares what requests need of a configuration.
func newSnapshot(a *app, cfg *config.Config) *snapshot {
	return &snapshot{
		app: a, config: cfg, clients: loopClients(cfg), profiles: profiles(cfg), loopURL: mustParse(cfg.LLM.LoopURL),
		callers: headers(fromCallers(cfg)), unsafe: headers(forwarded(cfg)), proof: http.CanonicalHeaderKey(cfg.Identity.Header),
	}
}

// options are those of the snapshot's handler behind Envoy.
func (s *snapshot) options() loop.Options {
	options := loop.Options{
		Client:           s.client,
		Tools:            s.tools,
		Transport:        extproc.Transport(),
		Aside:            extproc.Aside(),
		Memory:           s.app.memory,
		Identity:         s.identity,
		Private:          private(s.config),
		Degrade:          s.config.Store.OnError == config.OnErrorDegrade,
		MaxRequestBytes:  s.config.MaxRequestBytes,
		MaxResponseBytes: s.config.MaxResponseBytes,
		Log:              s.app.log,
	}
	s.app.observed(&options, s.config)
	return options
}

// mustParse parses a URL that the configuration has validated.
func mustParse(s string) *url.URL {
	u, err := url.Parse(s)
	if err != nil {
		panic(err)
	}
	return u
}

// changed applies a new configuration: servers first, so that its profiles find
// theirs.
func (a *app) changed(cfg *config.Config) {
	old := a.current.Load().config
	for name, same := range map[string]bool{
		"listen":               reflect.DeepEqual(old.Listen, cfg.Listen),
		"store":                reflect.DeepEqual(old.Store, cfg.Store),
		"log":                  old.Log == cfg.Log,
		"envoy.use_mcp_egress": reflect.DeepEqual(egress(old), egress(cfg)),
	} {
		if !same {
			a.log.Warn("a changed setting needs a restart; the rest of the new configuration is in force", "key", name)
		}
	}
	a.host.Update(mcpServers(cfg))
	a.swap(cfg)
	a.telemetry.Reload(telemetry.ReloadApplied)
	a.log.Info("the new configuration is in force")
}

func (a *app) refused(err error) {
	a.telemetry.Reload(telemetry.ReloadRefused)
	a.log.Error("the changed configuration is refused, the old one stays in force", "err", err)
}

// serveBehind and serveDirect are the handlers that outlive snapshots.
func (a *app) serveBehind(w http.ResponseWriter, r *http.Request) {
	a.current.Load().behind.ServeHTTP(w, r)
}

func (a *app) serveDirect(w http.ResponseWriter, r *http.Request) {
	handler := a.current.Load().direct
	if handler == nil { // a reload has removed it
		http.Error(w, "llm.base_url is not configured", http.StatusServiceUnavailable)
		return
	}
	handler.ServeHTTP(w, r)
}

// client chooses the profile of a request by what Envoy's route says.
func (s *snapshot) client(r *http.Request) (*loop.Client, error) {
	var named, route string
	if info, ok := extproc.InfoFrom(r.Context()); ok {
		if info.Looped {
			return nil, errLooped
		}
		route = info.Attributes["xds.route_name"]
		if values := info.Metadata(envoy.ClientMetadata); len(values) > 0 {
			named = values[0]
		}
	}
	if client := s.clients[s.config.NameFor(named, route)]; client != nil {
		return client, nil
	}
	_, _, err := s.config.ClientFor(named, route)
	return nil, err
}

// errLooped answers the service's own request that came back through the filter.
var errLooped = &chat.Error{
	Status: http.StatusLoopDetected,
	Type:   "server_error",
	Code:   "loop_detected",
	Message: "A request of this service to Envoy's loop listener came back to the service. The loop listener " +
		"(llm.loop_url) must have the routes of the main listener and no ext_proc filter for this service.",
}

// query asks for what a client profile gets of these servers.
func query(c *loop.Client, servers []string, header http.Header, rules *policy.Profile) mcp.Query {
	return mcp.Query{
		Servers: servers, Header: header, MaxTools: c.MaxTools, MaxBytes: c.MaxToolsBytes, Resources: c.Resources, Prompts: c.Prompts,
		Filter: filter{rules}, Schema: schema.Dialect(c.SchemaDialect),
	}
}

func (s *snapshot) tools(ctx context.Context, c *loop.Client, servers []string, r *http.Request, identity string, taken []string) loop.Tools {
	set := s.app.host.Toolset(ctx, query(c, servers, s.forwardable(ctx, r.Header), s.profiles[c.Name]))
	bound := set.Bind(taken)
	s.app.omitted(ctx, c, bound, len(taken))
	return &toolset{Binding: bound, set: set, servers: servers, guard: s.guard(c, r, identity)}
}

// observe is told of external-processing streams. Of an exchange that the client, or
// Envoy, has ended the turn's own line tells.
func (a *app) observe(ctx context.Context, e extproc.Event) {
	a.telemetry.ExtProc(string(e.Kind), string(e.Outcome))
	if e.Err == nil {
		return
	}
	level := slog.LevelWarn
	if e.Outcome == extproc.OutcomeClientGone || e.Outcome == extproc.OutcomeForeign {
		level = slog.LevelDebug
	}
	a.log.Log(ctx, level, fmt.Sprintf("external processing: %s", e.Kind), "err", e.Err)
}
