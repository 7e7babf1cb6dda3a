package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/mcp-via-llm/mcp-via-llm/e2e/llm"
	"github.com/mcp-via-llm/mcp-via-llm/e2e/rig"
)

type options struct {
	llm, model, keyEnv, config, ask string
	keep                            bool
}

// usualAddress is where the demo's Envoy listens if it can: an address to remember.
const usualAddress = "127.0.0.1:10000"

// complete fills in what was left out, and refuses what cannot work.
func (o *options) complete(ctx context.Context) error {
	if o.llm == "" {
		if o.keyEnv != "" || o.model != "" {
			return errors.New("MODEL and KEY_ENV are for a real model: say LLM=https://host/v1 too")
		}
		o.model = "scripted"
		return nil
	}
	o.llm = strings.TrimSuffix(o.llm, "/")
	if o.keyEnv == "" && os.Getenv("OPENAI_API_KEY") != "" {
		o.keyEnv = "OPENAI_API_KEY"
	}
	if o.keyEnv != "" && os.Getenv(o.keyEnv) == "" {
		return fmt.Errorf("KEY_ENV names the environment variable %s, which is not set", o.keyEnv)
	}
	if o.model != "" {
		return nil
	}
	names, err := o.models(ctx)
	if err != nil {
		return fmt.Errorf("%w; if the LLM is there but does not list its models, say MODEL=name", err)
	}
	if len(names) != 1 {
		return fmt.Errorf("the LLM offers %d models, say which with MODEL=name: %s", len(names), strings.Join(names[:min(len(names), 20)], ", "))
	}
	o.model = names[0]
	return nil
}

// models asks the LLM for the names of its models (GET /models of the API reference).
func (o *options) models(ctx context.Context) ([]string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, o.llm+"/models", nil)
	if err != nil {
		return nil, fmt.Errorf("LLM: %w", err)
	}
	if o.keyEnv != "" {
		request.Header.Set("Authorization", "Bearer "+os.Getenv(o.keyEnv))
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("the LLM does not answer: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil || response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the LLM lists no models: status %d, %.200s", response.StatusCode, body)
	}
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("the LLM's list of models: %w", err)
	}
	var names []string
	for _, model := range list.Data {
		names = append(names, model.ID)
	}
	return names, nil
}

func (o options) configName() string {
	if o.config != "" {
		return o.config
	}
	return "one MCP server, calc, with the tool add_numbers"
}

// rig makes the settings of what is started.
func (o options) rig(dir string) (rig.Options, error) {
	tools, err := rig.FindTools()
	if err != nil {
		return rig.Options{}, err
	}
	bin := filepath.Join(tools.Root(), "bin")
	config := fmt.Sprintf("servers:\n  calc: {command: [%q], optional: false}\n", filepath.Join(bin, "addserver"))
	if o.config != "" {
		text, err := os.ReadFile(o.config)
		if err != nil {
			return rig.Options{}, fmt.Errorf("CONFIG: %w", err)
		}
		config = string(text)
	}
	return rig.Options{
		Service: filepath.Join(bin, "mcp-via-llm"), Envoy: tools.Envoy(tools.DefaultEnvoy()), Version: tools.DefaultEnvoy(),
		Dir: dir, Config: config, Brain: llm.Calculator, BaseURL: o.llm, Main: mainAddress(), CA: systemCA(),
	}, nil
}

// mainAddress is the usual address, or none if somebody listens there.
func mainAddress() string {
	listener, err := net.Listen("tcp", usualAddress)
	if err != nil {
		return ""
	}
	listener.Close()
	return usualAddress
}

// systemCA finds the bundle of the certificate authorities that the machine trusts; empty if there is none in the
// places of the usual systems.
func systemCA() string {
	for _, path := range []string{
		os.Getenv("SSL_CERT_FILE"),
		"/etc/ssl/certs/ca-certificates.crt", // Debian, Ubuntu, Alpine, Arch
		"/etc/pki/tls/certs/ca-bundle.crt",   // Fedora, RHEL
		"/etc/ssl/ca-bundle.pem",             // SUSE
		"/etc/ssl/cert.pem",                  // macOS, BSD
	} {
		if path == "" {
			continue
		}
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return ""
}
