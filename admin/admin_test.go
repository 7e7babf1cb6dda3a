package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/mcp-via-llm/mcp-via-llm/chat"
	"github.com/mcp-via-llm/mcp-via-llm/loop"
	"github.com/mcp-via-llm/mcp-via-llm/mcp"
)

// nasty is what a server or a client may have written where a name belongs.
const nasty = `"><script>alert(1)</script><img src=x onerror=alert(2)>' &amp; {{.}} javascript:alert(3)`

// ledger is a turn as it stands.
type ledger func() *loop.Report

func (l ledger) Report() *loop.Report { return l() }
func (l ledger) Ended() bool          { return l().StopReason != "" }

func stands(r loop.Report) ledger { return func() *loop.Report { r := r; return &r } }

var began = time.Now().Add(-73 * time.Hour)

// mixed is a turn with everything: it has ended, and a call of it still runs.
var mixed = loop.Report{
	ID: "request-7", TraceID: "4bf92f3577b34da6a3ce929d0e0e4736", Client: "default", Identity: "address:10.0.0.7", Model: "gpt-x", Stream: true, Start: began,
	Duration: 4 * time.Second, FirstByte: 300 * time.Millisecond, Silence: time.Second, Status: 200, StopReason: loop.StopClientCalls,
	Segments: []loop.SegmentReport{
		{Offset: 0, First: 200 * time.Millisecond, Chunk: 300 * time.Millisecond, Duration: time.Second, Status: 200, Tools: 2, Finish: "tool_calls", Model: "gpt-x-2", Tokens: chat.Tokens{Input: 1234, Output: 56, CacheRead: 1000}, Bytes: 4321},
		{Offset: 3 * time.Second, First: 100 * time.Millisecond, Duration: time.Second, Status: 200, Tools: 2, Finish: "tool_calls"},
	},
	Calls: []loop.CallReport{
		{Name: "docs__find", Segment: 1, Offset: time.Second, Duration: 2 * time.Second, Outcome: "ok", Bytes: 2048},
		{Name: "docs__read", Segment: 1, Offset: 1500 * time.Millisecond, Waited: 500 * time.Millisecond, Duration: time.Second, Outcome: "timeout"},
		{Name: "mail__send", Segment: 2, Offset: 4 * time.Second, Duration: 6 * time.Second, Background: true, Running: true},
	},
	Waits: []loop.WaitReport{{For: loop.WaitCalls, Offset: 0, Duration: 10 * time.Millisecond}},
}

func source(turns ...loop.Report) *Source {
	s := &Source{Version: "v1", NotReady: func() string { return "" }, Turns: &Turns{}, Schemas: []string{"openai", "gemini"}}
	for _, r := range turns {
		over := s.Turns.Start(stands(r))
		if r.StopReason != "" {
			over()
		}
	}
	s.Servers = func() []mcp.ServerStatus {
		return []mcp.ServerStatus{
			{Name: "docs", State: "connected", Transport: "stdio", ProtocolVersion: "2025-11-25", Tools: 12, Since: began, Listed: began, LastError: "it was away", LastErrorAt: began},
			{Name: "mail", State: "unavailable", Error: "connection refused", Since: began},
		}
	}
	s.Clients = func() []string { return []string{"batch", "default"} }
	s.Catalog = func(client, schema string) (Catalog, bool) {
		c := Catalog{Client: client, Schema: "openai", Tokens: 1500, Offered: 2, LeftOut: 1, Unavailable: []string{"mail"}, Offers: []Offer{
			{Name: "docs__find", Server: "docs", Kind: "tool", Tokens: 1200, ReadOnly: true, Description: "Finds."},
			{Name: "mcp_search_tools", Kind: "tool", Tokens: 300}, {Name: "docs__rare", Server: "docs", Kind: "tool", LeftOut: true}}}
		if schema != "" {
			c.Schema = schema
		}
		return c, client == "default" || client == "batch"
	}
	return s
}

// browse asks as a browser does.
func browse(s *Source, path string) *httptest.ResponseRecorder {
	return request(s, path, "text/html,application/xhtml+xml,*/*;q=0.8")
}

func request(s *Source, path, accept string) *httptest.ResponseRecorder {
	mux := http.NewServeMux()
	s.Register(mux)
	r := httptest.NewRequest("GET", path, nil)
	if accept != "" {
		r.Header.Set("Accept", accept)
	}
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	return w
}

