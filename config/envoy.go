package config

import (
	"strconv"
	"strings"
	"time"
)

// Envoy shapes the bootstrap that `envoy-config` prints. Only use_mcp_egress
// changes what the service itself does.
type Envoy struct {
	// Main is the address clients call. Default 127.0.0.1:10000.
	Main string `yaml:"main"`
	// Loop is the address of the loop listener; keep it reachable by the service
	// only. Default: the address in llm.loop_url.
	Loop string `yaml:"loop"`
	// MCPEgress is the address of the listener that leads to HTTP MCP servers.
	// Default 127.0.0.1:10002.
	MCPEgress string `yaml:"mcp_egress"`
	// UseMCPEgress makes the service, and the command tools, reach HTTP MCP servers
	// through that listener, so that Envoy does their TLS, limits and logs;
	// servers.*.egress excepts one. Default false: it dials them directly.
	UseMCPEgress bool `yaml:"use_mcp_egress"`
	// Admin is Envoy's own admin address. Default 127.0.0.1:9901.
	Admin string `yaml:"admin"`
	// Service is where Envoy reaches this service. Default: listen.ext_proc.
	Service string `yaml:"service"`
	// ServiceTLS is how Envoy reaches it when listen.tls is set, as paths of PEM
	// files on Envoy's machine.
	ServiceTLS *ServiceTLS `yaml:"service_tls"`
	// Version is the oldest Envoy the bootstrap is for. Default "1.40".
	Version string `yaml:"version"`
	// Mode is override (needs Envoy 1.40; other requests on the route cost one
	// header exchange) or static (1.37 and later; fails closed). Default:
	// override, static before 1.40.
	Mode string `yaml:"mode"`
	// FailureModeAllow lets requests go on without tools and hidden history while
	// the service is down. Override mode only. Default false.
	FailureModeAllow bool `yaml:"failure_mode_allow"`
	// MaxConnectionDuration closes connections to the main and the loop listener at
	// this age, between requests, so that an Envoy which is to stop loses them
	// before. Default 0s: never.
	MaxConnectionDuration time.Duration `yaml:"max_connection_duration"`
	// Tracing makes Envoy send spans of its own, which belong to the same traces as
	// the service's. Absent: none.
	Tracing *Tracing `yaml:"tracing"`
	// CA is the bundle that verifies the provider and MCP servers. Default
	// /etc/ssl/certs/ca-certificates.crt.
	CA string `yaml:"ca"`
}

// ServiceTLS is Envoy's side of listen.tls.
type ServiceTLS struct {
	// CA verifies the service's certificate.
	CA string `yaml:"ca"`
	// Cert is Envoy's client certificate, for mTLS.
	Cert string `yaml:"cert"`
	// Key is its private key.
	Key string `yaml:"key"`
}

// Tracing is where Envoy's spans go. The service's own are configured by the
// standard variables of OpenTelemetry, such as OTEL_EXPORTER_OTLP_ENDPOINT.
type Tracing struct {
	// Collector takes OTLP over gRPC, as host:port.
	Collector string `yaml:"collector"`
	// ServiceName is the name that Envoy's spans have. Default envoy.
	ServiceName string `yaml:"service_name"`
	// Sampling is the percentage of requests that are traced, of those whose caller
	// has not decided. Default 100.
	Sampling float64 `yaml:"sampling"`
}

func (t *Tracing) setDefaults() {
	t.ServiceName = "envoy"
	t.Sampling = 100
}

func (t *Tracing) validate(r *report, path string) {
	r.address(join(path, "collector"), t.Collector)
	if t.ServiceName == "" {
		r.add(join(path, "service_name"), "must not be empty")
	}
	if !(t.Sampling >= 0 && t.Sampling <= 100) {
		r.add(join(path, "sampling"), "is a percentage, from 0 to 100")
	}
}

// Filter modes.
const (
	ModeOverride = "override"
	ModeStatic   = "static"
)

func (e *Envoy) setDefaults() {
	e.Main = "127.0.0.1:10000"
	e.MCPEgress = "127.0.0.1:10002"
	e.Admin = "127.0.0.1:9901"
	e.Version = "1.40"
	e.CA = "/etc/ssl/certs/ca-certificates.crt"
}

// Minor is the minor part of Version: 40 for 1.40 and 1.40.2.
func (e *Envoy) Minor() int {
	minor, _ := parseVersion(e.Version)
	return minor
}

// FilterMode is Mode, or what Version allows where Mode is not set.
func (e *Envoy) FilterMode() string {
	switch {
	case e.Mode != "":
		return e.Mode
	case e.Minor() < 40:
		return ModeStatic
	}
	return ModeOverride
}

func (e *Envoy) validate(r *report, path string) {
	r.address(join(path, "main"), e.Main)
	r.address(join(path, "mcp_egress"), e.MCPEgress)
	r.address(join(path, "admin"), e.Admin)
	for key, address := range map[string]string{"loop": e.Loop, "service": e.Service} {
		if address != "" {
			r.address(join(path, key), address)
		}
	}
	minor, ok := parseVersion(e.Version)
	if !ok || minor < 37 {
		r.add(join(path, "version"), "needs an Envoy version from 1.37 on, such as 1.40")
	}
	if e.Mode != "" {
		r.oneOf(join(path, "mode"), e.Mode, ModeOverride, ModeStatic)
	}
	if ok && minor < 40 && e.Mode == ModeOverride {
		r.add(join(path, "mode"), "override needs Envoy 1.40; use static, or leave mode out")
	}
	if e.MaxConnectionDuration < 0 {
		r.add(join(path, "max_connection_duration"), "must not be negative")
	}
	if e.FailureModeAllow && e.FilterMode() == ModeStatic {
		r.add(join(path, "failure_mode_allow"), "is not possible in static mode: Envoy cannot go on once body bytes have left it")
	}
	if e.Tracing != nil {
		e.Tracing.validate(r, join(path, "tracing"))
	}
	if t := e.ServiceTLS; t != nil && (t.CA == "" || (t.Cert == "") != (t.Key == "")) {
		r.add(join(path, "service_tls"), "needs ca, and cert and key together")
	}
}

// parseVersion takes 1.MINOR or 1.MINOR.PATCH.
func parseVersion(version string) (minor int, ok bool) {
	rest, found := strings.CutPrefix(version, "1.")
	if !found {
		return 0, false
	}
	head, _, _ := strings.Cut(rest, ".")
	minor, err := strconv.Atoi(head)
	return minor, err == nil
}
