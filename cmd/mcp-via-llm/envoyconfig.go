package main

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"

	"github.com/mcp-via-llm/mcp-via-llm/config"
	"github.com/mcp-via-llm/mcp-via-llm/envoy"
)

type envoyConfigCommand struct {
	configFlag
	LLMURL string `name:"llm-url" placeholder:"URL" help:"The provider's base URL (default: llm.base_url, else https://api.openai.com/v1)."`
	Output string `type:"path" placeholder:"FILE" help:"Where to write it (default: standard output)."`
	Mode   string `enum:",override,static" default:"" placeholder:"MODE" help:"override or static (default: envoy.mode)."`
}

const bootstrapHeader = `Envoy bootstrap for MCP via LLM, made by: mcp-via-llm envoy-config
Clients use main; loop is for the service alone, with the same routes and no filter; mcp_egress is for
the service's connections to HTTP MCP servers, and used where envoy.use_mcp_egress is true.`

func (c *envoyConfigCommand) Run(out output) error {
	cfg, err := config.Load(c.Config)
	if err != nil {
		return err
	}
	options, err := envoyOptions(cfg, c.LLMURL)
	if err != nil {
		return err
	}
	options.Mode = cmp.Or(envoy.Mode(c.Mode), options.Mode)
	bootstrap, err := envoy.Bootstrap(options)
	if err != nil {
		return fmt.Errorf("no Envoy bootstrap for %s: %w", c.Config, err)
	}
	text, err := envoy.YAML(bootstrap, bootstrapHeader)
	if err != nil {
		return err
	}
	if c.Output != "" {
		return os.WriteFile(c.Output, text, 0o644)
	}
	_, err = out.stdout.Write(text)
	return err
}

const openAI = "https://api.openai.com/v1"

// envoyOptions maps the configuration; llm, if not empty, wins over llm.base_url.
func envoyOptions(cfg *config.Config, llm string) (envoy.Options, error) {
	provider, err := url.Parse(cmp.Or(llm, cfg.LLM.BaseURL, openAI))
	if err != nil || provider.Scheme != "http" && provider.Scheme != "https" {
		return envoy.Options{}, errors.New("--llm-url is not an http or https URL")
	}
	loopURL, err := url.Parse(cfg.LLM.LoopURL)
	if err != nil || loopURL.Scheme != "http" {
		return envoy.Options{}, errors.New("llm.loop_url must be http: the loop listener of this bootstrap is plain text, on loopback")
	}
	e := cfg.Envoy
	o := envoy.Options{
		Main:      e.Main,
		Loop:      cmp.Or(e.Loop, net.JoinHostPort(loopURL.Hostname(), cmp.Or(loopURL.Port(), "80"))),
		MCPEgress: e.MCPEgress,
		Admin:     e.Admin,
		Service:   cmp.Or(e.Service, cfg.Listen.ExtProc),
		LLM:       provider,
		Mode:      envoy.Mode(e.FilterMode()),
		Minor:     e.Minor(),
		FailOpen:  e.FailureModeAllow,
		CA:        e.CA,
		Private:   private(cfg),

		MaxConnectionDuration: e.MaxConnectionDuration,
	}
	if t := e.Tracing; t != nil {
		o.Tracing = &envoy.Tracing{Collector: t.Collector, Service: t.ServiceName, Sampling: t.Sampling}
	}
	switch t := e.ServiceTLS; {
	case t != nil:
		o.ServiceTLS = &envoy.TLS{CA: t.CA, Cert: t.Cert, Key: t.Key}
	case cfg.Listen.TLS != nil:
		return o, errors.New("listen.tls is set, so Envoy needs envoy.service_tls (ca, and cert and key for mTLS) to reach the service")
	}
	for _, client := range cfg.Clients {
		o.LongestTurn = max(o.LongestTurn, client.LoopTimeout)
	}
	for name, server := range cfg.Servers {
		if server.URL == "" || !server.Egress {
			continue
		}
		u, err := url.Parse(server.URL)
		if err != nil {
			return o, err
		}
		o.MCPServers = append(o.MCPServers, envoy.Server{Name: name, URL: u, TLS: envoyTLS(server.TLS)})
	}
	slices.SortFunc(o.MCPServers, func(a, b envoy.Server) int { return cmp.Compare(a.Name, b.Name) })
	return o, nil
}

func envoyTLS(t *config.ServerTLS) envoy.ServerTLS {
	if t == nil {
		return envoy.ServerTLS{}
	}
	return envoy.ServerTLS{TLS: envoy.TLS{CA: t.CA, Cert: t.Cert, Key: t.Key}, Name: t.ServerName}
}
