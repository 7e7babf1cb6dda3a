package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mcp-via-llm/mcp-via-llm/e2e/llm"
	"github.com/mcp-via-llm/mcp-via-llm/e2e/rig"
)

// peakMemory bounds what the service may ever hold with all hostile servers at once, in MiB. An answer of a server has
// 16 MiB at most, and is there some times over while it is read; what is measured is less than half of this.
const peakMemory = 1500

// hostility is one turn with a hostile server: the tool that the model calls, and what it must hear of it.
type hostility struct{ server, tool, hears string }

var hostilities = []hostility{
	{"pages", "tool_7", "called tool_7"},
	{"fatpages", "tool_7", "called tool_7"},
	{"circle", "same", "called same"},
	{"storm", "steady", "called steady"},
	{"chatter", "do", "called do"},
	{"huge", "do", "the answer is larger than 16 MiB"},
	{"mute", "do", "did not answer in time"},
	{"dies", "do", "the connection to MCP server .* broke during the call"},
	{"garbage", "do", "called do"},
	{"endless", "do", "failed"},
	{"answers", "do", "called do"},
	{"bombs", "good_first", "called good_first"},
	{"bombs", "good_last", "called good_last"},
	{"scripts", "a_b_c", "called a_b_c"},
}

// TestHostileServers has servers that mean no good, all at once, and asserts that another client's turns go on as if they
// were not there, that each turn with such a server ends and says what happened, and that memory stays bounded.
func TestHostileServers(t *testing.T) {
	program := filepath.Join(t.TempDir(), "hostile")
	if err := tools.Build(program, "./e2e/hostile"); err != nil {
		t.Fatal(err)
	}
	for _, transport := range []string{"stdio", "http"} {
		t.Run(transport, func(t *testing.T) {
			r := startHostile(t, program, transport)
			stop, good := make(chan struct{}), make(chan int)
			go func() { good <- goodTurns(t, r, stop) }()
			var turns sync.WaitGroup
			for _, h := range hostilities {
				if transport == "http" && (h.server == "endless" || h.server == "garbage" || h.server == "dies") {
					continue // of stdio alone
				}
				turns.Go(func() {
					for range 3 { // what one turn breaks must work again for the next
						checkHostile(t, r, h)
					}
				})
			}
			turns.Wait()
			checkScripts(t, r)
			close(stop)
			n, peak := <-good, peakRSS(t, r.Service)
			t.Logf("%d turns of another client went on; the service had %d MiB at most", n, peak)
			limit := peakMemory * (1 + 8*len(rig.RaceFlags)) // the race detector takes several times as much
			if n < 5 || peak > limit {
				t.Errorf("%d turns of another client, %d MiB", n, peak)
			}
		})
	}
}

func startHostile(t *testing.T, program, transport string) *rig.Rig {
	t.Helper()
	address := ""
	if transport == "http" {
		free, err := rig.FreePorts(1)
		if err != nil {
			t.Fatal(err)
		}
		address = free[0]
		p, err := rig.StartProcess("hostile", nil, program, "-http", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Kill)
	}
	config := fmt.Sprintf("servers:\n  calc: {command: [%q], optional: false}\n", addServer)
	seen := map[string]bool{}
	for _, h := range hostilities {
		if seen[h.server] {
			continue
		}
		seen[h.server] = true
		where := fmt.Sprintf("command: [%q, -fault, %s]", program, h.server)
		if transport == "http" {
			where = fmt.Sprintf("url: %q", "http://"+address+"/"+h.server)
		}
		limit := "60s"
		if h.server == "mute" {
			limit = "2s"
		}
		config += fmt.Sprintf("  %s: {%s, tool_timeout: %s, connect_timeout: 30s}\n", h.server, where, limit)
	}
	return start(t, current()[0], setup{config: config, brain: hostileModel})
}

