package envoy

import (
	"context"
	"encoding/json"
	"flag"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

var update = flag.Bool("update", false, "write the generated examples")

const examples = "../examples/envoy"

func mustURL(t testing.TB, s string) *url.URL {
	t.Helper()
	u, err := url.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func base(t testing.TB) Options {
	return Options{
		Main: "127.0.0.1:10000", Loop: "127.0.0.1:10001", MCPEgress: "127.0.0.1:10002", Admin: "127.0.0.1:9901",
		Service: "127.0.0.1:9002", LLM: mustURL(t, "https://api.openai.com/v1"),
	}
}

// parse reads YAML into the proto, refusing unknown fields and wrong types.
func parse(t *testing.T, text []byte) *bootstrapv3.Bootstrap {
	t.Helper()
	var value any
	if err := yaml.Unmarshal(text, &value); err != nil {
		t.Fatal(err)
	}
	asJSON, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	b := &bootstrapv3.Bootstrap{}
	if err := protojson.Unmarshal(asJSON, b); err != nil {
		t.Fatal(err)
	}
	if err := b.ValidateAll(); err != nil {
		t.Fatal(err)
	}
	return b
}

// validate runs the text through a real Envoy.
func validate(t *testing.T, version string, text []byte) {
	t.Helper()
	binary := os.Getenv("ENVOY_BIN")
	if binary == "" || version != "1.40.0" {
		binary = filepath.Join("..", ".tools", "envoy", version, "bin", "envoy")
	}
	if _, err := os.Stat(binary); err != nil {
		t.Fatalf("no Envoy at %s: run make tools", binary)
	}
	file := filepath.Join(t.TempDir(), "envoy.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, binary, "--mode", "validate", "--concurrency", "1", "-c", file).CombinedOutput()
	if err != nil {
		t.Fatalf("Envoy %s refuses it: %v\n%s", version, err, out)
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "eprecated") {
			t.Errorf("Envoy %s: %s", version, line)
		}
	}
}

func render(t *testing.T, o Options, header string) []byte {
	t.Helper()
	b, err := Bootstrap(o)
	if err != nil {
		t.Fatal(err)
	}
	text, err := YAML(b, header)
	if err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(b, parse(t, text)) {
		t.Errorf("the YAML does not give the bootstrap back:\n%s", text)
	}
	return text
}

func TestRealEnvoyAcceptsEveryShape(t *testing.T) {
	for name, row := range map[string]struct {
		version string
		change  func(*Options)
	}{
		"override":     {"1.40.0", func(o *Options) {}},
		"fail open":    {"1.40.0", func(o *Options) { o.FailOpen = true }},
		"static":       {"1.40.0", func(o *Options) { o.Mode = Static }},
		"plain LLM":    {"1.40.0", func(o *Options) { o.LLM = mustURL(t, "http://127.0.0.1:8000") }},
		"https by IP":  {"1.40.0", func(o *Options) { o.LLM = mustURL(t, "https://127.0.0.1:8443/v1") }},
		"profile":      {"1.40.0", func(o *Options) { o.Routes = []Route{{Name: "a", Path: "/a/v1/chat/completions", Client: "team-a"}} }},
		"static, 1.37": {"1.37.0", func(o *Options) { o.Mode, o.Minor = Static, 37 }},
		"static, 1.38": {"1.38.3", func(o *Options) { o.Mode, o.Minor = Static, 38 }},
		"static, 1.39": {"1.39.3", func(o *Options) { o.Mode, o.Minor = Static, 39 }},
		"MCP by https": {"1.40.0", func(o *Options) { o.MCPServers = []Server{{Name: "a", URL: mustURL(t, "https://mcp.example.com/mcp")}} }},
		"MCP by a private CA": {"1.40.0", func(o *Options) {
			o.MCPServers = []Server{{Name: "a", URL: mustURL(t, "https://mcp.example.com/mcp"), TLS: ServerTLS{TLS: TLS{CA: "/etc/ssl/certs/ca-certificates.crt"}, Name: "mcp.internal"}}}
		}},
		"replicas":       {"1.40.0", func(o *Options) { o.Service = "mcp-via-llm.example:9002" }},
		"replicas, 1.37": {"1.37.0", func(o *Options) { o.Mode, o.Minor, o.Service = Static, 37, "mcp-via-llm.example:9002" }},
		"old connections": {"1.37.0", func(o *Options) {
			o.Mode, o.Minor, o.MaxConnectionDuration = Static, 37, 15*time.Second
		}},
		"tracing": {"1.40.0", func(o *Options) { o.Tracing = &Tracing{Collector: "127.0.0.1:4317", Service: "envoy", Sampling: 12.5} }},
		"tracing, 1.37": {"1.37.0", func(o *Options) {
			o.Mode, o.Minor, o.Tracing = Static, 37, &Tracing{Collector: "otel-collector.example:4317", Service: "edge", Sampling: 100}
		}},
		"service by TLS": {"1.40.0", func(o *Options) {
			o.Service = "mcp-via-llm.example:9002"
			o.ServiceTLS = &TLS{CA: "/etc/ssl/certs/ca-certificates.crt"}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := base(t)
			row.change(&o)
			validate(t, row.version, render(t, o, ""))
		})
	}
}

func TestExamples(t *testing.T) {
	allInOne := base(t)
	allInOne.Main = "0.0.0.0:10000"
	allInOne.MCPServers = []Server{{Name: "github", URL: mustURL(t, "https://mcp.example.com/mcp")}, {Name: "local", URL: mustURL(t, "http://127.0.0.1:8090/mcp")}}
	sidecar := base(t)
	for name, row := range map[string]struct {
		header  string
		options Options
	}{
		"all-in-one.yaml": {allInOneHeader, allInOne},
		"sidecar.yaml":    {sidecarHeader, sidecar},
	} {
		text := render(t, row.options, row.header)
		file := filepath.Join(examples, name)
		if *update {
			if err := os.WriteFile(file, text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if have, err := os.ReadFile(file); err != nil || string(have) != string(text) {
			t.Errorf("%s is not what the builder makes (%v): run go test ./envoy -update", file, err)
		}
	}
	files, err := filepath.Glob(filepath.Join(examples, "*.yaml"))
	if err != nil || len(files) < 3 {
		t.Fatalf("examples: %v, %v", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			parse(t, text)
			for _, version := range []string{"1.38.3", "1.39.3", "1.40.0"} {
				validate(t, version, text)
			}
			// What the README says of 1.37.
			validate(t, "1.37.0", regexp.MustCompile(`(?m)^ *allow_content_length_header: .*\n`).ReplaceAll(text, nil))
		})
	}
}

const allInOneHeader = `MCP via LLM, all in one: Envoy as a gateway on port 10000, the service beside it on loopback.
Start:  mcp-via-llm serve --config config.yaml   and   envoy -c all-in-one.yaml --disable-hot-restart
Use:    OPENAI_BASE_URL=http://GATEWAY:10000/v1
The file is what "mcp-via-llm envoy-config" prints for two HTTP MCP servers; the egress listener is
used where the configuration sets envoy.use_mcp_egress: true.`

const sidecarHeader = `MCP via LLM as a sidecar: Envoy and the service in the application's own pod or machine. Everything
listens on loopback, so only this application gets the tools, and nothing needs TLS inside.
Use:    OPENAI_BASE_URL=http://127.0.0.1:10000/v1
Containers of one pod share the network: run the application, this Envoy, and
"mcp-via-llm serve --config config.yaml" as three of them.`

func TestRefusedOptions(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"no LLM":           func(o *Options) { o.LLM = nil },
		"static fail open": func(o *Options) { o.Mode, o.FailOpen = Static, true },
		"old override":     func(o *Options) { o.Mode, o.Minor = Override, 39 },
		"loop by name":     func(o *Options) { o.Loop = "envoy:10001" },
		"no port":          func(o *Options) { o.Main = "127.0.0.1" },
		"no service":       func(o *Options) { o.Service = "" },
		"two trusts": func(o *Options) {
			o.MCPServers = []Server{{Name: "a", URL: mustURL(t, "https://h/a")}, {Name: "b", URL: mustURL(t, "https://h:443/b"), TLS: ServerTLS{Name: "x"}}}
		},
	} {
		o := base(t)
		change(&o)
		if _, err := Bootstrap(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
