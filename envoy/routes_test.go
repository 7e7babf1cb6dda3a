package envoy

import (
	"slices"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
)

// managers gives the HTTP connection managers by listener.
func managers(t *testing.T, o Options) map[string]*hcmv3.HttpConnectionManager {
	t.Helper()
	b, err := Bootstrap(o)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*hcmv3.HttpConnectionManager{}
	for _, l := range b.StaticResources.Listeners {
		m := &hcmv3.HttpConnectionManager{}
		if err := l.FilterChains[0].Filters[0].GetTypedConfig().UnmarshalTo(m); err != nil {
			t.Fatal(err)
		}
		all[l.Name] = m
	}
	return all
}

func TestLoopSharesTheRoutesAndHasNoFilter(t *testing.T) {
	all := managers(t, base(t))
	mainManager, loop := all[MainListener], all[LoopListener]
	if !proto.Equal(mainManager.GetRouteConfig(), loop.GetRouteConfig()) {
		t.Error("the routes differ")
	}
	if len(loop.HttpFilters) != 1 || len(mainManager.HttpFilters) != 2 || !mainManager.HttpFilters[0].Disabled {
		t.Errorf("filters: loop %v, main %v", loop.HttpFilters, mainManager.HttpFilters)
	}
	if got := mainManager.GetRouteConfig().RequestHeadersToRemove; !slices.Equal(got, []string{HopHeader, "x-mcp-via-llm", "x-mcp-servers", "x-mcp-session"}) {
		t.Errorf("what is for the service alone leaves Envoy: removed is only: %q", got)
	}
}

// A retry policy would send the body twice, a timeout would cut the answer.
func TestNoRetriesAndNoTimeouts(t *testing.T) {
	o := base(t)
	o.LongestTurn = 20 * time.Minute
	o.MCPServers = []Server{{Name: "a", URL: mustURL(t, "https://mcp.example.com/mcp")}}
	for name, m := range managers(t, o) {
		for _, host := range m.GetRouteConfig().VirtualHosts {
			for _, r := range host.Routes {
				if a := r.GetRoute(); a.RetryPolicy != nil || a.Timeout == nil || a.Timeout.AsDuration() != 0 || host.RetryPolicy != nil {
					t.Errorf("%s, %s: %v", name, r.Name, a)
				}
			}
		}
		if idle := m.StreamIdleTimeout.AsDuration(); idle != 0 && idle <= o.LongestTurn {
			t.Errorf("%s: stream idle timeout %v", name, idle)
		}
	}
}

