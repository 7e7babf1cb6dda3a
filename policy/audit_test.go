package policy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"
	"go.opentelemetry.io/otel/log/embedded"
	"go.opentelemetry.io/otel/log/noop"
)

// counts is what an audit log tells of its records.
type counts struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *counts) add(outcome string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]int{}
	}
	c.n[outcome] += n
}

func (c *counts) get() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.n)
}

// lines waits until the file has n lines and gives them.
func lines(t *testing.T, path string, n int) []string {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		text, err := os.ReadFile(path)
		all := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
		if err == nil && strings.HasSuffix(string(text), "\n") && len(all) >= n {
			return all
		}
		if time.Now().After(end) {
			t.Fatalf("%s never has %d lines: %v\n%s", path, n, err, text)
		}
	}
}

func record(n int) Record {
	return Record{Time: time.Unix(1e9, 5), Event: EventCall, Request: fmt.Sprint(n), Client: "team", Identity: "jwt_sub:me", Server: "files", Tool: "write",
		Name: "files__write", Outcome: "ok", Duration: 1500 * time.Microsecond, arguments: []byte(`{"path": "/data/x"}`)}
}

func newFileAudit(t *testing.T, target AuditTarget, more ...func(*AuditOptions)) (*Audit, *counts) {
	t.Helper()
	var c counts
	o := AuditOptions{Target: target, Count: c.add}
	for _, f := range more {
		f(&o)
	}
	a := NewAudit(o)
	t.Cleanup(func() { a.Close(context.Background()) })
	return a, &c
}

func TestAuditLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	a, c := newFileAudit(t, AuditTarget{File: path})
	a.Write(t.Context(), record(1))
	const form = `{"time":"2001-09-09T01:46:40.000000005Z","event":"mcp_call","request_id":"1","client":"team","identity":"jwt_sub:me",` +
		`"server":"files","tool":"write","name":"files__write","arguments_sha256":"SUM","outcome":"ok","duration_ms":1.5}`
	want := strings.Replace(form, "SUM", digest([]byte(`{"path":"/data/x"}`)), 1)
	if got := lines(t, path, 1)[0]; got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	a.Update(AuditTarget{File: path, Full: true})
	a.Write(t.Context(), record(2))
	bad := record(3)
	bad.arguments = []byte("{not JSON\n")
	bad.Reason, bad.Trace = "why", "0123"
	a.Write(t.Context(), bad)
	all := lines(t, path, 3)
	if got := gjson.Get(all[1], "arguments").Raw; got != `{"path":"/data/x"}` {
		t.Errorf("full arguments: %s", got)
	}
	if got := gjson.Parse(all[2]); got.Get("arguments").String() != "{not JSON\n" || got.Get("reason").String() != "why" || got.Get("trace_id").String() != "0123" {
		t.Errorf("arguments that are not JSON: %s", all[2])
	}
	a.Close(t.Context())
	if got := c.get(); got[AuditWritten] != 3 || got[AuditLost] != 0 {
		t.Errorf("%v", got)
	}
}

// logrotate, with and without copytruncate; and SIGHUP.
func TestAuditFollowsItsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	a, _ := newFileAudit(t, AuditTarget{File: path})
	a.Write(t.Context(), record(1))
	lines(t, path, 1)
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	a.Write(t.Context(), record(2))
	if got := lines(t, path, 1)[0]; gjson.Get(got, "request_id").String() != "2" {
		t.Errorf("after it was moved: %s", got)
	}
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	a.Reopen()
	a.Write(t.Context(), record(3))
	if got := lines(t, path, 1)[0]; gjson.Get(got, "request_id").String() != "3" {
		t.Errorf("after it was cut: %q", got)
	}
	other := path + ".other"
	a.Update(AuditTarget{File: other})
	a.Write(t.Context(), record(4))
	if got := lines(t, other, 1)[0]; gjson.Get(got, "request_id").String() != "4" {
		t.Errorf("elsewhere: %s", got)
	}
	if got := lines(t, path+".1", 1); len(got) != 1 {
		t.Errorf("what was moved away: %q", got)
	}
}

// A line that a crash has cut does not spoil the next one.
func TestAuditAfterACrash(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	if err := os.WriteFile(path, []byte(`{"whole":1}`+"\n"+`{"torn":`), 0o600); err != nil {
		t.Fatal(err)
	}
	a, _ := newFileAudit(t, AuditTarget{File: path})
	a.Write(t.Context(), record(1))
	if got := lines(t, path, 3); got[1] != `{"torn":` || !json.Valid([]byte(got[2])) {
		t.Errorf("%q", got)
	}
}

func TestAuditGoesOnWhenTheFileCan(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "later")
	path := filepath.Join(dir, "audit.jsonl")
	var logged bytes.Buffer
	a, c := newFileAudit(t, AuditTarget{File: path}, func(o *AuditOptions) { o.Log = slog.New(slog.NewTextHandler(&logged, nil)) })
	for i := range 3 {
		a.Write(t.Context(), record(i))
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if got := lines(t, path, 3); len(got) != 3 {
		t.Errorf("%q", got)
	}
	a.Close(t.Context())
	if n := strings.Count(logged.String(), "cannot be written"); n > 1 || strings.Contains(logged.String(), "hunter2") {
		t.Errorf("%s", &logged)
	}
	if got := c.get(); got[AuditWritten] != 3 {
		t.Errorf("%v", got)
	}
}

// disk is a standard error that fails, or takes a part, or never comes back.
type disk struct {
	mu    sync.Mutex
	fail  error
	part  int
	hang  chan struct{}
	wrote bytes.Buffer
}

