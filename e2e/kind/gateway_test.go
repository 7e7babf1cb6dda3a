package kind

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

const (
	gatewayRelease   = "gw"
	gatewayFull      = "gw-mcp-via-llm"
	gatewayNamespace = "envoy-gateway-system"
)

// root is a file of the repository.
func root(path string) string { return filepath.Join("..", "..", path) }

func must(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// installGateway installs Envoy Gateway from its own chart.
func installGateway(t *testing.T) {
	_, err := command("helm", "upgrade", "--install", "eg", root(".tools/kind/gateway-helm"), "-n", gatewayNamespace, "--create-namespace",
		"--set", "config.envoyGateway.provider.kubernetes.shutdownManager.image=mcp-via-llm.test/gateway:e2e",
		"--set", "topologyInjector.enabled=false", "--wait", "--timeout", "3m")
	must(t, "Envoy Gateway", err)
}

// useGateway makes the Gateway with an Envoy of this version, and the release behind it.
func useGateway(t *testing.T, version string, more ...string) (url string) {
	t.Helper()
	manifest, err := os.ReadFile("gateway.yaml")
	must(t, "gateway.yaml", err)
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	must(t, "manifest", os.WriteFile(file, []byte(strings.ReplaceAll(string(manifest), "ENVOY_VERSION", version)), 0o600))
	_, err = kubectl("apply", "-f", file)
	must(t, "the Gateway", err)
	_, err = command("helm", append([]string{"upgrade", "--install", gatewayRelease, chart, "-n", namespace, "-f", "gateway-values.yaml",
		"--set", "envoyGateway.loop.image=" + envoy(version), "--wait", "--timeout", "4m"}, more...)...)
	must(t, "the release", err)
	for _, name := range []string{"public", gatewayFull + "-loop"} {
		_, err = kubectl("wait", "--for=condition=Programmed", "--timeout=2m", "gateway/"+name)
		must(t, name, err)
	}
	eventually(t, 2*time.Minute, "the proxies run Envoy "+version, func() bool {
		out, err := command("kubectl", "-n", gatewayNamespace, "get", "pods", "-l", "app.kubernetes.io/component=proxy", "-o", "json")
		must(t, "proxies", err)
		images := gjson.Get(out, `items.#.spec.containers.#(name=="envoy").image`).Array()
		ready := gjson.Get(out, `items.#.status.conditions.#(type=="Ready").status`).Array()
		for i := range images {
			if !strings.HasSuffix(images[i].String(), ":"+version) || i >= len(ready) || ready[i].String() != "True" {
				return false
			}
		}
		return len(images) == 2
	})
	node, err := kubectl("get", "nodes", "-o", `jsonpath={.items[0].status.addresses[?(@.type=="InternalIP")].address}`)
	must(t, "node", err)
	port, err := command("kubectl", "-n", gatewayNamespace, "get", "service", "public", "-o", "jsonpath={.spec.ports[0].nodePort}")
	must(t, "port", err)
	return "http://" + node + ":" + port + "/v1"
}

// through is a conversation by way of the Gateway.
func through(url, host string, stream bool, p plan) *conversation {
	c := talk(p)
	c.url, c.stream, c.headers = url, stream, map[string]string{"Host": host}
	return c
}

// TestEnvoyGateway asserts what the integration promises, in both of the filter's modes: turns and mixed turns on the
// route that is named, none on another, and what a client gets while there is no service.
func TestEnvoyGateway(t *testing.T) {
	installGateway(t)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(gatewayState())
		}
		for _, args := range [][]string{{"uninstall", gatewayRelease, "-n", namespace}, {"uninstall", "eg", "-n", gatewayNamespace}} {
			if _, err := command("helm", args...); err != nil {
				t.Log(err)
			}
		}
	})
	t.Run("static", func(t *testing.T) {
		older := strings.Fields(os.Getenv("ENVOY_OLDER"))
		url := useGateway(t, older[len(older)-1])
		gatewayTurns(t, url)
		withoutService(t, func() {
			a := through(url, "chat.test", false, plan{Nonce: nonce(), Calls: [][]string{{"look"}}}).send(t.Context())
			if a.status < 500 { // Envoy's 503, or Envoy Gateway's own 500 once it knows that no pod is left
				t.Errorf("it does not fail closed: %v", a)
			}
		})
	})
	t.Run("override", func(t *testing.T) {
		url := useGateway(t, os.Getenv("ENVOY_VERSION"), "--set", "envoyGateway.mode=override,envoyGateway.failOpen=true")
		gatewayTurns(t, url)
		withoutService(t, func() {
			for range 5 {
				a := through(url, "chat.test", false, plan{Nonce: nonce(), Calls: [][]string{{"look"}}}).must(t)
				if a.text != "no tool look among 1" || a.extra.Exists() {
					t.Errorf("it does not fail open: %v", a)
				}
			}
		})
	})
}