func TestRewrites(t *testing.T) {
	for llm, want := range map[string]map[string]string{
		"https://api.openai.com/v1": {"chat": "", "other": ""},
		"http://127.0.0.1:8000":     {"chat": "/chat/completions", "api": "/", "other": ""},
		"https://h/api/v3/":         {"chat": "/api/v3/chat/completions", "api": "/api/v3/", "other": ""},
		"https://generativelanguage.googleapis.com/v1beta/openai": {"chat": "/v1beta/openai/chat/completions", "api": "/v1beta/openai/", "other": ""},
	} {
		o := base(t)
		o.LLM = mustURL(t, llm)
		got := map[string]string{}
		for _, r := range managers(t, o)[MainListener].GetRouteConfig().VirtualHosts[0].Routes {
			got[r.Name] = r.GetRoute().PrefixRewrite
			if host := r.GetRoute().GetHostRewriteLiteral(); host != o.LLM.Host {
				t.Errorf("%s: host %q", llm, host)
			}
			if on := len(r.TypedPerFilterConfig) > 0; on != (r.Name == "chat") {
				t.Errorf("%s, %s: filter on is %v", llm, r.Name, on)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s: %v", llm, got)
		}
		for name, rewrite := range want {
			if got[name] != rewrite {
				t.Errorf("%s, %s: rewrite %q, want %q", llm, name, got[name], rewrite)
			}
		}
	}
}

func TestRouteNamesTheClient(t *testing.T) {
	o := base(t)
	o.Routes = []Route{{Name: "a", Path: "/a/v1/chat/completions", Client: "team-a"}, DefaultRoute}
	want := []string{"team-a", ""}
	for i, r := range managers(t, o)[MainListener].GetRouteConfig().VirtualHosts[0].Routes[:2] {
		perRoute := &extprocv3.ExtProcPerRoute{}
		if err := r.TypedPerFilterConfig[FilterName].UnmarshalTo(perRoute); err != nil {
			t.Fatal(err)
		}
		var client string
		for _, h := range perRoute.GetOverrides().GrpcInitialMetadata {
			if h.Key == ClientMetadata {
				client = h.Value
			}
		}
		if client != want[i] {
			t.Errorf("%s: client %q, want %q", r.Name, client, want[i])
		}
	}
}

func TestEgressByAuthority(t *testing.T) {
	o := base(t)
	o.MCPServers = []Server{
		{Name: "a", URL: mustURL(t, "https://MCP.example.com/a")},
		{Name: "b", URL: mustURL(t, "https://mcp.example.com:443/b")},
		{Name: "c", URL: mustURL(t, "http://[::1]:8090/mcp")},
		{Name: "d", URL: mustURL(t, "http://plain.example.com")},
	}
	var got [][]string
	hosts := managers(t, o)[MCPEgressListener].GetRouteConfig().VirtualHosts
	for _, h := range hosts {
		got = append(got, append([]string{cluster(h)}, h.Domains...))
	}
	want := [][]string{
		{"mcp_a", "mcp.example.com", "mcp.example.com:443"},
		{"mcp_c", "[::1]:8090"},
		{"mcp_d", "plain.example.com", "plain.example.com:80"},
	}
	if !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// An MCP server's TLS settings are those of its cluster, whose other clients they
// do not concern.
func TestServerTLS(t *testing.T) {
	o := base(t)
	o.MCPServers = []Server{
		{Name: "a", URL: mustURL(t, "https://a.example.com"), TLS: ServerTLS{TLS: TLS{CA: "/ca", Cert: "/cert", Key: "/key"}, Name: "mcp.internal"}},
		{Name: "b", URL: mustURL(t, "https://b.example.com")},
	}
	b, err := Bootstrap(o)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, c := range b.StaticResources.Clusters {
		var tls tlsv3.UpstreamTlsContext
		if c.TransportSocket == nil {
			continue
		}
		if err := c.TransportSocket.GetTypedConfig().UnmarshalTo(&tls); err != nil {
			t.Fatal(err)
		}
		common := tls.CommonTlsContext
		got[c.Name] = tls.Sni + " " + common.GetValidationContext().GetTrustedCa().GetFilename()
		for _, pair := range common.TlsCertificates {
			got[c.Name] += " " + pair.CertificateChain.GetFilename() + " " + pair.PrivateKey.GetFilename()
		}
	}
	const system = " /etc/ssl/certs/ca-certificates.crt"
	if got["mcp_a"] != "mcp.internal /ca /cert /key" || got["mcp_b"] != "b.example.com"+system || got[LLMCluster] != "api.openai.com"+system {
		t.Errorf("%q", got)
	}
}

// Headers that callers mean for MCP servers do not go to the provider.
func TestPrivateHeaders(t *testing.T) {
	o := base(t)
	o.Private = []string{"x-user-token"}
	for name, m := range managers(t, o) {
		if got := m.GetRouteConfig().RequestHeadersToRemove; slices.Contains(got, "x-user-token") != (name != MCPEgressListener) {
			t.Errorf("%s removes %q", name, got)
		}
	}
}

// Behind a name there may be several replicas: each is a host, asked for its
// health and dropped once DNS does not name it, however healthy it says it is.
func TestReplicas(t *testing.T) {
	for service, several := range map[string]bool{"127.0.0.1:9002": false, "[::1]:9002": false, "mcp-via-llm.example:9002": true} {
		o := base(t)
		o.Service = service
		b, err := Bootstrap(o)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range b.StaticResources.Clusters {
			if c.Name != ServiceCluster {
				continue
			}
			strict := c.GetType() == clusterv3.Cluster_STRICT_DNS
			if strict != several || (len(c.HealthChecks) == 1) != several || c.IgnoreHealthOnHostRemoval != several {
				t.Errorf("%s: %v", service, c)
			}
		}
	}
}

func cluster(h *routev3.VirtualHost) string { return h.Routes[0].GetRoute().GetCluster() }

func TestFilterFields(t *testing.T) {
	for name, row := range map[string]struct {
		mode  Mode
		minor int
		want  bool
	}{"1.37": {Static, 37, false}, "1.38": {Static, 38, true}, "1.40": {Override, 40, true}} {
		o := base(t)
		o.Mode, o.Minor = row.mode, row.minor
		f := &extprocv3.ExternalProcessor{}
		if err := managers(t, o)[MainListener].HttpFilters[0].GetTypedConfig().UnmarshalTo(f); err != nil {
			t.Fatal(err)
		}
		if f.AllowContentLengthHeader != row.want || f.AllowModeOverride != (row.mode == Override) || f.FailureModeAllow || f.GrpcService.Timeout != nil {
			t.Errorf("%s: %v", name, f)
		}
	}
}
