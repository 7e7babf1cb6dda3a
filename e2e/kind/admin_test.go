package kind

import (
	"bufio"
	"context"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestAdmin asserts that an operator reaches the pages that nobody else does, by the command that NOTES give.
func TestAdmin(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "kubectl", "-n", namespace, "port-forward", "deploy/"+full, ":9003")
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	must(t, "port-forward", err)
	must(t, "port-forward", cmd.Start())
	stop := sync.OnceFunc(func() {
		cancel()
		cmd.Wait() //nolint:errcheck // killed
	})
	defer stop()
	line, err := bufio.NewReader(out).ReadString('\n') // Forwarding from 127.0.0.1:34567 -> 9003
	if err != nil {
		stop() // what it has to say is then whole
		t.Fatalf("port-forward: %v: %s", err, errs.String())
	}
	local, _, _ := strings.Cut(strings.TrimPrefix(line, "Forwarding from "), " ")
	servers := get(t, "http://"+local+"/debug/servers")
	if names := servers.Get("#.name").Raw; names != `["everything","files","shop"]` {
		t.Errorf("servers: %s", servers.Raw)
	}
}
