package kind

import (
	"bufio"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// identities are the pods with what they would lose in a restart.
func identities(t *testing.T) string {
	t.Helper()
	out, err := kubectl("get", "pods", "-l", selector, "-o", `jsonpath={range .items[*]}{.metadata.uid} {.status.containerStatuses[*].restartCount}{"\n"}{end}`)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// change upgrades the release, and waits until every pod has logged what it makes of the new configuration.
func change(t *testing.T, message string, more ...string) (since time.Time) {
	t.Helper()
	since = time.Now().Add(-time.Second)
	if err := upgrade(more...); err != nil {
		t.Fatal(err)
	}
	// The kubelet looks at ConfigMaps when it looks at a pod: every minute, or when the pod changes.
	if _, err := kubectl("annotate", "pods", "-l", selector, "--overwrite", "looked="+strconv.FormatInt(since.UnixNano(), 10)); err != nil {
		t.Fatal(err)
	}
	eventually(t, 3*time.Minute, message, func() bool {
		for _, pod := range pods(t) {
			if reloaded(t, pod, since, message).IsZero() {
				return false
			}
		}
		return true
	})
	return since
}

const (
	inForce = "the new configuration is in force"
	refused = "the changed configuration is refused"
)

// TestConfigChange asserts that what `helm upgrade` changes of the configuration is in force in all pods without a
// restart, and within 2 s of the kubelet's writing it; and that a wrong one leaves the old one in force.
func TestConfigChange(t *testing.T) {
	settled(t, 2)
	gone(t)
	before := identities(t)
	since := change(t, inForce, "--set", "config.clients.default.servers={shop}")
	for _, pod := range pods(t) {
		// The kubelet swaps the link ..data when it has written the files of a ConfigMap.
		out, err := kubectl("exec", pod, "-c", "files", "--", "node", "-p", `require("fs").lstatSync("/config/..data").mtimeMs`)
		if err != nil {
			t.Fatal(err)
		}
		ms, err := strconv.ParseFloat(strings.TrimSpace(out), 64)
		if err != nil {
			t.Fatal(err)
		}
		took := reloaded(t, pod, since, inForce).Sub(time.UnixMicro(int64(ms * 1000)))
		t.Logf("%s: in force %v after the kubelet wrote it", pod, took)
		if took > 2*time.Second {
			t.Errorf("%s: that is more than 2 s", pod)
		}
	}
	if a := talk(plan{Nonce: nonce(), Calls: [][]string{{"test_simple_text"}}}).must(t); a.text != "no tool test_simple_text among 3" {
		t.Errorf("%v", a)
	}
	// Its form is right, so only the service itself can refuse it.
	change(t, refused, "--set", "config.clients.default.max_tools=-1")
	if a := talk(plan{Nonce: nonce(), Calls: [][]string{{"look"}}}).must(t); !a.done("did look") {
		t.Errorf("%v", a)
	}
	change(t, inForce)
	if after := identities(t); after != before {
		t.Errorf("pods restarted:\n%s\n%s", before, after)
	}
}

// reloaded is when a pod last logged a message, since then; zero: it did not.
func reloaded(t *testing.T, pod string, since time.Time, message string) (at time.Time) {
	t.Helper()
	out, err := kubectl("logs", pod, "-c", "mcp-via-llm", "--since-time="+since.UTC().Format(time.RFC3339))
	if err != nil {
		t.Fatal(err)
	}
	for scanner := bufio.NewScanner(strings.NewReader(out)); scanner.Scan(); {
		if line := gjson.Parse(scanner.Text()); strings.HasPrefix(line.Get("msg").String(), message) {
			at = line.Get("time").Time()
		}
	}
	return at
}
