// Command conformance is the client that the MCP conformance suite tests: it starts the built service with the suite's
// server as its only MCP server, and asks for chat completions until the scripted model has used everything that the
// service offers of it.
//
// The suite runs it as `conformance URL`, with MCP_CONFORMANCE_SCENARIO and MCP_CONFORMANCE_CONTEXT in the environment
// (github.com/modelcontextprotocol/conformance, "Testing clients"). MCP_VIA_LLM is the path of the service.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/mcp-via-llm/mcp-via-llm/e2e/llm"
	"github.com/mcp-via-llm/mcp-via-llm/e2e/rig"
)

// limit is generous: the suite starts dozens of these at once.
const limit = 3 * time.Minute

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

// scenario is what the suite says about a test.
type scenario struct {
	name   string
	server string
	// From MCP_CONFORMANCE_CONTEXT; each scenario gives some.
	context struct {
		ClientID     string `json:"client_id"`
		ClientSecret string `json:"client_secret"`
		PrivateKey   string `json:"private_key_pem"`
		WorkloadJWT  string `json:"valid_jwt"`
		ToolCalls    []struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"toolCalls"`
	}
}

func run() (err error) {
	service := os.Getenv("MCP_VIA_LLM")
	if len(os.Args) != 2 || service == "" {
		return errors.New("usage: MCP_VIA_LLM=PATH conformance URL")
	}
	s := &scenario{name: os.Getenv("MCP_CONFORMANCE_SCENARIO"), server: os.Args[1]}
	if given := os.Getenv("MCP_CONFORMANCE_CONTEXT"); given != "" {
		if err := json.Unmarshal([]byte(given), &s.context); err != nil {
			return fmt.Errorf("MCP_CONFORMANCE_CONTEXT: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	dir, err := os.MkdirTemp("", "conformance-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	model, err := llm.Start("127.0.0.1:0", s.model)
	if err != nil {
		return err
	}
	defer model.Close()
	file := filepath.Join(dir, "config.yaml")
	if err := s.write(file, dir, model.Address()); err != nil {
		return err
	}
	p, err := rig.StartProcess("mcp-via-llm", nil, service, "serve", "--config", file)
	if err != nil {
		return err
	}
	defer func() { // ends the MCP session too
		err = errors.Join(err, p.Stop(20*time.Second))
		fmt.Fprint(os.Stderr, p.Log())
	}()
	at, err := connected(ctx, p)
	if err != nil {
		return err
	}
	return s.converse(ctx, "http://"+at+"/v1/chat/completions")
}

// write makes the service's configuration.
func (s *scenario) write(file, dir, model string) error {
	server := map[string]any{"url": s.server, "elicitation": true}
	if auth, err := s.auth(dir); err != nil {
		return err
	} else if auth != nil {
		server["auth"] = map[string]any{"oauth": auth}
	}
	// The scenario wants to see that no keyword of a schema is lost on the way: the dialect that changes nothing.
	dialect := "openai"
	if s.name == "json-schema-2020-12-preservation" {
		dialect = "permissive"
	}
	data, err := yaml.Marshal(map[string]any{
		"listen":  map[string]any{"http": "127.0.0.1:0", "admin": "127.0.0.1:0", "ext_proc": "127.0.0.1:0"},
		"llm":     map[string]any{"base_url": "http://" + model + "/v1"},
		"servers": map[string]any{"suite": server},
		"clients": map[string]any{"default": map[string]any{"elicitation": "client", "schema_dialect": dialect}},
	})
	if err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o600)
}

// auth is how the service proves itself, from what the suite has registered; nil where it needs no proof.
func (s *scenario) auth(dir string) (map[string]any, error) {
	c := s.context
	auth := map[string]any{"client_id": cmp.Or(c.ClientID, "test-client-id")}
	secret := func(name, text string) error {
		path := filepath.Join(dir, name)
		auth[name] = path
		return os.WriteFile(path, []byte(text), 0o600)
	}
	switch {
	case c.PrivateKey != "":
		return auth, secret("private_key_file", c.PrivateKey)
	case c.WorkloadJWT != "":
		return auth, secret("assertion_file", c.WorkloadJWT)
	case strings.HasPrefix(s.name, "auth/"): // those without a secret would register themselves: here an operator has
		return auth, secret("client_secret_file", cmp.Or(c.ClientSecret, "test-client-secret"))
	}
	return nil, nil
}

// connected waits until the service has reached the server, or has given it up for now. It returns where the service
// listens, which its log says.
func connected(ctx context.Context, p *rig.Process) (at string, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit/3)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		for line := range strings.Lines(p.Log()) {
			var serving struct{ Msg, HTTP, Admin string }
			var servers []struct{ State, Error string }
			if json.Unmarshal([]byte(line), &serving) != nil || serving.Msg != "serving" ||
				get(ctx, "http://"+serving.Admin+"/debug/servers", &servers) != nil || len(servers) != 1 || servers[0].State == "connecting" {
				continue
			}
			if servers[0].State == "unavailable" {
				return "", fmt.Errorf("the server is unavailable: %s", servers[0].Error)
			}
			return serving.HTTP, nil
		}
		select {
		case <-tick.C:
		case <-p.Done():
			return "", errors.New("the service ended by itself")
		case <-ctx.Done():
			return "", errors.New("the service does not connect")
		}
	}
}

func get(ctx context.Context, url string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	return json.NewDecoder(response.Body).Decode(into)
}