// parse reads a page.
func parse(t *testing.T, w *httptest.ResponseRecorder) *html.Node {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(w.Body.String()))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// all finds the elements of a kind.
func all(doc *html.Node, name string) (found []*html.Node) {
	for n := range doc.Descendants() {
		if n.Type == html.ElementNode && n.Data == name {
			found = append(found, n)
		}
	}
	return found
}

func attr(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// text is what is read, in one line.
func text(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data + " ")
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// rows gives the lines of the tables in a page's body.
func rows(doc *html.Node) (lines []string) {
	for _, body := range all(doc, "tbody") {
		for _, r := range all(body, "tr") {
			lines = append(lines, text(r))
		}
	}
	return lines
}

// bars gives the pieces of the drawings in an element: class, place, width.
func bars(n *html.Node) (out []string) {
	for _, r := range all(n, "rect") {
		out = append(out, fmt.Sprintf("%s %s+%s", attr(r, "class"), attr(r, "x"), attr(r, "width")))
	}
	return out
}

var running = loop.Report{Client: "batch", Model: "gpt-y", Start: began, Duration: time.Minute, Segments: []loop.SegmentReport{{Duration: time.Minute, Running: true}}}

func TestOverview(t *testing.T) {
	doc := parse(t, browse(source(mixed, running), "/debug/"))
	want := []string{
		"Turn 2 3 days ago batch gpt-y running 1 min 0 s 1 0",
		"Turn 1 3 days ago default gpt-x client_tool_calls + 1 call in the background 4.00 s 2 3",
		"docs connected 3 days ago 2025-11-25 stdio 12 0 0 3 days ago 0 it was away ( 3 days ago )",
		"mail unavailable 3 days ago unknown 0 0 0 never 0 connection refused",
		"batch openai 2 1 500 1 mail", "default openai 2 1 500 1 mail",
	}
	if got := rows(doc); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	links := map[string]bool{}
	for _, a := range all(doc, "a") {
		links[attr(a, "href")] = true
	}
	for _, want := range []string{"/debug/turns/1", "/debug/turns/2", "/debug/catalog?client=batch", "/debug/servers#server-docs", "/debug/overview.json", "#main"} {
		if !links[want] {
			t.Errorf("no link to %s in %v", want, links)
		}
	}
	s := source()
	s.NotReady = func() string { return "a server is away" }
	if got := text(parse(t, browse(s, "/debug/"))); !strings.Contains(got, "not ready 1 of 2 servers connected 0 turns run a server is away") || !strings.Contains(got, "No turn yet.") {
		t.Error(got)
	}
}

func TestWaterfall(t *testing.T) {
	doc := parse(t, browse(source(mixed), "/debug/turns/1"))
	want := []struct{ text, bars string }{
		{"Waits for calls of an earlier turn <1 ms 10 ms", "waits 0.00%+0.10%"},
		{`Segment 1 <1 ms 1.00 s status 200 , headers after 200 ms , first byte after 300 ms , finish "tool_calls" , 2 tool calls , ` +
			"1 234 tokens in, 56 out , 1 000 read from the prompt cache" + ` , model "gpt-x-2" , request 4.3 kB`, "model-waits 0.00%+3.00% model 3.00%+7.00%"},
		{"call docs__find 1.00 s 2.00 s ok , result 2.0 kB", "call 10.00%+20.00%"},
		{"call docs__read 1.50 s 1.00 s waited 500 ms for its turn , timeout , result 0 B", "waits 10.00%+5.00% failed 15.00%+10.00%"},
		{`Segment 2 3.00 s 1.00 s status 200 , headers after 100 ms , finish "tool_calls" , 2 tool calls , request 0 B`, "model-waits 30.00%+1.00% model 31.00%+9.00%"},
		{"background call mail__send 4.00 s 6.00 s so far running", "background 40.00%+60.00%"},
	}
	table := all(doc, "table")[0]
	lines := all(all(table, "tbody")[0], "tr")
	for i, line := range lines {
		if i >= len(want) || text(line) != want[i].text || strings.Join(bars(line), " ") != want[i].bars {
			t.Errorf("line %d: %q, %q", i, text(line), bars(line))
		}
	}
	if len(lines) != len(want) {
		t.Errorf("%d lines", len(lines))
	}
	if got := text(all(table, "thead")[0]); got != "What Waterfall 0 2 s 4 s 6 s 8 s 10 s Began after Took What came of it" {
		t.Error(got)
	}
	var end []string
	for _, line := range all(doc, "line") {
		if attr(line, "class") == "end" {
			end = append(end, attr(line, "x1"))
		}
	}
	if len(end) != len(want) || end[0] != "40.00%" {
		t.Errorf("the turn's end is drawn at %q", end)
	}
	about := text(all(doc, "dl")[0])
	for _, part := range []string{"client_tool_calls", "First byte for the client 300 ms", "Longest silence of the stream 1.00 s", "address:10.0.0.7", "gpt-x , streamed", "request-7", "4bf92f3577b34da6a3ce929d0e0e4736", "3 of MCP"} {
		if !strings.Contains(about, part) {
			t.Errorf("no %q in %s", part, about)
		}
	}
	if body := all(doc, "body")[0]; !slices.ContainsFunc(body.Attr, func(a html.Attribute) bool { return a.Key == "data-lives" }) {
		t.Error("a turn with a call in the background does not change by itself")
	}
}

func TestCatalog(t *testing.T) {
	doc := parse(t, browse(source(), "/debug/catalog?client=default&schema=gemini"))
	want := []string{"docs__find docs tool read-only 1 200 Finds.", "mcp_search_tools the gateway tool 300", "docs__rare docs tool left out"}
	if got := rows(doc); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	var selected []string
	for _, o := range all(doc, "option") {
		for _, a := range o.Attr {
			if a.Key == "selected" {
				selected = append(selected, text(o))
			}
		}
	}
	if !slices.Equal(selected, []string{"default", "gemini"}) || strings.Join(bars(all(doc, "tbody")[0]), " ") != "model +100.00% model +25.00% model +0.00%" {
		t.Errorf("%q, %q", selected, bars(doc))
	}
	if w := browse(source(), "/debug/catalog?client=nobody"); w.Code != 404 {
		t.Error(w.Code)
	}
	if got := rows(parse(t, browse(source(), "/debug/catalog"))); len(got) != 3 {
		t.Errorf("without a client: %q", got)
	}
}

// What servers, clients and models write is text, in every place of every page.
func TestNothingIsMarkup(t *testing.T) {
	r := mixed
	r.ID, r.Client, r.Identity, r.Model, r.Error, r.TraceID, r.StopReason = nasty, nasty, nasty, nasty, nasty, nasty, nasty
	r.Unavailable = []string{nasty}
	r.Segments = []loop.SegmentReport{{Finish: nasty, Model: nasty, Error: nasty, ErrorType: nasty}}
	r.Calls = []loop.CallReport{{Name: nasty, Outcome: nasty, Segment: 1}}
	r.Waits = []loop.WaitReport{{For: nasty}}
	s := source(r)
	s.Version = nasty
	s.NotReady = func() string { return nasty }
	s.Servers = func() []mcp.ServerStatus {
		return []mcp.ServerStatus{{Name: nasty, State: nasty, Transport: nasty, ProtocolVersion: nasty, Capabilities: []string{nasty}, Instructions: nasty, Error: nasty, LastError: nasty,
			Calls: []mcp.CallStatus{{Tool: nasty}}}}
	}
	s.Clients = func() []string { return []string{nasty} }
	s.Catalog = func(string, string) (Catalog, bool) {
		return Catalog{Client: nasty, Schema: nasty, Unavailable: []string{nasty}, Offers: []Offer{{Name: nasty, Server: nasty, Kind: nasty, Description: nasty}}}, true
	}
	for _, path := range []string{"/debug/", "/debug/servers", "/debug/turns", "/debug/turns/1", "/debug/catalog"} {
		w := browse(s, path)
		doc := parse(t, w)
		for n := range doc.Descendants() {
			if n.Type != html.ElementNode {
				continue
			}
			src := attr(n, "src")
			if n.Data == "script" && src != "/debug/static/live.js" || n.Data == "img" && src != "/debug/static/icon.svg" {
				t.Errorf("%s: %s %s", path, n.Data, src)
			}
			for _, a := range n.Attr {
				if strings.HasPrefix(a.Key, "on") || a.Key == "style" || (a.Key == "href" || a.Key == "src") && !strings.HasPrefix(a.Val, "/") && a.Val != "#main" {
					t.Errorf("%s: %s %s=%q", path, n.Data, a.Key, a.Val)
				}
			}
		}
		if !strings.Contains(text(doc), "<script>alert(1)</script>") {
			t.Errorf("%s does not show the text", path)
		}
	}
}

func TestHeaders(t *testing.T) {
	for _, path := range []string{"/debug/", "/debug/servers", "/debug/turns", "/debug/turns/1", "/debug/turns/99", "/debug/catalog"} {
		w := browse(source(mixed), path)
		csp := w.Header().Get("Content-Security-Policy")
		if !strings.HasPrefix(csp, "default-src 'none';") || strings.Contains(csp, "unsafe") || w.Header().Get("X-Content-Type-Options") != "nosniff" ||
			w.Header().Get("Vary") != "Accept" || w.Header().Get("Cache-Control") != "no-store" || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") {
			t.Errorf("%s: %v", path, w.Header())
		}
		if doc := parse(t, w); attr(all(doc, "html")[0], "lang") != "en" || len(all(doc, "h1")) != 1 || len(all(doc, "style")) != 0 {
			t.Errorf("%s: %s", path, w.Body)
		}
	}
	for file, kind := range map[string]string{"style.css": "text/css", "live.js": "text/javascript", "icon.svg": "image/svg+xml"} {
		if w := request(source(), "/debug/static/"+file, ""); w.Code != 200 || !strings.HasPrefix(w.Header().Get("Content-Type"), kind) || strings.Contains(w.Body.String(), "//cdn") {
			t.Errorf("%s: %d %v", file, w.Code, w.Header())
		}
	}
	for path, want := range map[string]int{"/debug/static/turn.html": 404, "/debug/static/..%2fadmin.go": 404, "/debug/static/": 404, "/debug/nothing": 404, "/": 302} {
		if w := browse(source(), path); w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
	}
}

