package main

import (
	"bytes"
	"fmt"
	"strings"
)

// plan is one kind of turn. It travels to the scripted LLM in the model's name, so that one LLM process serves all.
type plan struct {
	Rounds  int  // rounds of one MCP call each before the answer
	Mixed   bool // in the first round the model also calls a function of the client's own
	Chunks  int  // of the answer's text
	PaceUS  int  // microseconds before each chunk
	Stream  bool
	History int  // bytes of earlier messages
	SlowMS  int  // how long the MCP tool takes
	LiteLLM bool // the request asks LiteLLM's proxy for its MCP tools
	Own     int  // functions of the client's own, of the size of the catalog's tools
}

const (
	echoTool   = "bench__echo"
	clientTool = "book_table"
	final      = "the end"
)

func (p plan) model() string {
	return fmt.Sprintf("plan-%d-%d-%d-%d-%d", p.Rounds, flag(p.Mixed), p.Chunks, p.PaceUS, p.SlowMS)
}

func planOf(model string) (p plan, err error) {
	var mixed int
	_, err = fmt.Sscanf(model, "plan-%d-%d-%d-%d-%d", &p.Rounds, &mixed, &p.Chunks, &p.PaceUS, &p.SlowMS)
	p.Mixed = mixed == 1
	return p, err
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

// request is the body of a turn. The nonce makes it a conversation of its own, as those of different people are.
func (p plan) request(nonce int64) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"model":%q,"stream":%t,"messages":[{"role":"system","content":"Be brief."}`, p.model(), p.Stream)
	const size = 1000 // of a message
	for n := 0; b.Len() < p.History-size; n++ {
		role := "user"
		if n%2 == 1 {
			role = "assistant"
		}
		fmt.Fprintf(&b, `,{"role":%q,"content":"%d.%d %s"}`, role, nonce, n, strings.Repeat("word and ", size/9))
	}
	fmt.Fprintf(&b, `,{"role":"user","content":"question %d"}]`, nonce)
	if p.Mixed {
		fmt.Fprintf(&b, `,"tools":[{"type":"function","function":{"name":%q,"parameters":{"type":"object","properties":{}}}}]`, clientTool)
	}
	if p.LiteLLM {
		b.WriteString(`,"tools":[{"type":"mcp","server_label":"litellm","server_url":"litellm_proxy/mcp/bench","require_approval":"never"}]`)
	}
	for n := range p.Own {
		lead := ","
		if n == 0 {
			lead = `,"tools":[`
		}
		fmt.Fprintf(&b, `%s{"type":"function","function":{"name":"tool_%d","description":%q,"parameters":`+
			`{"type":"object","properties":{"path":{"type":"string","description":"the path of the file to look at"},`+
			`"limit":{"type":"integer","description":"how many lines at most"},"tags":{"type":["null","array"],"items":{"type":"string"}}},"required":["path"],"additionalProperties":false}}}`,
			lead, n, otherDescription)
	}
	if p.Own > 0 {
		b.WriteByte(']')
	}
	b.WriteByte('}')
	return b.Bytes()
}

// resume is the request that brings the result of the client's call.
func (p plan) resume(nonce int64) []byte {
	body := p.request(nonce)
	at := bytes.LastIndex(body, []byte(`],"tools"`))
	added := `,{"role":"assistant","content":null,"tool_calls":[{"id":"own","type":"function","function":{"name":"` + clientTool +
		`","arguments":"{}"}}]},{"role":"tool","tool_call_id":"own","content":"booked"}`
	return append(append(bytes.Clone(body[:at]), added...), body[at:]...)
}
