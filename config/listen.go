package config

import (
	"net"
	"net/url"
	"strconv"
)

// Listen holds the addresses of the service, each as host:port.
type Listen struct {
	// ExtProc is the gRPC address of the external processor and of
	// grpc.health.v1. Default 127.0.0.1:9002.
	ExtProc string `yaml:"ext_proc"`
	// TLS secures the ext_proc address. Absent: plain text, for loopback and
	// pod-local use.
	TLS *TLS `yaml:"tls"`
	// Admin serves /healthz, /readyz, /metrics and /debug. Never expose it.
	// Default 127.0.0.1:9003; "" turns it off.
	Admin string `yaml:"admin"`
	// Metrics serves /healthz, /readyz and /metrics alone, for probes and
	// Prometheus, which reach a pod from outside. Default "" (off).
	Metrics string `yaml:"metrics"`
	// HTTP is the development mode without Envoy: the same handler on net/http. Every
	// request has the profile default, whatever its headers say (x-mcp-client is gRPC
	// metadata, not a header). Needs llm.base_url. Default "" (off).
	HTTP string `yaml:"http"`
}

// TLS is the identity of the ext_proc server, as paths of PEM files. They are
// read at every handshake, so renewed files are taken up.
type TLS struct {
	// Cert is the certificate chain.
	Cert string `yaml:"cert"`
	// Key is the private key.
	Key string `yaml:"key"`
	// ClientCA verifies the caller: with it a client certificate is required
	// (mTLS), without it none is asked for.
	ClientCA string `yaml:"client_ca"`
}

func (l *Listen) setDefaults() {
	l.ExtProc = "127.0.0.1:9002"
	l.Admin = "127.0.0.1:9003"
}

func (l *Listen) validate(r *report, path string) {
	r.address(join(path, "ext_proc"), l.ExtProc)
	if l.Admin != "" {
		r.address(join(path, "admin"), l.Admin)
	}
	if l.Metrics != "" {
		r.address(join(path, "metrics"), l.Metrics)
	}
	if l.HTTP != "" {
		r.address(join(path, "http"), l.HTTP)
	}
	if l.TLS != nil && (l.TLS.Cert == "" || l.TLS.Key == "") {
		r.add(join(path, "tls"), "needs both cert and key")
	}
}

// LLM says where the provider is reached.
type LLM struct {
	// LoopURL is Envoy's loop listener: segments 2 and later go here, with the
	// client's own path, authority and headers. Scheme and host only. Default
	// http://127.0.0.1:10001.
	LoopURL string `yaml:"loop_url"`
	// BaseURL is the provider's base URL, such as https://api.openai.com/v1. The
	// service itself uses it for listen.http only; envoy-config makes the llm
	// cluster from it.
	BaseURL string `yaml:"base_url"`
}

func (l *LLM) setDefaults() { l.LoopURL = "http://127.0.0.1:10001" }

func (l *LLM) validate(r *report, path string) {
	if u := r.httpURL(join(path, "loop_url"), l.LoopURL); u != nil && (u.Path != "" && u.Path != "/" || u.RawQuery != "") {
		r.add(join(path, "loop_url"), "must be scheme and host only, because requests keep the client's own path")
	}
	if l.BaseURL == "" {
		return
	}
	if u := r.httpURL(join(path, "base_url"), l.BaseURL); u != nil && (u.RawQuery != "" || u.User != nil) {
		r.add(join(path, "base_url"), "must not carry a query or credentials")
	}
}

// address reports whether value is host:port with a numeric port.
func (r *report) address(path, value string) {
	_, port, err := net.SplitHostPort(value)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		r.add(path, "is not an address of the form host:port, such as 127.0.0.1:9002")
	}
}

// httpURL parses an http or https URL; nil after a reported problem. The value
// is not part of the message: it may hold a password.
func (r *report) httpURL(path, value string) *url.URL {
	u, err := url.Parse(value)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" || u.Fragment != "" {
		r.add(path, "is not a URL of the form http://host or https://host:port/path")
		return nil
	}
	return u
}
