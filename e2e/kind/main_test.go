// Package kind tests the chart in a real cluster. e2e/kind/run.sh makes one, or takes the one of KUBECONFIG, and runs this.
package kind

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	namespace = "mcp-e2e"
	release   = "mcp"
	full      = "mcp-mcp-via-llm" // the name that the chart makes of it
	chart     = "../../charts/mcp-via-llm"
)

// begun marks what this run has started: images of an earlier one had the same names.
var begun = time.Now().Format(time.RFC3339)

// tag is the version of the service's image that is installed.
var tag = "one"

// address is what the tests call: ports of a node, which lead to Services.
var address struct{ envoy, llm, shop, collector string }

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	for _, name := range []string{"KUBECONFIG", "ENVOY_VERSION", "ENVOY_OLDER"} {
		if os.Getenv(name) == "" {
			fmt.Fprintf(os.Stderr, "%s is not set: run e2e/kind/run.sh, which makes a cluster\n", name)
			return 1
		}
	}
	if err := install(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		fmt.Fprintln(os.Stderr, state())
		return 1
	}
	code := m.Run()
	if code != 0 {
		fmt.Fprintln(os.Stderr, state())
	}
	return code
}

// envoy is the image of an Envoy; run.sh says which versions there are.
func envoy(version string) string { return "mcp-via-llm.test/envoy:" + version }

// command runs a program for at most five minutes, and gives what it printed.
func command(name string, args ...string) (string, error) { return piped("", name, args...) }

// piped is command with something on the standard input.
func piped(input, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.WaitDelay = 10 * time.Second // what it started may hold its output open
	cmd.Stdin = strings.NewReader(input)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return string(out), fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, out, errs.String())
	}
	return string(out), nil
}

func kubectl(args ...string) (string, error) {
	return command("kubectl", append([]string{"-n", namespace}, args...)...)
}

// upgrade installs the release with the test's values and more.
func upgrade(more ...string) error {
	_, err := command("helm", append([]string{"upgrade", "--install", release, chart, "-n", namespace,
		"-f", "values.yaml", "--set", "image.tag=" + tag + ",envoy.image=" + envoy(os.Getenv("ENVOY_VERSION")), "--set-string", "podAnnotations.begun=" + begun, "--wait", "--timeout", "4m"}, more...)...)
	return err
}

func install() error {
	if _, err := kubectl("apply", "-f", "parts.yaml"); err != nil {
		return err
	}
	for _, part := range []string{"llm", "shop", "collector"} {
		if _, err := kubectl("patch", "deployment", part, "-p", fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"begun":%q}}}}}`, begun)); err != nil {
			return err
		}
		if _, err := kubectl("rollout", "status", "deployment/"+part, "--timeout=2m"); err != nil {
			return err
		}
	}
	if err := upgrade(); err != nil {
		return err
	}
	node, err := kubectl("get", "nodes", "-o", `jsonpath={.items[0].status.addresses[?(@.type=="InternalIP")].address}`)
	if err != nil {
		return err
	}
	for into, service := range map[*string]string{&address.envoy: full + "-envoy http", &address.llm: "llm ", &address.shop: "shop ", &address.collector: "collector http"} {
		name, port, _ := strings.Cut(service, " ")
		number, err := kubectl("get", "service", name, "-o", fmt.Sprintf(`jsonpath={.spec.ports[?(@.name==%q)].nodePort}`, port))
		if port == "" {
			number, err = kubectl("get", "service", name, "-o", "jsonpath={.spec.ports[0].nodePort}")
		}
		if err != nil {
			return err
		}
		*into = "http://" + node + ":" + number
	}
	if err := firstTurn(); err != nil {
		return err
	}
	versions, err := command("kubectl", "version")
	if err != nil {
		return err
	}
	pods, err := kubectl("get", "pods", "-o", "wide")
	fmt.Printf("%s%s", versions, pods)
	return err
}

// firstTurn waits until the new Envoy has found the service's pods: it looks every 5 s.
func firstTurn() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		a := talk(plan{Nonce: nonce(), Calls: [][]string{{"look"}}}).send(ctx)
		if a.done() {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("the first turn: %v", a)
		}
		time.Sleep(time.Second)
	}
}

// state tells, after a failure, how things are.
func state() string {
	var out strings.Builder
	for _, args := range [][]string{
		{"get", "pods,services,endpointslices,events", "-A"},
		{"describe", "pods"},
		{"logs", "-l", "app.kubernetes.io/name=mcp-via-llm", "--all-containers", "--prefix", "--tail=60", "--ignore-errors"},
		{"logs", "-l", "part", "--prefix", "--tail=20", "--ignore-errors"},
	} {
		text, err := kubectl(args...)
		fmt.Fprintf(&out, "--- kubectl %s\n%s\n", strings.Join(args, " "), text)
		if err != nil {
			fmt.Fprintln(&out, err)
		}
	}
	if dir := os.Getenv("KIND_LOGS"); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, "state.log"), []byte(out.String()), 0o644); err == nil {
			return "the state of the cluster is in " + filepath.Join(dir, "state.log")
		}
	}
	return out.String()
}