// gatewayState tells, before all of it goes, what Envoy Gateway and the service behind it made of things.
func gatewayState() string {
	var out strings.Builder
	for _, args := range [][]string{
		{"-n", namespace, "get", "gateways,httproutes,envoyextensionpolicies,backendtrafficpolicies", "-o", "yaml"},
		{"-n", gatewayNamespace, "get", "pods,services,networkpolicies", "-o", "wide"},
		{"-n", gatewayNamespace, "logs", "-l", "app.kubernetes.io/managed-by=envoy-gateway", "--all-containers", "--prefix", "--tail=40", "--ignore-errors"},
		{"-n", gatewayNamespace, "logs", "deployment/envoy-gateway", "--tail=60"},
		{"-n", namespace, "logs", "-l", "app.kubernetes.io/instance=" + gatewayRelease, "--all-containers", "--prefix", "--tail=40", "--ignore-errors"},
	} {
		text, err := command("kubectl", args...)
		fmt.Fprintf(&out, "--- kubectl %s\n%s\n", strings.Join(args, " "), text)
		if err != nil {
			fmt.Fprintln(&out, err)
		}
	}
	return out.String()
}

// gatewayTurns has turns of each kind.
func gatewayTurns(t *testing.T, url string) {
	t.Helper()
	var last answer
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the last answer: %v", last)
		}
	})
	eventually(t, 2*time.Minute, "the policy is in force", func() bool {
		last = through(url, "chat.test", false, plan{Nonce: nonce(), Calls: [][]string{{"look"}}}).send(t.Context())
		return last.done("did look")
	})
	for _, stream := range []bool{false, true} {
		// Longer than the 10 s that Envoy Gateway sets as the timeout of its gRPC calls, and than Envoy's route timeout.
		p := plan{Nonce: nonce(), Calls: [][]string{{"look"}, {"order"}}, MS: 9000}
		if a := through(url, "chat.test", stream, p).must(t); !a.done("did look "+p.Nonce, "did order "+p.Nonce+", time 1") {
			t.Errorf("stream=%v: %v", stream, a)
		}
		requests := get(t, address.llm+"/requests?nonce="+p.Nonce).Array()
		for _, r := range requests {
			for name := range r.Get("headers").Map() {
				if strings.HasPrefix(strings.ToLower(name), "x-mcp-") {
					t.Errorf("the provider got the header %s", name)
				}
			}
		}
		if len(requests) != 3 {
			t.Errorf("the provider got %d requests", len(requests))
		}
		p = plan{Nonce: nonce(), Calls: [][]string{{"order", "book_table"}}, MS: 500}
		c := through(url, "chat.test", stream, p)
		a := c.must(t)
		if len(a.calls) != 1 || a.finish != "tool_calls" {
			t.Fatalf("stream=%v: %v", stream, a)
		}
		c.resume(a)
		if a = c.must(t); !a.done("did order "+p.Nonce+", time 1", "booked") {
			t.Errorf("stream=%v: %v", stream, a)
		}
	}
	if a := through(url, "plain.test", false, plan{Nonce: nonce(), Calls: [][]string{{"look"}}}).must(t); a.text != "no tool look among 1" || a.extra.Exists() {
		t.Errorf("a route that is not named: %v", a)
	}
}

// withoutService scales the service to nothing while it does something, and back.
func withoutService(t *testing.T, do func()) {
	t.Helper()
	scale := func(n string) {
		_, err := kubectl("scale", "deployment/"+gatewayFull, "--replicas="+n)
		must(t, "scale", err)
		_, err = kubectl("rollout", "status", "deployment/"+gatewayFull, "--timeout=2m")
		must(t, "scale", err)
	}
	scale("0")
	eventually(t, time.Minute, "no pod is left", func() bool {
		out, err := kubectl("get", "pods", "-l", "app.kubernetes.io/component=service,app.kubernetes.io/instance="+gatewayRelease, "-o", "name")
		must(t, "pods", err)
		return strings.TrimSpace(out) == ""
	})
	do()
	scale("2")
}