// hostileModel adds, calls what it is told to, and repeats what it hears.
func hostileModel(r *llm.Request) llm.Step {
	last := r.Chat.Messages[len(r.Chat.Messages)-1]
	name, told := toCall(r)
	switch {
	case !told:
		return llm.Calculator(r)
	case last.Role == "tool":
		heard := last.Text()
		return llm.Text(fmt.Sprintf("%d bytes: %.500s", len(heard), heard))
	}
	return llm.Calls(llm.Call("c", name, "{}"))
}

// toCall is the function that the user's message wants called.
func toCall(r *llm.Request) (string, bool) {
	words := strings.Fields(r.Chat.Messages[0].Text())
	if len(words) < 2 || words[0] != "call" {
		return "", false
	}
	return words[1], true
}

// goodTurns are those of a client that has nothing to do with the hostile servers.
func goodTurns(t *testing.T, r *rig.Rig, stop <-chan struct{}) (n int) {
	for {
		select {
		case <-stop:
			return n
		default:
		}
		a := post(t, r, ask(n%2 == 0, fmt.Sprintf("What is %d plus 7?", n)), "x-mcp-servers: calc", "Authorization: Bearer another")
		if want := fmt.Sprintf("plus 7 is %d.", n+7); a.status != 200 || !strings.Contains(strings.NewReplacer(`"}`, "", " ", "").Replace(joined(a.body)), strings.ReplaceAll(want, " ", "")) {
			t.Errorf("another client's turn %d: status %d, body %s", n, a.status, a.body)
			return n
		}
		n++
	}
}

// joined is the text of an answer, streamed or not.
func joined(body string) string {
	var text strings.Builder
	for line := range strings.Lines(body) {
		var c completion
		if json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &c) != nil {
			continue
		}
		for _, choice := range c.Choices {
			for _, content := range []*string{choice.Message.Content, choice.Delta.Content} {
				if content != nil {
					text.WriteString(*content)
				}
			}
		}
	}
	return text.String()
}

func checkHostile(t *testing.T, r *rig.Rig, h hostility) {
	t.Helper()
	hears := regexp.MustCompile(h.hears)
	var a answer
	var heard atomic.Bool
	// A server that has just been started again is not there at once.
	eventually(t, startLimit, fmt.Sprintf("%+v", h), func() bool {
		a = post(t, r, ask(false, "call "+h.server+"__"+h.tool), "x-mcp-servers: "+h.server)
		heard.Store(a.status == 200 && hears.MatchString(parse(t, a.body).text()))
		unavailable := strings.Contains(a.body, `"servers_unavailable":["`) || strings.Contains(a.body, "is not available now")
		return heard.Load() || a.status != 200 || !unavailable
	})
	if !heard.Load() {
		t.Errorf("%s: status %d, body %.300s", h.server, a.status, a.body)
	}
}

var functionName = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_-]{0,63}$`)

// checkScripts asserts that names in every script are names that providers take, and lead to their own tools.
func checkScripts(t *testing.T, r *rig.Rig) {
	t.Helper()
	var names []string
	for _, request := range r.LLM.Requests() {
		for _, name := range request.ToolNames() {
			if !functionName.MatchString(name) {
				t.Fatalf("the provider gets the name %q", name)
			}
		}
		if name, _ := toCall(request); name == "scripts__a_b_c" {
			names = request.ToolNames()
		}
	}
	heard := map[string]bool{}
	for _, name := range names {
		a := post(t, r, ask(false, "call "+name), "x-mcp-servers: scripts")
		_, called, _ := strings.Cut(parse(t, a.body).text(), ": called ")
		if called == "" || heard[called] {
			t.Errorf("%s called %q: %s", name, called, a.body)
		}
		heard[called] = true
	}
	if len(heard) < 20 {
		t.Errorf("only %d tools", len(heard))
	}
}

// peakRSS is the most memory that a process ever had, in MiB (Linux: proc_pid_status(5), VmHWM).
func peakRSS(t *testing.T, p *rig.Process) int {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), "VmHWM:")
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kib / 1024
}