func (d *disk) Write(b []byte) (int, error) {
	if d.hang != nil {
		<-d.hang
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fail != nil {
		n := min(d.part, len(b))
		d.wrote.Write(b[:n])
		return n, d.fail
	}
	return d.wrote.Write(b)
}

// A disk that fails is logged once, holds nobody up, and gets the records when it
// works again: each whole line once.
func TestAuditOnAFailingDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		var c counts
		first := len(record(0).line(digest(record(0).arguments), false))
		d := &disk{fail: errors.New("no space left on device"), part: first + 10}
		a := NewAudit(AuditOptions{Target: AuditTarget{File: Stderr}, Stderr: d, Count: c.add, Log: slog.New(slog.NewTextHandler(&logged, nil))})
		start := time.Now()
		a.Write(t.Context(), record(0))
		a.Write(t.Context(), record(1))
		synctest.Wait()
		d.mu.Lock()
		d.part = 0
		d.mu.Unlock()
		time.Sleep(10 * time.Second)
		if n := strings.Count(logged.String(), "cannot be written"); n != 1 {
			t.Errorf("logged %d times:\n%s", n, &logged)
		}
		d.mu.Lock()
		d.fail = nil
		d.mu.Unlock()
		time.Sleep(2 * time.Second)
		a.Close(t.Context())
		var whole []string
		for _, line := range strings.Split(d.wrote.String(), "\n") {
			if id := gjson.Get(line, "request_id").String(); json.Valid([]byte(line)) {
				whole = append(whole, id)
			}
		}
		if !slices.Equal(whole, []string{"0", "1"}) || c.get()[AuditWritten] != 2 || !strings.Contains(logged.String(), "is written again") {
			t.Errorf("after %v: %q\n%s\n%s", time.Since(start), whole, &d.wrote, &logged)
		}
	})
}

// A disk that hangs costs a bounded memory and no time; what is lost is counted.
func TestAuditOnADiskThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		var c counts
		d := &disk{hang: make(chan struct{})}
		a := NewAudit(AuditOptions{Target: AuditTarget{File: Stderr, Full: true}, Stderr: d, Count: c.add, Log: slog.New(slog.NewTextHandler(&logged, nil))})
		start := time.Now()
		large := record(0)
		large.arguments = []byte(`{"text":"` + strings.Repeat("x", 1<<20) + `"}`)
		for range 20 {
			a.Write(t.Context(), large)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		a.Close(ctx)
		if took := time.Since(start); took != time.Second {
			t.Errorf("took %v", took)
		}
		if lost := c.get()[AuditLost]; lost != 5 || strings.Count(logged.String(), "are lost") != 1 || strings.Contains(logged.String(), "xxx") {
			t.Errorf("%d lost\n%.500s", lost, &logged)
		}
		close(d.hang)
		<-a.done
		if got := c.get(); got[AuditWritten] != 15 {
			t.Errorf("%v", got)
		}
	})
}

func TestAuditOff(t *testing.T) {
	var c counts
	a := NewAudit(AuditOptions{Count: c.add})
	a.Write(t.Context(), record(1))
	a.Update(AuditTarget{File: filepath.Join(t.TempDir(), "missing", "x")})
	a.Write(t.Context(), record(2))
	a.Update(AuditTarget{})
	a.Close(t.Context())
	if got := c.get(); got[AuditWritten] != 0 || got[AuditLost] != 1 {
		t.Errorf("%v", got)
	}
}

// recorder is a log provider that keeps what it gets.
type recorder struct {
	embedded.LoggerProvider
	records []log.Record
}

func (r *recorder) Logger(string, ...log.LoggerOption) log.Logger { return &recording{to: r} }

type recording struct {
	noop.Logger
	to *recorder
}

func (r *recording) Enabled(context.Context, log.EnabledParameters) bool { return true }

func (r *recording) Emit(_ context.Context, record log.Record) {
	r.to.records = append(r.to.records, record)
}

func TestAuditToOpenTelemetry(t *testing.T) {
	r := &recorder{}
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	a := NewAudit(AuditOptions{Logs: r})
	a.Update(AuditTarget{Full: true}) // without a file there is no audit log, also not there
	a.Write(t.Context(), record(6))
	a.Update(AuditTarget{File: file})
	a.Write(t.Context(), record(7))
	a.Update(AuditTarget{File: file, Full: true})
	denied := record(8)
	denied.Outcome, denied.Reason = OutcomeDenied, "tools"
	a.Write(t.Context(), denied)
	a.Update(AuditTarget{})
	a.Write(t.Context(), record(9))
	a.Close(t.Context())
	if len(r.records) != 2 {
		t.Fatalf("%d records", len(r.records))
	}
	attributes := func(r log.Record) map[string]string {
		all := map[string]string{}
		r.WalkAttributes(func(kv attribute.KeyValue) bool {
			all[string(kv.Key)] = kv.Value.Emit()
			return true
		})
		return all
	}
	got := attributes(r.records[0])
	want := map[string]string{
		"mcp_via_llm.request_id": "7", "mcp_via_llm.client": "team", "mcp_via_llm.identity": "jwt_sub:me", "mcp_via_llm.server": "files", "mcp_via_llm.tool": "write",
		"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "files__write", "mcp_via_llm.arguments.sha256": digest(record(7).arguments), "mcp_via_llm.outcome": "ok", "mcp_via_llm.duration_ms": "1.5",
	}
	if !maps.Equal(got, want) || r.records[0].EventName() != "mcp_via_llm.audit.mcp_call" || r.records[0].Body().Emit() != "mcp_call files__write ok" {
		t.Errorf("%v", got)
	}
	if got := attributes(r.records[1]); got["mcp_via_llm.reason"] != "tools" || got["gen_ai.tool.call.arguments"] != `{"path": "/data/x"}` {
		t.Errorf("%v", got)
	}
}
