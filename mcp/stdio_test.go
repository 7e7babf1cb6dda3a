package mcp

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// buffer is a log that a test can read while it is written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func logTo(b *buffer) *slog.Logger {
	return slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// What a server prints that is no message is dropped; its stderr is logged.
func TestStdioNoise(t *testing.T) {
	t.Parallel()
	var log buffer
	h := startHost(t, Options{Servers: []Server{stdioConfig("box", "noisy")}, Log: logTo(&log)})
	b := toolsOf(t, h, "box").Bind(nil)
	if res := b.Call(t.Context(), "box__add_numbers", `{"a":1,"b":2}`); res.Text != "3" {
		t.Errorf("%+v", res)
	}
	eventually(t, "stderr in the log", func() bool {
		return strings.Contains(log.String(), `msg="noise on stderr" server=box stream=stderr`)
	})
	if strings.Contains(log.String(), "Welcome") {
		t.Error("stdout went to the log")
	}
}

// Servers older than 2026-07-28 may ignore server/discover or end at it.
func TestStdioOldServers(t *testing.T) {
	for _, mode := range []string{"silent", "strict"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			cfg := stdioConfig("old", mode)
			if mode == "silent" {
				cfg.ConnectTimeout = 4 * time.Second // much of it is waited
			}
			h := newTestHost(t, cfg)
			h.Settle(t.Context())
			ts := toolsOf(t, h, "old")
			if st := h.Status()[0]; st.State != "connected" || st.ProtocolVersion != legacyVersion {
				t.Fatalf("%+v", st)
			}
			if res := ts.Bind(nil).Call(t.Context(), "old__now", ""); res.Text != "noon" {
				t.Errorf("%+v", res)
			}
		})
	}
}

// A server that starts slowly is not lost because it was asked to initialize in
// the meantime.
func TestStdioSlowStart(t *testing.T) {
	t.Parallel()
	cfg := stdioConfig("both", "slow")
	cfg.ConnectTimeout = 4 * time.Second
	h := newTestHost(t, cfg)
	eventually(t, "connected", func() bool { return h.Status()[0].State == "connected" })
	if got := toolsOf(t, h, "both").Tools(); len(got) != 1 {
		t.Errorf("%+v", got)
	}
}

// A server that never answers costs its ConnectTimeout, and is killed.
func TestStdioMute(t *testing.T) {
	t.Parallel()
	cfg := stdioConfig("mute", "mute")
	cfg.ConnectTimeout = 500 * time.Millisecond
	h := newTestHost(t, cfg)
	begin := time.Now()
	if got := toolsOf(t, h, "mute").Unavailable(); len(got) != 1 || time.Since(begin) > soon/2 {
		t.Errorf("%q after %v", got, time.Since(begin))
	}
	eventually(t, "a reason", func() bool { return strings.Contains(h.Status()[0].Error, "connect timeout") })
}

func TestStdioCannotStart(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, Server{Name: "a", Command: []string{"/nonexistent/program"}},
		Server{Name: "b", Command: []string{"sh", "-c", "exit 7"}})
	toolsOf(t, h, "a", "b")
	st := h.Status()
	if !strings.Contains(st[0].Error, "no such file") {
		t.Errorf("%+v", st[0])
	}
	if !strings.Contains(st[1].Error, "exit status 7") {
		t.Errorf("%+v", st[1])
	}
}

// Only the allow-list and what is configured reach a child.
func TestStdioEnvironment(t *testing.T) {
	t.Setenv("LLM_API_KEY", "s3cret")
	t.Setenv("TZ", "UTC")
	cfg := stdioConfig("box", "toolbox", "TOKEN=mine")
	h := newTestHost(t, cfg)
	env := toolsOf(t, h, "box").Bind(nil).Call(t.Context(), "box__environment", "").Text
	if strings.Contains(env, "LLM_API_KEY") {
		t.Error("a variable of this process leaked")
	}
	for _, want := range []string{"TOKEN=mine", "TZ=UTC", "PATH=", "HOME="} {
		if !strings.Contains("\n"+env, "\n"+want) {
			t.Errorf("no %s", want)
		}
	}
}

