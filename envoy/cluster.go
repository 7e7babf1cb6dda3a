package envoy

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const (
	connectTimeout = 10 * time.Second
	// upstreamIdle drops idle upstream connections before providers do (often
	// after 60 s): without retries, losing that race would fail a request.
	upstreamIdle = 50 * time.Second
	// maxStreams replaces Envoy's limit of 1024 requests at once a cluster: turns
	// are long and mostly wait.
	maxStreams = 65536
)

const httpOptions = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"

// origin is an upstream by scheme, host and port.
type origin struct {
	cluster, host, port string
	tls                 bool
	files               ServerTLS
}

func originOf(cluster string, u *url.URL) origin {
	secure := u.Scheme == "https"
	return origin{cluster: cluster, host: strings.ToLower(u.Hostname()), port: cmp.Or(u.Port(), defaultPort(secure)), tls: secure}
}

func defaultPort(secure bool) string {
	if secure {
		return "443"
	}
	return "80"
}

// origins are the MCP servers' upstreams, one for each authority.
func (b *builder) origins() []origin {
	var all []origin
	seen := map[string]bool{}
	for _, s := range b.MCPServers {
		o := originOf("mcp_"+s.Name, s.URL)
		o.files = s.TLS
		if !seen[o.authority()] {
			seen[o.authority()] = true
			all = append(all, o)
		}
	}
	return all
}

func (o origin) authority() string { return net.JoinHostPort(o.host, o.port) }

// oneTLS checks that servers with one upstream agree on how to reach it.
func (b *builder) oneTLS() {
	first := map[string]Server{}
	for _, s := range b.MCPServers {
		authority := originOf("", s.URL).authority()
		if other, known := first[authority]; !known {
			first[authority] = s
		} else if other.TLS != s.TLS {
			b.fail(fmt.Errorf("the MCP servers %s and %s are at one address, but their TLS settings differ", other.Name, s.Name))
		}
	}
}

func (b *builder) clusters() []*clusterv3.Cluster {
	clusters := []*clusterv3.Cluster{b.upstream(originOf(LLMCluster, b.LLM)), b.service()}
	for _, o := range b.origins() {
		clusters = append(clusters, b.upstream(o))
	}
	return append(clusters, b.collector()...)
}

// upstream is a provider or MCP server: HTTP/1.1 in plain text, over TLS what
// ALPN gives.
func (b *builder) upstream(o origin) *clusterv3.Cluster {
	options := &httpv3.HttpProtocolOptions{
		CommonHttpProtocolOptions: &corev3.HttpProtocolOptions{IdleTimeout: durationpb.New(upstreamIdle)},
	}
	c := b.cluster(o.cluster, o.host, o.port)
	if o.tls {
		options.UpstreamProtocolOptions = &httpv3.HttpProtocolOptions_AutoConfig{AutoConfig: &httpv3.HttpProtocolOptions_AutoHttpConfig{}}
		files := o.files.TLS
		files.CA = cmp.Or(files.CA, b.CA)
		c.TransportSocket = b.tls(cmp.Or(o.files.Name, o.host), files)
	} else {
		options.UpstreamProtocolOptions = &httpv3.HttpProtocolOptions_ExplicitHttpConfig_{ExplicitHttpConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig{
			ProtocolConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_HttpProtocolOptions{},
		}}
	}
	c.TypedExtensionProtocolOptions = map[string]*anypb.Any{httpOptions: b.any(options)}
	return c
}

// service is the external processor: gRPC, kept alive, so that a dead peer is
// noticed while a turn waits.
func (b *builder) service() *clusterv3.Cluster {
	host, port, err := net.SplitHostPort(b.Service)
	b.fail(err)
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	c := b.cluster(ServiceCluster, host, port)
	c.ConnectTimeout = durationpb.New(time.Second)
	if c.GetType() == clusterv3.Cluster_LOGICAL_DNS {
		replicas(c)
	}
	if b.ServiceTLS != nil {
		c.TransportSocket = b.tls(host, *b.ServiceTLS)
	}
	c.TypedExtensionProtocolOptions = map[string]*anypb.Any{httpOptions: b.any(&httpv3.HttpProtocolOptions{
		UpstreamProtocolOptions: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_{ExplicitHttpConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig{
			ProtocolConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{Http2ProtocolOptions: &corev3.Http2ProtocolOptions{
				ConnectionKeepalive: &corev3.KeepaliveSettings{
					Interval: durationpb.New(30 * time.Second),
					Timeout:  durationpb.New(10 * time.Second),
				},
			}},
		}},
	})}
	return c
}

