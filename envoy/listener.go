package envoy

import (
	"net"
	"slices"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/types/known/durationpb"
)

// idleMargin is how far the stream idle timeout lies above the longest turn: the
// service's own limit is the shorter one, and its error is in band.
const idleMargin = time.Minute

func (b *builder) listeners() []*listenerv3.Listener {
	routes, idle := b.llmRoutes(), b.LongestTurn+idleMargin
	return []*listenerv3.Listener{
		b.listener(MainListener, b.Main, routes, idle, b.filter()),
		b.listener(LoopListener, b.Loop, routes, idle),
		// MCP streams may be silent for hours; the MCP host has its own limits.
		b.listener(MCPEgressListener, b.MCPEgress, b.mcpRoutes(), 0),
	}
}

func (b *builder) listener(name, address string, routes *routev3.RouteConfiguration, idle time.Duration, filters ...*hcmv3.HttpFilter) *listenerv3.Listener {
	manager := &hcmv3.HttpConnectionManager{
		StatPrefix:        name,
		RouteSpecifier:    &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: routes},
		StreamIdleTimeout: durationpb.New(idle),
		Tracing:           b.tracing(),
		// The provider's own header and scheme go through as they are.
		ServerHeaderTransformation: hcmv3.HttpConnectionManager_PASS_THROUGH,
		SchemeHeaderTransformation: &corev3.SchemeHeaderTransformation{MatchUpstream: true},
		HttpFilters: append(filters, &hcmv3.HttpFilter{
			Name: "envoy.filters.http.router",
			ConfigType: &hcmv3.HttpFilter_TypedConfig{
				TypedConfig: b.any(&routerv3.Router{SuppressEnvoyHeaders: true}),
			},
		}),
	}
	if b.MaxConnectionDuration > 0 && name != MCPEgressListener {
		manager.CommonHttpProtocolOptions = &corev3.HttpProtocolOptions{MaxConnectionDuration: durationpb.New(b.MaxConnectionDuration)}
		// Closed with the next answer, not under a request that is on its way.
		manager.Http1SafeMaxConnectionDuration = true
	}
	return &listenerv3.Listener{
		Name:    name,
		Address: b.listenAddress(name, address),
		FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{
			Name:       "envoy.filters.network.http_connection_manager",
			ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: b.any(manager)},
		}}}},
	}
}

// llmRoutes is the one route configuration of main and loop, so that rewrites
// and timeouts are the same for every segment. It has no retry policy: a retry
// would send a streamed body twice (envoyproxy/envoy#45470).
func (b *builder) llmRoutes() *routev3.RouteConfiguration {
	base := strings.TrimSuffix(b.LLM.Path, "/")
	var routes []*routev3.Route
	for _, r := range b.Routes {
		route := b.toLLM(r.Name, &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Path{Path: r.Path}})
		if rest, ok := strings.CutPrefix(r.Path, "/v1/"); ok && base != "/v1" {
			route.GetRoute().PrefixRewrite = base + "/" + rest
		}
		route.TypedPerFilterConfig = b.enabled(r.Client)
		routes = append(routes, route)
	}
	if base != "/v1" {
		route := b.toLLM("api", prefix("/v1/"))
		route.GetRoute().PrefixRewrite = base + "/"
		routes = append(routes, route)
	}
	routes = append(routes, b.toLLM("other", prefix("/")))
	return &routev3.RouteConfiguration{
		Name:                   "llm",
		VirtualHosts:           []*routev3.VirtualHost{{Name: "llm", Domains: []string{"*"}, Routes: routes}},
		RequestHeadersToRemove: slices.Concat(ownHeaders, b.Private),
	}
}

func (b *builder) toLLM(name string, match *routev3.RouteMatch) *routev3.Route {
	action := toCluster(LLMCluster)
	action.HostRewriteSpecifier = &routev3.RouteAction_HostRewriteLiteral{HostRewriteLiteral: b.LLM.Host}
	return &routev3.Route{Name: name, Match: match, Action: &routev3.Route_Route{Route: action}}
}

// mcpRoutes finds each MCP server by the authority of its URL.
func (b *builder) mcpRoutes() *routev3.RouteConfiguration {
	config := &routev3.RouteConfiguration{Name: "mcp"}
	for _, s := range b.origins() {
		config.VirtualHosts = append(config.VirtualHosts, &routev3.VirtualHost{
			Name:    s.cluster,
			Domains: s.domains(),
			Routes: []*routev3.Route{{
				Name:   s.cluster,
				Match:  prefix("/"),
				Action: &routev3.Route_Route{Route: toCluster(s.cluster)},
			}},
		})
	}
	return config
}

// domains are the spellings of the origin's authority: clients leave out the
// default port, or not.
func (o origin) domains() []string {
	full := net.JoinHostPort(o.host, o.port)
	if o.port != defaultPort(o.tls) {
		return []string{full}
	}
	return []string{strings.TrimSuffix(full, ":"+o.port), full}
}

func prefix(p string) *routev3.RouteMatch {
	return &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: p}}
}

// toCluster has no timeout: a route's timeout would cover the whole answer.
func toCluster(name string) *routev3.RouteAction {
	return &routev3.RouteAction{
		ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: name},
		Timeout:          durationpb.New(0),
	}
}
