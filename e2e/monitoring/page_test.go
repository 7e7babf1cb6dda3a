package monitoring_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/e2e/llm"
)

const docsOnly = `
servers:
  docs: {url: DOCS, optional: false}
  gone: {command: [/nonexistent/server]}
clients:
  default: {max_parallel_calls: 2}
  batch: {max_tools: 2, schema_dialect: gemini}
`

// running starts a streamed turn of three segments that waits at two gates: "call" holds an MCP call, "model" the last
// segment. What it returns waits for its end.
func (w *world) running(t *testing.T) (ended func()) {
	w.LLM.Use(llm.Sequence(
		llm.Answer{Text: "Let me look.", Calls: []llm.ToolCall{llm.Call("c1", "docs__find", `{"query":"secret question"}`), llm.Call("c2", "docs__index", `{"gate":"call"}`),
			llm.Call("c3", "docs__write", `{"query":"secret text"}`)}, Prompt: 1200, Output: 40, Pace: 30 * time.Millisecond}.Step(),
		llm.Calls(llm.Call("c4", "docs__find", `{"query":"secret again"}`)),
		w.behind(t, "model", llm.Answer{Text: "Here is your secret answer.", Prompt: 1500, Output: 20}.Step()),
	))
	done := make(chan int, 1)
	go func() {
		done <- w.ask(t, `{"model":"gpt-x","stream":true,"messages":[{"role":"user","content":"secret prompt"}]}`)
	}()
	return func() {
		if status := <-done; status != 200 {
			t.Errorf("the turn's status is %d", status)
		}
	}
}

// TestPage looks at the pages with a browser while a turn runs: it appears by itself, its waterfall grows, and it can be
// followed to its end.
func TestPage(t *testing.T) {
	w := start(t, docsOnly)
	b := openBrowser(t)
	b.emulate(1280, false, true)
	if status := b.open(w.Admin + "/"); status != 200 {
		t.Fatal(status)
	}
	b.wait(`document.body.innerText.includes('No turn yet.') && document.body.innerText.includes('1 of 2 servers connected')`)
	b.wait(`document.querySelector('#servers tbody').innerText.match(/docs\s+connected[^]*gone\s+unavailable[^]*nonexistent/)`)

	ended := w.running(t)
	b.wait(`document.querySelector('#turns tr.runs')?.innerText.includes('running')`)
	b.wait(`document.querySelectorAll('#turns tr.runs rect.call').length >= 1`)
	b.shoot("overview-running")
	b.accessible("overview")

	// By keyboard to the turn itself, which the updates must not disturb.
	b.eval(nil, `document.querySelector('#turns tr.runs a').focus()`)
	time.Sleep(2500 * time.Millisecond) // some updates go by
	b.wait(`document.activeElement?.textContent === 'Turn 1'`)
	b.do(nil, "press", map[string]any{"key": "Enter"})
	b.wait(`location.pathname === '/debug/turns/1' && document.querySelector('h1').textContent === 'Turn 1'`)
	b.wait(`document.querySelector('#waterfall tbody').innerText.match(/docs__index[^]*so far[^]*running/)`)
	close(w.gate("call"))
	b.wait(`document.querySelector('#waterfall tbody').innerText.match(/Segment 3[^]*so far/)`)
	b.shoot("turn-running")
	close(w.gate("model"))
	ended()
	b.wait(`document.querySelector('#turn').innerText.includes('answer') && !document.querySelector('#waterfall').innerText.includes('so far')`)
	b.shoot("turn")
	b.accessible("turn")
	w.drawn(t, b)

	b.emulate(1280, true, true)
	for name, path := range map[string]string{"overview": "/debug/", "servers": "/debug/servers", "turns": "/debug/turns", "turn": "/debug/turns/1", "catalog": "/debug/catalog?client=batch", "missing": "/debug/turns/99"} {
		b.open(w.Admin + path)
		b.accessible(name + ", dark")
		b.shoot(name + "-dark")
		b.calm(w, name)
	}
}

// line is one of a waterfall, with the places of its bars on the screen.
type line struct {
	Text        string
	Lead        bool
	Bars        []string
	Left, Right float64
	Area        [2]float64
}

// drawn looks at the bars as they are on the screen: all are there, in their order, inside of their drawing.
func (w *world) drawn(t *testing.T, b *browser) {
	t.Helper()
	var lines []line
	b.eval(&lines, `[...document.querySelectorAll('#waterfall tbody tr')].map(tr => {
		const boxes = [...tr.querySelectorAll('rect')].map(r => r.getBoundingClientRect()), area = tr.querySelector('svg.line').getBoundingClientRect()
		return { Text: tr.querySelector('th').textContent, Lead: tr.className === 'lead', Bars: [...tr.querySelectorAll('rect')].map(r => r.getAttribute('class')),
			Left: Math.min(...boxes.map(x => x.left)), Right: Math.max(...boxes.map(x => x.right)), Area: [area.left, area.right] } })`)
	var names []string
	for i, l := range lines {
		names = append(names, strings.TrimPrefix(l.Text, "call "))
		if l.Left < l.Area[0]-2 || l.Right > l.Area[1]+2 || l.Right <= l.Left || len(l.Bars) == 0 {
			t.Errorf("%s is drawn from %v to %v in %v", l.Text, l.Left, l.Right, l.Area)
		}
		if l.Lead && i > 0 && l.Left < lines[i-1].Left {
			t.Errorf("%s begins before what is above it", l.Text)
		}
	}
	slices.Sort(names)
	if got, want := fmt.Sprint(names), "[Segment 1 Segment 2 Segment 3 docs__find docs__find docs__index docs__write]"; got != want {
		t.Errorf("the waterfall has %s, want %s", got, want)
	}
	if !slices.ContainsFunc(lines, func(l line) bool { return slices.Contains(l.Bars, "failed") }) {
		t.Error("the call that failed does not look like it")
	}
}

