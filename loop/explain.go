package loop

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// explainValue is the value of HeaderOff that asks a turn to tell what it did.
const explainValue = "explain"

// maxOmitted bounds the tools that an answer names as left out.
const maxOmitted = 50

// extensionObject is the mcp_via_llm object that goes with an answer.
type extensionObject struct {
	Iterations  int          `json:"iterations"`
	Called      []string     `json:"mcp_tools_called"`
	Prompt      int64        `json:"total_prompt_tokens"`
	Completion  int64        `json:"total_completion_tokens"`
	StopReason  string       `json:"stop_reason"`
	Unavailable []string     `json:"servers_unavailable"`
	Omitted     []string     `json:"tools_omitted,omitempty"` // the first of them
	OmittedAll  int          `json:"tools_omitted_total,omitempty"`
	Explain     *explanation `json:"explain,omitempty"`
}

// extensions makes that object, in JSON.
func (t *turn) extensions(stop string) string {
	list := func(s []string) []string { return append([]string{}, s...) } // [] rather than null
	r := t.rec
	used := t.tokens(r.usage)
	return extensionObject{
		Iterations: len(r.report.Segments), Called: list(r.called), Prompt: used.Input, Completion: used.Output,
		StopReason: stop, Unavailable: list(r.report.Unavailable),
		Omitted: r.omitted[:min(len(r.omitted), maxOmitted)], OmittedAll: len(r.omitted), Explain: t.explain(),
	}.encode()
}

// encode writes the object as encoding/json does; what most turns have, by hand.
func (o extensionObject) encode() string {
	if len(o.Omitted) > 0 || o.OmittedAll > 0 || o.Explain != nil {
		return encode(o)
	}
	var room [512]byte
	b := strconv.AppendInt(append(room[:0], `{"iterations":`...), int64(o.Iterations), 10)
	b = appendList(append(b, `,"mcp_tools_called":`...), o.Called)
	b = strconv.AppendInt(append(b, `,"total_prompt_tokens":`...), o.Prompt, 10)
	b = strconv.AppendInt(append(b, `,"total_completion_tokens":`...), o.Completion, 10)
	b = append(append(append(b, `,"stop_reason":"`...), o.StopReason...), '"')
	b = appendList(append(b, `,"servers_unavailable":`...), o.Unavailable)
	return string(append(b, '}'))
}

func appendList(b []byte, list []string) []byte {
	if len(list) == 0 {
		return append(b, "[]"...)
	}
	return append(b, encode(list)...)
}

// explanation tells an application what happened inside a turn, in the milliseconds
// from its start. As in a report there is nothing of what was said.
type explanation struct {
	TraceID    string             `json:"trace_id,omitempty"`
	Client     string             `json:"client"`
	Injected   []Injected         `json:"injected"`
	Tokens     int                `json:"injected_tokens"` // of all tools, in each segment
	System     int                `json:"system_tokens"`   // of the instructions of servers
	Omitted    []string           `json:"omitted"`         // tools that had no room
	Recalled   int                `json:"recalled"`
	Servers    []explainedServer  `json:"servers"`
	Segments   []explainedSegment `json:"segments"`
	Calls      []explainedCall    `json:"calls"`
	Background int                `json:"background_calls"`
}

type explainedServer struct {
	Name  string `json:"name"`
	Up    bool   `json:"up"`
	Tools int    `json:"tools"`
}

type explainedSegment struct {
	Start        float64 `json:"start_ms"`
	FirstByte    float64 `json:"first_byte_ms"`
	Duration     float64 `json:"duration_ms"`
	Status       int     `json:"status"`
	Model        string  `json:"model,omitempty"`
	Finish       string  `json:"finish_reason"`
	ToolCalls    int     `json:"tool_calls"`
	InputTokens  int64   `json:"input_tokens"`
	CachedTokens int64   `json:"cached_tokens"`
	OutputTokens int64   `json:"output_tokens"`
	Replayed     bool    `json:"replayed,omitempty"`
}

type explainedCall struct {
	Name     string  `json:"name"`
	Segment  int     `json:"segment"`
	Start    float64 `json:"start_ms"`
	Waited   float64 `json:"waited_ms"`
	Duration float64 `json:"duration_ms"`
	Outcome  string  `json:"outcome"`
	Bytes    int     `json:"result_bytes"`
	Running  bool    `json:"running,omitempty"` // goes on while the application is at its own calls
}

// explain is nil unless the request asks for it and the profile allows it.
func (t *turn) explain() *explanation {
	if !t.client.Explain || !strings.EqualFold(strings.TrimSpace(t.r.Header.Get(HeaderOff)), explainValue) {
		return nil
	}
	r := t.rec.Report()
	e := &explanation{
		TraceID: r.TraceID, Client: r.Client, Injected: append([]Injected{}, t.tools.Injected()...), Tokens: r.InjectedTokens,
		System: (len(t.tools.System()) + 3) / 4, Omitted: append([]string{}, t.rec.omitted...), Recalled: r.Recalled,
		Servers: t.asksServers(), Segments: []explainedSegment{}, Calls: []explainedCall{}, Background: r.Background,
	}
	for _, s := range r.Segments {
		e.Segments = append(e.Segments, explainedSegment{
			Start: ms(s.Offset), FirstByte: ms(s.First), Duration: ms(s.Duration), Status: s.Status, Model: s.Model, Finish: s.Finish,
			ToolCalls: s.Tools, InputTokens: s.Tokens.Input, CachedTokens: s.Tokens.CacheRead, OutputTokens: s.Tokens.Output, Replayed: s.Replayed,
		})
	}
	for _, c := range r.Calls {
		e.Calls = append(e.Calls, explainedCall{Name: c.Name, Segment: c.Segment, Start: ms(c.Offset), Waited: ms(c.Waited), Duration: ms(c.Duration), Outcome: c.Outcome, Bytes: c.Bytes, Running: c.Running})
	}
	return e
}

// asksServers tells of each server that the request could have had tools of.
func (t *turn) asksServers() []explainedServer {
	tools := map[string]int{}
	for _, tool := range t.tools.Injected() {
		tools[tool.Server]++
	}
	out := []explainedServer{}
	for _, name := range t.servers {
		out = append(out, explainedServer{Name: name, Up: !slices.Contains(t.rec.report.Unavailable, name), Tools: tools[name]})
	}
	return out
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
