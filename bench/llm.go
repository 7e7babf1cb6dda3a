package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/tidwall/gjson"
)

// llmCommand serves chat completions by the plan in the model's name. It does as little as it can, so that what is
// measured is what lies before it.
type llmCommand struct {
	Listen string `default:"127.0.0.1:9100" help:"address"`
}

func (c *llmCommand) Run() error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	mux.HandleFunc("POST /v1/chat/completions", complete)
	server := http.Server{Addr: c.Listen, Handler: mux, ReadHeaderTimeout: time.Minute}
	return server.ListenAndServe()
}

func complete(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	p, err := planOf(gjson.GetBytes(body, "model").String())
	if err != nil {
		http.Error(w, `{"error":{"message":"no plan in the model's name"}}`, http.StatusBadRequest)
		return
	}
	p.Stream = gjson.GetBytes(body, "stream").Bool()
	tool := echoTool
	if bytes.Contains(body, []byte(liteLLMTool)) {
		tool = liteLLMTool
	}
	results := bytes.Count(body, []byte(`"role":"tool"`))
	own := bytes.Count(body, []byte(`"tool_call_id":"own"`))
	switch {
	case p.Mixed && results == 0:
		writeCalls(w, p, call("r0", tool, arguments(p, 0)), call("own", clientTool, "{}"))
	case results-own < p.Rounds:
		id := "r" + strconv.Itoa(results)
		writeCalls(w, p, call(id, tool, arguments(p, results)))
	default:
		writeText(w, p)
	}
}

func arguments(p plan, round int) string {
	return fmt.Sprintf(`{\"text\":\"round %d\",\"ms\":%d}`, round, p.SlowMS)
}

func call(id, name, arguments string) string {
	return fmt.Sprintf(`"id":%q,"type":"function","function":{"name":%q,"arguments":"%s"}`, id, name, arguments)
}

const usage = `{"prompt_tokens":100,"completion_tokens":20,"total_tokens":120}`

func writeCalls(w http.ResponseWriter, p plan, calls ...string) {
	var list bytes.Buffer
	for i, c := range calls {
		if i > 0 {
			list.WriteByte(',')
		}
		fmt.Fprintf(&list, `{"index":%d,%s}`, i, c)
	}
	if !p.Stream {
		whole(w, fmt.Sprintf(`{"role":"assistant","content":null,"tool_calls":[%s]}`, list.String()), "tool_calls")
		return
	}
	header(w)
	chunk(w, `{"role":"assistant","content":null,"tool_calls":[`+list.String()+`]}`, "null")
	chunk(w, `{}`, `"tool_calls"`)
	end(w)
}

func writeText(w http.ResponseWriter, p plan) {
	if !p.Stream {
		whole(w, fmt.Sprintf(`{"role":"assistant","content":%q}`, final), "stop")
		return
	}
	header(w)
	flush := http.NewResponseController(w).Flush
	chunk(w, `{"role":"assistant","content":""}`, "null")
	// The time in each chunk is the one at which it leaves; who reads it runs on the same clock.
	next := time.Now()
	for range p.Chunks {
		if p.PaceUS > 0 {
			next = next.Add(time.Duration(p.PaceUS) * time.Microsecond)
			time.Sleep(time.Until(next))
		}
		chunk(w, fmt.Sprintf(`{"content":"t=%d "}`, time.Now().UnixNano()), "null")
		if flush() != nil {
			return
		}
	}
	chunk(w, fmt.Sprintf(`{"content":%q}`, final), "null")
	chunk(w, `{}`, `"stop"`)
	end(w)
}

func whole(w http.ResponseWriter, message, finish string) {
	body := fmt.Sprintf(`{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":%s,"logprobs":null,"finish_reason":%q}],"usage":%s}`,
		message, finish, usage)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = io.WriteString(w, body) // a caller that has gone needs no answer
}

func header(w http.ResponseWriter) { w.Header().Set("Content-Type", "text/event-stream") }

func chunk(w http.ResponseWriter, delta, finish string) {
	_, _ = fmt.Fprintf(w, `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":%s,"logprobs":null,"finish_reason":%s}]}`+"\n\n",
		delta, finish)
}

func end(w http.ResponseWriter) {
	_, _ = io.WriteString(w, `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":`+usage+"}\n\ndata: [DONE]\n\n")
}
