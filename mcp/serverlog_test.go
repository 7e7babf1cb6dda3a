package mcp

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"
)

// logged gives the lines of a JSON log that came from servers.
func logged(t *testing.T, b *buffer, stream string) (all []gjson.Result) {
	for line := range strings.Lines(b.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("not JSON: %s", line)
		}
		if parsed := gjson.Parse(line); parsed.Get("stream").String() == stream {
			all = append(all, parsed)
		}
	}
	return all
}

// What a server logs comes at the level that it gives, as one line, without
// structured data, where servers put arguments.
func TestServerLog(t *testing.T) {
	var out buffer
	log := slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s := &session{log: log, logs: newServerLog(log)}
	rows := []struct{ params, level, text string }{
		{`{"level":"debug","data":"d"}`, "DEBUG", "d"},
		{`{"level":"info","data":"i"}`, "INFO", "i"},
		{`{"level":"notice","data":"n"}`, "INFO", "n"},
		{`{"level":"warning","data":"w","logger":"db"}`, "WARN", "w"},
		{`{"level":"error","data":"two\nlines"}`, "ERROR", "two\nlines"},
		{`{"level":"emergency","data":{"message":"m","arguments":{"key":"s3cr3t"}}}`, "ERROR", "m"},
		{`{"level":"loud","data":{"msg":"m2"}}`, "INFO", "m2"},
		{`{"level":"info","data":{"arguments":{"key":"s3cr3t"}}}`, "INFO", "(structured data)"},
		{`{"level":"info","data":["s3cr3t"]}`, "INFO", "(structured data)"},
		{`{"level":"info","data":{"message":{"key":"s3cr3t"}}}`, "INFO", "(structured data)"},
		{`{}`, "INFO", "(structured data)"},
		{`null`, "INFO", "(structured data)"},
	}
	for _, row := range rows {
		if !s.hear(incoming{method: "notifications/message", params: json.RawMessage(row.params)}) {
			t.Error("left to the SDK")
		}
	}
	s.hear(incoming{method: "notifications/message", params: json.RawMessage(`{"level":"info","data":"` + strings.Repeat("é", 1<<20) + `"}`)})
	got := logged(t, &out, "log")
	if len(got) != len(rows)+1 {
		t.Fatalf("%d lines", len(got))
	}
	for i, row := range rows {
		if got[i].Get("level").String() != row.level || got[i].Get("msg").String() != row.text {
			t.Errorf("%s became %s", row.params, got[i].Raw)
		}
	}
	if got[3].Get("logger").String() != "db" {
		t.Errorf("%s", got[3].Raw)
	}
	if n := len(got[len(rows)].Get("msg").String()); n > maxLogLine {
		t.Errorf("a line of %d bytes", n)
	}
	if strings.Contains(out.String(), "s3cr3t") {
		t.Error("structured data is in the log")
	}
}

// A server that logs without end does not fill the log, which says how much is missing.
func TestServerLogFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out buffer
		log := slog.New(slog.NewJSONHandler(&out, nil))
		s := &session{log: log, logs: newServerLog(log)}
		flood := func(lines int) {
			for range lines {
				s.says(gjson.Parse(`{"level":"error","data":"again"}`))
			}
		}
		flood(10_000)
		time.Sleep(tellAfter + time.Millisecond)
		if got := logged(t, &out, "log"); len(got) != logBurst {
			t.Errorf("%d lines", len(got))
		}
		if !strings.Contains(out.String(), fmt.Sprint(`"messages":`, 10_000-logBurst)) {
			t.Error("what was left out is not counted")
		}
		flood(1000)
		s.logs.end()
		if !strings.Contains(out.String(), fmt.Sprint(`"messages":`, 1000-logRate)) {
			t.Error("what was left out at the end is not counted")
		}
		flood(1000)
		time.Sleep(time.Minute)
		if n := strings.Count(out.String(), `"messages"`); n != 2 {
			t.Errorf("told %d times", n)
		}
	})
}

// Neither does what it writes on stderr, and it never waits for the log.
func TestStderrFlood(t *testing.T) {
	t.Parallel()
	var out buffer
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { logLines(r, slog.New(slog.NewJSONHandler(&out, nil))); close(done) }()
	fmt.Fprintf(w, "%s\n\nshort\n", strings.Repeat("x", 5<<20))
	for range 20_000 {
		fmt.Fprintln(w, strings.Repeat("y", 1000))
	}
	w.Close()
	await(t, "the end", done)
	got := logged(t, &out, "stderr")
	if n := len(got[0].Get("msg").String()); n != maxLogLine || !got[0].Get("cut").Bool() || got[1].Get("msg").String() != "short" || got[1].Get("cut").Exists() {
		t.Errorf("%d bytes, %s", n, got[1].Raw)
	}
	left := int64(0)
	for line := range strings.Lines(out.String()) {
		left += gjson.Get(line, "lines").Int()
	}
	if len(got) >= 10_000 || int(left)+len(got) != 20_002 {
		t.Errorf("%d lines in the log, %d left out", len(got), left)
	}
}

// A server that offers to log is asked for what the log shows: by a request where
// there are sessions, and in each request where there are none. No other is.
func TestLogLevelIsAskedFor(t *testing.T) {
	for _, logging := range []bool{true, false} {
		for _, era := range []string{stateful, stateless} {
			t.Run(fmt.Sprint(era, logging), func(t *testing.T) {
				t.Parallel()
				s := newScript(t)
				caps := `{"tools":{}}`
				if logging {
					caps = `{"tools":{},"logging":{}}`
				}
				s.answer("POST initialize", func(w http.ResponseWriter, _ *http.Request, m heard) {
					w.Header().Set(headerSession, "s-1")
					result(w, m, `{"protocolVersion":"2025-11-25","capabilities":`+caps+`,"serverInfo":{"name":"o","version":"1"}}`)
				})
				if era == stateless {
					s.answer("POST server/discover", func(w http.ResponseWriter, _ *http.Request, m heard) {
						result(w, m, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":`+caps+`}`)
					})
				}
				var out buffer
				h := startHost(t, Options{Servers: []Server{config("box", era, s.front)}, Log: slog.New(slog.NewJSONHandler(&out, nil))})
				if res := toolsOf(t, h, "box").Bind(nil).Call(t.Context(), "box__run", ""); res.Text != "done" {
					t.Errorf("%+v", res)
				}
				inMeta := s.await(t, "POST tools/call").get(`params._meta.io\.modelcontextprotocol/logLevel`).String()
				if era == stateful && logging {
					if got := s.await(t, "POST logging/setLevel").get("params.level").String(); got != "info" || inMeta != "" {
						t.Errorf("asked for %q, %q", got, inMeta)
					}
					return
				}
				if n := len(s.all("POST logging/setLevel")); n > 0 || inMeta != "" != logging {
					t.Errorf("asked %d times, %q in the call", n, inMeta)
				}
				if logging && inMeta != "info" {
					t.Errorf("asked for %q", inMeta)
				}
			})
		}
	}
}