// healthInterval is how often Envoy asks a replica how it does. Its name is looked
// up every 5 s, Envoy's default.
const healthInterval = 2 * time.Second

// replicas makes every address of the service's name a host of its own (a
// headless Service in Kubernetes), so that turns spread over all replicas and one
// that drains, or has died, gets no new ones.
func replicas(c *clusterv3.Cluster) {
	interval := durationpb.New(healthInterval)
	c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STRICT_DNS}
	c.LbPolicy = clusterv3.Cluster_LEAST_REQUEST // turns are few and long
	c.HealthChecks = []*corev3.HealthCheck{{
		Timeout:            durationpb.New(time.Second),
		Interval:           interval,
		NoTrafficInterval:  interval,
		UnhealthyThreshold: wrapperspb.UInt32(1),
		HealthyThreshold:   wrapperspb.UInt32(1),
		HealthChecker: &corev3.HealthCheck_GrpcHealthCheck_{GrpcHealthCheck: &corev3.HealthCheck_GrpcHealthCheck{
			ServiceName: extprocv3.ExternalProcessor_ServiceDesc.ServiceName,
		}},
	}}
	c.IgnoreHealthOnHostRemoval = true // else a host that DNS no longer names stays while it is healthy
}

func (b *builder) cluster(name, host, port string) *clusterv3.Cluster {
	number, err := strconv.ParseUint(port, 10, 16)
	b.fail(err)
	discovery := clusterv3.Cluster_LOGICAL_DNS
	if net.ParseIP(host) != nil {
		discovery = clusterv3.Cluster_STATIC
	}
	return &clusterv3.Cluster{
		Name:                 name,
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: discovery},
		DnsLookupFamily:      clusterv3.Cluster_V4_PREFERRED,
		ConnectTimeout:       durationpb.New(connectTimeout),
		CircuitBreakers: &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{{
			MaxConnections:     wrapperspb.UInt32(maxStreams),
			MaxPendingRequests: wrapperspb.UInt32(maxStreams),
			MaxRequests:        wrapperspb.UInt32(maxStreams),
		}}},
		LoadAssignment: &endpointv3.ClusterLoadAssignment{
			ClusterName: name,
			Endpoints: []*endpointv3.LocalityLbEndpoints{{LbEndpoints: []*endpointv3.LbEndpoint{{
				HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{
					Address: socket(host, uint32(number)),
				}},
			}}}},
		},
	}
}

// tls verifies the upstream by CA and by its name. A literal IP has no SNI (RFC
// 6066, section 3), so its certificate must name the IP.
func (b *builder) tls(host string, files TLS) *corev3.TransportSocket {
	validation := &tlsv3.CertificateValidationContext{TrustedCa: file(files.CA)}
	common := &tlsv3.CommonTlsContext{
		ValidationContextType: &tlsv3.CommonTlsContext_ValidationContext{ValidationContext: validation},
	}
	if files.Cert != "" {
		common.TlsCertificates = []*tlsv3.TlsCertificate{{CertificateChain: file(files.Cert), PrivateKey: file(files.Key)}}
	}
	context := &tlsv3.UpstreamTlsContext{CommonTlsContext: common}
	if net.ParseIP(host) == nil {
		context.Sni = host
		context.AutoSniSanValidation = true
	} else {
		validation.MatchTypedSubjectAltNames = []*tlsv3.SubjectAltNameMatcher{{
			SanType: tlsv3.SubjectAltNameMatcher_IP_ADDRESS,
			Matcher: &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: host}},
		}}
	}
	return &corev3.TransportSocket{
		Name:       "envoy.transport_sockets.tls",
		ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: b.any(context)},
	}
}

func file(path string) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: path}}
}