// A child that dies in a call fails that call at once, once, and is started again.
func TestStdioDiesInCall(t *testing.T) {
	t.Parallel()
	starts := filepath.Join(t.TempDir(), "starts")
	h := newTestHost(t, stdioConfig("box", "toolbox", "COUNT_FILE="+starts))
	b := toolsOf(t, h, "box").Bind(nil)
	begin := time.Now()
	res := b.Call(t.Context(), "box__die", "")
	if res.Outcome != OutcomeFailed || time.Since(begin) > 2*time.Second {
		t.Errorf("%+v after %v", res, time.Since(begin))
	}
	if res := b.Call(t.Context(), "box__add_numbers", `{"a":1,"b":2}`); res.Text != "3" {
		t.Errorf("not started again: %+v", res)
	}
	if got := pids(t, starts); len(got) != 2 {
		t.Errorf("%d starts, want 2: the call must not run twice", len(got))
	}
	if got := toolsOf(t, h, "box").Unavailable(); len(got) != 0 {
		t.Errorf("%q", got)
	}
}

// A message without end does not fill the memory.
func TestStdioOversize(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, stdioConfig("box", "giant"))
	b := toolsOf(t, h, "box").Bind(nil)
	if res := b.Call(t.Context(), "box__giant", ""); res.Outcome != OutcomeFailed {
		t.Errorf("%+v", res)
	}
	if res := b.Call(t.Context(), "box__add_numbers", `{"a":1,"b":2}`); res.Text != "3" {
		t.Errorf("not started again: %+v", res)
	}
}

func pids(t *testing.T, file string) []int {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all []int
	for _, field := range strings.Fields(string(data)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, pid)
	}
	return all
}

// alive reports whether a process runs (a zombie does not).
func alive(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return syscall.Kill(pid, 0) == nil && !os.IsNotExist(err)
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(after, "Z")
}

// A child that heeds neither the end of stdin nor SIGTERM is killed with its
// descendants, within seconds; also when it is killed itself by another.
func TestStdioKillsTheGroup(t *testing.T) {
	for _, how := range []string{"close", "killed", "update"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			started, grand := filepath.Join(dir, "started"), filepath.Join(dir, "grand")
			h := newTestHost(t, stdioConfig("box", "stubborn", "COUNT_FILE="+started, "PID_FILE="+grand))
			if got := toolsOf(t, h, "box").Unavailable(); len(got) != 0 {
				t.Fatalf("%+v", h.Status())
			}
			family := append(pids(t, started), pids(t, grand)...)
			for _, pid := range family {
				if !alive(pid) {
					t.Fatal("the test has no family")
				}
			}
			begin := time.Now()
			switch how {
			case "close":
				if err := h.Close(); err != nil {
					t.Error(err)
				}
				if d := time.Since(begin); d > 6*time.Second {
					t.Errorf("closed in %v", d)
				}
			case "killed":
				if err := syscall.Kill(family[0], syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
			case "update":
				h.Update(nil)
			}
			eventually(t, "dead family", func() bool { return !alive(family[0]) && !alive(family[1]) })
		})
	}
}

// A call that ends early is cancelled at a stdio server, which goes on.
func TestStdioCancel(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, stdioConfig("box", "toolbox"))
	b := toolsOf(t, h, "box").Bind(nil)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if res := b.Call(ctx, "box__hang", ""); res.Outcome != OutcomeTimeout {
		t.Errorf("%+v", res)
	}
	eventually(t, "cancelled at the server", func() bool {
		return b.Call(t.Context(), "box__cancelled", "").Text == "1"
	})
}

// Two attempts to end a child at once do not disturb each other.
func TestChildStop(t *testing.T) {
	t.Parallel()
	cfg := Server{Command: []string{"sh", "-c", "sleep 60 & wait"}}
	p, err := startChild(&cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	p.stop()
	p.kill()
	p.stop()
	p.wait()
	p.kill()
	p.stdout.Close()
	if err := p.endErr; err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("%v", err)
	}
}
