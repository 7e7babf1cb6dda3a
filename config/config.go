// Package config loads the one YAML file of the service: strict (an unknown key
// is an error), complete (all problems are reported, each with its line and key)
// and without secrets in any message.
//
// The comments of the exported fields are the reference of the format.
package config

import (
	"crypto/sha256"
	"strings"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/spelling"
)

// Config is one valid, immutable snapshot of the configuration file.
type Config struct {
	// Listen holds the addresses the service listens on.
	Listen Listen `yaml:"listen"`
	// LLM says where the second and later segments of a turn go.
	LLM LLM `yaml:"llm"`
	// Store keeps hidden history. Absent: embedded, in memory.
	Store Store `yaml:"store"`
	// Servers are the MCP servers by name. A name begins with an ASCII letter, and is
	// not that of another and "__…" (a and a__b): their tools could not be told apart.
	Servers map[string]Server `yaml:"servers"`
	// Clients are the client profiles by name. The profile "default" always
	// exists: with all servers where no clients are configured, and with none
	// where others are configured and it is not.
	Clients map[string]Client `yaml:"clients"`
	// Routes maps globs over Envoy's route name (attribute xds.route_name) to
	// client profiles, for control planes that cannot set x-mcp-client. That is gRPC
	// metadata of the external processing call, which the Envoy route sets
	// (overrides.grpc_initial_metadata) and which comes before these; a request header
	// of that name is nobody's, and chooses nothing. Without Envoy (listen.http) there
	// are neither routes nor metadata: every request has the profile default. The first
	// match in file order counts; "*" also matches slashes.
	Routes Routes `yaml:"routes"`
	// Identity says what proves who the caller is.
	Identity Identity `yaml:"identity"`
	// MaxRequestBytes limits a request body, in bytes. Default 33554432 (32 MiB).
	MaxRequestBytes int64 `yaml:"max_request_bytes"`
	// MaxResponseBytes limits the response of a turn, in bytes. Default 33554432
	// (32 MiB). Envoy puts no flow control between the service and a slow client.
	MaxResponseBytes int64 `yaml:"max_response_bytes"`
	// DrainTimeout is how long running turns may go on after SIGTERM. Default
	// 25s, which fits the 30 s that Kubernetes grants by default.
	DrainTimeout time.Duration `yaml:"drain_timeout"`
	// Audit is the record of calls of MCP tools.
	Audit Audit `yaml:"audit"`
	// Log is the level and the form of the log on stderr.
	Log Log `yaml:"log"`
	// Envoy shapes what `envoy-config` prints.
	Envoy Envoy `yaml:"envoy"`

	fingerprint [sha256.Size]byte
	files       map[string]string // what was read, by path
	place       place
	warnings    []*Problem
}

// place is where keys are.
type place struct {
	file  string
	lines map[string]int // by key
}

func (c *Config) setDefaults() {
	c.Listen.setDefaults()
	c.LLM.setDefaults()
	c.Store.setDefaults()
	c.Identity.setDefaults()
	c.MaxRequestBytes = 32 << 20
	c.MaxResponseBytes = 32 << 20
	c.DrainTimeout = 25 * time.Second
	c.Audit.setDefaults()
	c.Log.setDefaults()
	c.Envoy.setDefaults()
}

// Fingerprint is the SHA-256 of the file and of everything expanded into it:
// equal for replicas that run with the same configuration and secrets.
func (c *Config) Fingerprint() [sha256.Size]byte { return c.fingerprint }

// Warnings are what is valid and most likely not meant, or not safe.
func (c *Config) Warnings() []*Problem { return c.warnings }

// At is a problem at a key that shows only while the service runs.
func (c *Config) At(key, text string) *Problem {
	return &Problem{File: c.place.file, Line: lineOf(c.place.lines, key), Key: key, Text: text}
}

// String keeps expanded secrets out of logs.
func (c *Config) String() string { return "config.Config{…}" }

// GoString keeps expanded secrets out of logs.
func (c *Config) GoString() string { return c.String() }

func (c *Config) validate(r *report) {
	c.Listen.validate(r, "listen")
	c.LLM.validate(r, "llm")
	if c.Listen.HTTP != "" && c.LLM.BaseURL == "" {
		r.add("listen.http", "the mode without Envoy needs llm.base_url, such as http://127.0.0.1:11434/v1")
	}
	c.Store.validate(r, "store")
	for _, name := range sortedKeys(c.Servers) {
		server := c.Servers[name]
		server.validate(r, join("servers", name), name)
	}
	c.validateNames(r)
	for _, name := range sortedKeys(c.Clients) {
		client := c.Clients[name]
		client.validate(r, join("clients", name), c.Servers)
	}
	c.Routes.validate(r, "routes", c.Clients)
	c.Identity.validate(r, "identity", c.Servers)
	r.positive("max_request_bytes", c.MaxRequestBytes)
	r.positive("max_response_bytes", c.MaxResponseBytes)
	if c.DrainTimeout < 0 {
		r.add("drain_timeout", "must not be negative")
	}
	c.Audit.validate(r, "audit")
	c.Log.validate(r, "log")
	c.Envoy.validate(r, "envoy")
}

// validateNames refuses servers whose tools cannot be told apart by their names,
// and doubts a profile that is most likely another.
func (c *Config) validateNames(r *report) {
	for _, name := range sortedKeys(c.Servers) {
		for _, other := range sortedKeys(c.Servers) {
			if one, two := injected(name)+"__", injected(other)+"__"; one != two && strings.HasPrefix(two, one) {
				r.add(join("servers", other), "begins as the tools of the server %q do (%s…): a tool, and a rule for it, could be of either; rename one of the servers", name, one)
			}
		}
	}
	if r.given(join("clients", DefaultClient)) {
		return
	}
	for _, name := range sortedKeys(c.Clients) {
		if name != DefaultClient && spelling.Distance(strings.ToLower(name), DefaultClient) <= 2 {
			r.warn(join("clients", name), "is not the profile of requests for which no route chose another; did you mean %q?", DefaultClient)
		}
	}
}

// complete fills in what depends on other sections.
func (c *Config) complete() {
	all := sortedKeys(c.Servers)
	if c.Clients == nil {
		c.Clients = map[string]Client{}
	}
	if _, ok := c.Clients[DefaultClient]; !ok {
		var client Client
		client.setDefaults()
		if len(c.Clients) > 0 {
			client.Servers = []string{}
		}
		c.Clients[DefaultClient] = client
	}
	for name, client := range c.Clients {
		if client.Servers == nil {
			client.Servers = all
			c.Clients[name] = client
		}
	}
}
