package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/e2e/llm"
)

// plan is what a user's message asks the model to do: the calls of one message after the other, by the names of tools
// without their server's; then it says what it heard.
type plan struct {
	Nonce string     `json:"nonce"`
	Calls [][]string `json:"calls"`
	MS    int        `json:"ms"`   // that each call takes
	Pace  int        `json:"pace"` // milliseconds between the words of the answer
}

// request is what the model tells of a request that it got.
type request struct {
	Path    string      `json:"path"`
	Headers http.Header `json:"headers"`
	Tools   []string    `json:"tools"`
	Length  int64       `json:"length"`
}

// model answers chat completions, and GET /requests?nonce=N with the requests that had the nonce in them.
func model() http.Handler {
	server := llm.New(think)
	mux := http.NewServeMux()
	mux.Handle("/", server)
	mux.HandleFunc("GET /requests", func(w http.ResponseWriter, r *http.Request) {
		all := []request{}
		for _, seen := range server.Requests() {
			if strings.Contains(string(seen.Body), r.URL.Query().Get("nonce")) {
				all = append(all, request{seen.Path, seen.Header, seen.ToolNames(), seen.ContentLength})
			}
		}
		json.NewEncoder(w).Encode(all) //nolint:errcheck // the reader is gone
	})
	return mux
}

func think(r *llm.Request) llm.Step {
	var p plan
	at := -1
	for i, m := range r.Chat.Messages {
		if m.Role == "user" && json.Unmarshal([]byte(m.Text()), &p) == nil {
			at = i
		}
	}
	if at < 0 {
		return llm.Text(fmt.Sprintf("I have %d tools: %s.", len(r.Chat.Tools), strings.Join(r.ToolNames(), ", ")))
	}
	step := 0
	var heard []string
	for _, m := range r.Chat.Messages[at+1:] {
		if m.Role == "assistant" && len(m.ToolCalls) > 0 {
			step++
		}
		if m.Role == "tool" {
			heard = append(heard, m.Text())
		}
	}
	answer := llm.Answer{Prompt: 10, Output: 5, Pace: time.Duration(p.Pace) * time.Millisecond}
	if step < len(p.Calls) {
		for i, name := range p.Calls[step] {
			tool := find(r.ToolNames(), name)
			if tool == "" {
				return llm.Text(fmt.Sprintf("no tool %s among %d", name, len(r.Chat.Tools)))
			}
			answer.Calls = append(answer.Calls, llm.Call(fmt.Sprintf("c%d", i+1), tool, p.arguments(name)))
		}
		return answer.Step()
	}
	answer.Text = fmt.Sprintf("done %s with %d tools: %s", p.Nonce, len(r.Chat.Tools), strings.Join(heard, "; "))
	return answer.Step()
}

// find gives the offered name of a tool: the client's own, or that of a server.
func find(offered []string, name string) string {
	for _, o := range offered {
		if o == name || strings.HasSuffix(o, "__"+name) {
			return o
		}
	}
	return ""
}

func (p plan) arguments(name string) string {
	in := map[string]any{} // tools of other servers want nothing
	switch name {
	case "order", "look", "book_table":
		in["nonce"], in["ms"] = p.Nonce, p.MS
	case "list_directory":
		in["path"] = "/data"
	}
	out, err := json.Marshal(in)
	if err != nil {
		panic(err) // strings and ints
	}
	return string(out)
}