// Programs get the same as JSON, and need not say so.
func TestJSON(t *testing.T) {
	s := source(mixed, running)
	for path, want := range map[string]string{
		"/debug/":              `{"servers":[`,
		"/debug/overview.json": `{"servers":[`,
		"/debug/servers":       `[{"name":"docs",`,
		"/debug/turns":         `[{"number":1,"running":false,"id":"request-7",`,
		"/debug/turns/running": `[{"number":2,"running":true,"id":"","client":"batch",`,
		"/debug/turns/1":       `{"number":1,"running":false,"id":"request-7",`,
		"/debug/turns/2":       `{"number":2,"running":true,`,
		"/debug/catalog":       `{"client":"batch","schema_dialect":"openai","offers":[{"name":"docs__find",`,
		"/debug/turns/3":       `{"error":`,
		"/debug/turns/x":       `{"error":`,
		"/debug/nothing":       `{"error":`,
		"/debug/static/x":      `{"error":`,
	} {
		plain := request(s, path, "*/*")
		var value any
		compact := strings.NewReplacer("\n", "", "  ", "", `": `, `":`).Replace(plain.Body.String())
		if err := json.Unmarshal(plain.Body.Bytes(), &value); err != nil || plain.Header().Get("Content-Type") != "application/json" || !strings.HasPrefix(compact, want) {
			t.Errorf("%s: %v %s", path, err, compact)
		}
		if strings.HasSuffix(path, "/") || strings.HasSuffix(path, ".json") {
			continue
		}
		if w := browse(s, path+".json"); w.Body.String() != plain.Body.String() || w.Code != plain.Code || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s.json: %d %s", path, w.Code, w.Body)
		}
	}
}

// A provider that breaks off, or never begins, looks like that.
func TestFailedSegments(t *testing.T) {
	r := loop.Report{Start: began, Duration: 2 * time.Second, StopReason: loop.StopError, Error: "unreachable", Segments: []loop.SegmentReport{
		{First: 500 * time.Millisecond, Status: 200, Duration: time.Second, Error: "it broke off", ErrorType: "upstream_truncated"},
		{Offset: time.Second, Duration: time.Second, Error: "refused", ErrorType: "upstream_unreachable"},
	}}
	lines := all(all(parse(t, browse(source(r), "/debug/turns/1")), "tbody")[0], "tr")
	for i, want := range []struct{ bars, text string }{
		{"model-waits 0.00%+25.00% failed 25.00%+25.00%", "upstream_truncated: it broke off"},
		{"failed 50.00%+50.00% failed 100.00%+0.00%", "upstream_unreachable: refused"},
	} {
		if got := strings.Join(bars(lines[i]), " "); got != want.bars || !strings.HasSuffix(text(lines[i]), want.text) {
			t.Errorf("%s, %s", got, text(lines[i]))
		}
	}
}
