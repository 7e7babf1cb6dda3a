// Package envoy builds the Envoy configuration of the service as typed protos:
// a main listener whose ext_proc filter is off until a route turns it on, a loop
// listener with the same routes and no filter, an egress listener for MCP
// servers, and their clusters.
package envoy

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// Names in the configuration.
const (
	MainListener      = "main"
	LoopListener      = "loop"
	MCPEgressListener = "mcp_egress"
	LLMCluster        = "llm"
	ServiceCluster    = "mcp_via_llm"
	FilterName        = "mcp_via_llm"
	// HopHeader marks the service's own requests to the loop listener. Routes
	// remove it, so it never reaches a provider.
	HopHeader = "x-mcp-via-llm-hop"
	// ClientMetadata is the gRPC metadata by which a route names a client profile.
	ClientMetadata = "x-mcp-client"
)

// ownHeaders are for the service alone. It sees them, because routes remove
// headers when the router sends a request on, after all filters; providers do
// not, whether or not the request went through the service.
var ownHeaders = []string{HopHeader, "x-mcp-via-llm", "x-mcp-servers", "x-mcp-session"}

// Mode is how the filter gets the bodies.
type Mode string

const (
	// Override asks for headers only; the service takes the bodies of the
	// requests that are its own by a mode override. Needs Envoy 1.40.
	Override Mode = "override"
	// Static sends every body of the route to the service. Envoy 1.37 and later;
	// always fails closed.
	Static Mode = "static"
)

// Options describe one Envoy. Addresses are host:port, with a literal IP where
// Envoy listens.
type Options struct {
	Main, Loop, MCPEgress, Admin string
	// Service is where Envoy reaches the external processor.
	Service    string
	ServiceTLS *TLS // nil: plain text
	// LLM is the provider's base URL, such as https://api.openai.com/v1. Clients
	// use /v1 at the main listener, whatever its path is.
	LLM        *url.URL
	MCPServers []Server
	// Private are request headers that are meant for MCP servers: they do not go to
	// the provider, even while the service is down.
	Private []string
	// Routes get the filter. Default: DefaultRoute.
	Routes []Route
	Mode   Mode
	// Minor is the oldest Envoy to serve, 40 for 1.40. Default 40.
	Minor int
	// FailOpen lets requests go on untouched while the service is down. Override
	// mode only.
	FailOpen bool
	// MaxConnectionDuration closes connections to main and loop at this age, between
	// requests. Default: never.
	MaxConnectionDuration time.Duration
	// CA is the bundle that verifies https upstreams. Default
	// /etc/ssl/certs/ca-certificates.crt.
	CA string
	// Tracing, if set, makes Envoy trace what goes through all three listeners.
	Tracing *Tracing
	// LongestTurn is the largest loop timeout of all clients. Default 5m.
	LongestTurn time.Duration
}

// TLS is how Envoy reaches an upstream, as paths of PEM files.
type TLS struct{ CA, Cert, Key string }

// Server is an MCP server reached by URL.
type Server struct {
	Name string
	URL  *url.URL
	TLS  ServerTLS
}

// ServerTLS is how Envoy reaches an https server. Default: Options.CA, no client
// certificate, the name in the URL.
type ServerTLS struct {
	TLS
	Name string
}

// Route is a path of the main listener with the filter on.
type Route struct {
	Name   string // the attribute xds.route_name
	Path   string // exact
	Client string // client profile; "": the service decides
}

// DefaultRoute is the path of OpenAI's chat completions.
var DefaultRoute = Route{Name: "chat", Path: "/v1/chat/completions"}

// Bootstrap builds a complete static configuration.
func Bootstrap(o Options) (*bootstrapv3.Bootstrap, error) {
	if o.LLM == nil || o.LLM.Hostname() == "" {
		return nil, errors.New("the LLM's URL needs a host")
	}
	if o.Mode == Static && o.FailOpen {
		return nil, errors.New("static mode cannot fail open: body bytes have left Envoy when the service fails")
	}
	o.Minor = cmp.Or(o.Minor, 40)
	if o.Mode = cmp.Or(o.Mode, Override); o.Mode == Override && o.Minor < 40 {
		return nil, fmt.Errorf("override mode needs Envoy 1.40, not 1.%d", o.Minor)
	}
	o.CA = cmp.Or(o.CA, "/etc/ssl/certs/ca-certificates.crt")
	o.LongestTurn = cmp.Or(o.LongestTurn, 5*time.Minute)
	if len(o.Routes) == 0 {
		o.Routes = []Route{DefaultRoute}
	}
	b := &builder{Options: o}
	b.oneTLS()
	bootstrap := &bootstrapv3.Bootstrap{
		Node:  &corev3.Node{Id: "mcp-via-llm", Cluster: "mcp-via-llm"},
		Admin: &bootstrapv3.Admin{Address: b.listenAddress("admin", o.Admin)},
		StaticResources: &bootstrapv3.Bootstrap_StaticResources{
			Listeners: b.listeners(),
			Clusters:  b.clusters(),
		},
	}
	return bootstrap, errors.Join(b.errs...)
}

// builder collects problems so that the building reads straight.
type builder struct {
	Options
	errs []error
}

func (b *builder) fail(err error) {
	if err != nil {
		b.errs = append(b.errs, err)
	}
}

// listenAddress is where Envoy listens: a literal IP, or localhost.
func (b *builder) listenAddress(what, address string) *corev3.Address {
	host, port, err := splitAddress(address)
	switch {
	case err != nil:
		b.fail(fmt.Errorf("%s: %w", what, err))
	case host == "localhost":
		host = "127.0.0.1"
	case host == "":
		host = "0.0.0.0"
	case net.ParseIP(host) == nil:
		b.fail(fmt.Errorf("%s: Envoy listens on an IP address, and %q is a name", what, host))
	}
	return socket(host, port)
}

func splitAddress(address string) (host string, port uint32, err error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, err
	}
	number, err := strconv.ParseUint(text, 10, 16)
	return host, uint32(number), err
}

func socket(host string, port uint32) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address:       host,
		PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: port},
	}}}
}