// calm asserts that a page broke no rule of its own policy, asked nobody else for anything, and holds nothing of what was said.
func (b *browser) calm(w *world, name string) {
	b.t.Helper()
	var complaints, requested []string
	b.do(&complaints, "complaints", nil)
	b.do(&requested, "requested", nil)
	complaints = slices.DeleteFunc(complaints, func(c string) bool { return strings.Contains(c, "status of 404") }) // what is missing is
	if len(complaints) > 0 || len(requested) != 1 || requested[0] != w.Admin {
		b.t.Errorf("%s: %q, requests to %q", name, complaints, requested)
	}
	var html string
	b.eval(&html, `document.documentElement.outerHTML`)
	if strings.Contains(html, "secret") {
		b.t.Errorf("%s shows what was said", name)
	}
}

// TestPageOfAMixedTurn looks at a turn whose MCP call goes on after its end, and at the resume that waits for it.
func TestPageOfAMixedTurn(t *testing.T) {
	w := start(t, docsOnly)
	b := openBrowser(t)
	b.emulate(1280, false, true)
	w.LLM.Use(llm.Sequence(llm.Calls(llm.Call("c1", "docs__index", `{"gate":"call"}`), llm.Call("c2", "book_table", `{}`)), llm.Text("All is done.")))
	if status := w.ask(t, mixed+`]}`); status != 200 {
		t.Fatal(status)
	}
	b.open(w.Admin + "/debug/turns")
	b.wait(`document.querySelector('#turns tbody tr').innerText.match(/client_tool_calls\s+\+ 1 call in the background/)`)
	b.open(w.Admin + "/debug/turns/1")
	width := `+document.querySelector('tbody rect.background')?.getAttribute('width').slice(0, -1)`
	b.wait(`document.querySelector('#waterfall tbody').textContent.includes('background call docs__index') && ` + width + ` > 50 && document.querySelector('line.end')`)
	b.shoot("background")

	done := make(chan int, 1)
	go func() { done <- w.ask(t, mixed+resume+`]}`) }()
	b.open(w.Admin + "/debug/turns")
	b.wait(`document.querySelector('#turns tr.runs a')?.textContent === 'Turn 2' && document.querySelector('#turns tr.runs rect.waits')`)
	b.open(w.Admin + "/debug/turns/2")
	b.wait(`document.querySelector('#waterfall tbody').innerText.match(/Waits for calls of an earlier turn[^]*so far/)`)
	close(w.gate("call"))
	if status := <-done; status != 200 {
		t.Error(status)
	}
	b.wait(`document.querySelector('#turn').innerText.includes('answer') && document.querySelector('#waterfall tbody').innerText.match(/Waits for[^]*Segment 1/)`)
	b.shoot("resume")
	b.open(w.Admin + "/debug/turns/1")
	b.wait(`document.querySelector('#waterfall tbody').innerText.match(/ok, result/) && !document.body.innerText.includes('so far')`)
	b.accessible("a mixed turn")
	b.calm(w, "a mixed turn")
}

// TestPageWithoutScript reads the pages with script switched off, on a narrow screen, and pauses the updates with it on.
func TestPageWithoutScript(t *testing.T) {
	w := start(t, docsOnly)
	b := openBrowser(t)
	ended := w.running(t)
	b.emulate(390, false, false)
	var wide []int
	for deadline := time.Now().Add(limit); ; time.Sleep(100 * time.Millisecond) {
		b.open(w.Admin + "/debug/")
		var text string
		b.eval(&text, `document.body.innerText`)
		if strings.Contains(text, "Turn 1") && strings.Contains(text, "running") && strings.Contains(text, "without script this page stands still") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(text)
		}
	}
	for _, path := range []string{"/debug/", "/debug/servers", "/debug/turns", "/debug/turns/1", "/debug/catalog"} {
		b.open(w.Admin + path)
		b.eval(&wide, `[document.documentElement.scrollWidth, innerWidth]`)
		if wide[0] > wide[1] {
			t.Errorf("%s is %d wide on a screen of %d", path, wide[0], wide[1])
		}
	}
	b.shoot("narrow")

	b.emulate(1280, false, true)
	b.open(w.Admin + "/debug/turns/1")
	b.do(nil, "click", map[string]any{"selector": "#pause"})
	var before, after string
	b.eval(&before, `document.querySelector('#pause').ariaPressed + document.querySelector('#turn').innerText`)
	close(w.gate("call"))
	close(w.gate("model"))
	ended()
	b.eval(nil, `new Promise(done => setTimeout(done, 2500))`)
	b.eval(&after, `document.querySelector('#pause').ariaPressed + document.querySelector('#turn').innerText`)
	if before != after || !strings.HasPrefix(before, "true") {
		t.Errorf("paused: %s\nlater: %s", before, after)
	}
	b.do(nil, "click", map[string]any{"selector": "#pause"})
	b.wait(`document.querySelector('#turn').innerText.includes('answer')`)
}
