package loop

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"
)

// slow answers with a stream whose pieces come one pause after another.
func slow(body string, size int, pause time.Duration) answerFunc {
	return func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}},
			Body: &cutReader{ctx: r.Context(), rest: body, cuts: []int{size}, pause: pause}}, nil
	}
}

// hang never answers.
func hang(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, context.Cause(r.Context())
}

const roleChunk = `data: {"id":"cc","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}` + "\n\n"

func TestKeepAlive(t *testing.T) {
	for _, style := range []string{"comment", "chunk"} {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(streamed(roleChunk+asStream(calls("mcp_wx__now", "{}"))), streamed(asStream(says("Sunny."))))
			g.client.KeepaliveStyle = style
			g.tools.run = func(context.Context, string, string) Result {
				time.Sleep(35 * time.Second)
				return Result{Text: "ok", Outcome: "ok"}
			}
			body := g.post(question + `,"stream":true}`).Body.String()
			s := read(body)
			n := strings.Count(body, ": keep-alive\n")
			if style == "chunk" {
				n = strings.Count(body, `"delta":{},"finish_reason":null`)
			}
			if n != 3 || strings.Contains(body, ": keep-alive\n\n") {
				t.Errorf("%s: %d keep-alives in 35 s, want 3: %s", style, n, body)
			}
			if s.text != "Sunny." || s.dones != 1 || s.roles != 1 || len(s.ids) != 1 {
				t.Errorf("%s: %s", style, body)
			}
		})
	}
}

// Before the provider has begun to answer the client sees the provider's own
// silence.
func TestNoKeepAliveBeforeTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(func(r *http.Request) (*http.Response, error) {
			time.Sleep(time.Minute)
			return streamed(asStream(says("Late.")))(r)
		})
		if body := g.post(question + `,"stream":true}`).Body.String(); strings.Contains(body, "keep-alive") {
			t.Errorf("got %s", body)
		}
	})
}

// Nor between the provider's headers and its first byte.
func TestNoKeepAliveBeforeTheFirstByte(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(slow(asStream(says("Late.")), 1<<20, time.Minute))
		if body := g.post(question + `,"stream":true}`).Body.String(); strings.Contains(body, "keep-alive") || read(body).text != "Late." {
			t.Errorf("got %s", body)
		}
	})
}

func TestLoopTimeout(t *testing.T) {
	for name, tt := range map[string]struct {
		stream  bool
		answers []answerFunc
		event   bool
	}{
		"whole, first segment":      {false, []answerFunc{hang}, false},
		"whole, in a tool":          {false, []answerFunc{whole(calls("mcp_wx__now", "{}"))}, false},
		"streamed, first segment":   {true, []answerFunc{hang}, false},
		"streamed, in a tool":       {true, []answerFunc{streamed(roleChunk + asStream(calls("mcp_wx__now", "{}")))}, true},
		"streamed, in the text":     {true, []answerFunc{slow(roleChunk+roleChunk, len(roleChunk), time.Minute*3)}, true},
		"streamed, second segment":  {true, []answerFunc{streamed(roleChunk + asStream(calls("mcp_clock__now", "{}"))), hang}, true},
		"whole, the second segment": {false, []answerFunc{whole(calls("mcp_clock__now", "{}")), hang}, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(tt.answers...)
			g.tools.run = func(ctx context.Context, name, _ string) Result {
				if name == "mcp_wx__now" {
					<-ctx.Done()
				}
				return Result{Text: "x", Outcome: "ok"}
			}
			start := time.Now()
			w := g.post(fmt.Sprintf("%s,\"stream\":%v}", question, tt.stream))
			if d := time.Since(start); d != 5*time.Minute {
				t.Errorf("%s: ended after %v", name, d)
			}
			body := w.Body.String()
			if tt.event {
				s := read(body)
				if w.Code != 200 || len(s.errors) != 1 || gjson.Get(s.errors[0], "code").String() != "loop_timeout" || s.dones != 0 || len(s.finishes) != 0 {
					t.Errorf("%s: %d %s", name, w.Code, body)
				}
			} else if w.Code != 504 || gjson.Get(body, "error.code").String() != "loop_timeout" || extension(body, "stop_reason") != StopTimeout {
				t.Errorf("%s: %d %s", name, w.Code, body)
			}
			if retry := w.Header().Get(retryHeader); retry != "" {
				t.Errorf("%s: %s = %q, though a journal holds the calls", name, retryHeader, retry)
			}
		})
	}
}

func TestClientGone(t *testing.T) {
	for name, answers := range map[string][]answerFunc{
		"before the first byte": {hang},
		"in the text":           {slow(strings.Repeat(roleChunk, 100), len(roleChunk), time.Second)},
		"in a tool":             {streamed(roleChunk + asStream(calls("mcp_wx__now", "{}")))},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(answers...)
			g.tools.run = func(ctx context.Context, _, _ string) Result {
				<-ctx.Done()
				return Result{Text: "x", Outcome: "cancelled"}
			}
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(4500*time.Millisecond, cancel)
			start := time.Now()
			g.post(question+`,"stream":true}`, func(r *http.Request) { *r = *r.WithContext(ctx) })
			if d := time.Since(start); d != 4500*time.Millisecond {
				t.Errorf("%s: the turn ended after %v", name, d)
			}
			if g.model.count() != 1 {
				t.Errorf("%s: the model was asked %d times", name, g.model.count())
			}
			if r := g.reports[0]; r.StopReason != StopCancelled {
				t.Errorf("%s: stop reason %q", name, r.StopReason)
			}
		})
	}
}

// A shutdown that cannot wait says so to the client in band.
func TestShutdownInBand(t *testing.T) {
	draining := errors.New("draining")
	for _, streaming := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(streamed(roleChunk + asStream(calls("mcp_wx__now", "{}"))))
			if !streaming {
				g.model.answers = []answerFunc{whole(calls("mcp_wx__now", "{}"))}
			}
			g.tools.run = func(ctx context.Context, _, _ string) Result { <-ctx.Done(); return Result{} }
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(draining) })
			w := g.post(fmt.Sprintf("%s,\"stream\":%v}", question, streaming), func(r *http.Request) { *r = *r.WithContext(ctx) })
			body := w.Body.String()
			if streaming {
				body = `{"error":` + strings.Join(read(body).errors, "") + "}"
			}
			if gjson.Get(body, "error.code").String() != "shutting_down" || !streaming && w.Code != 503 {
				t.Errorf("stream %v: %d %s", streaming, w.Code, w.Body)
			}
		})
	}
}

func TestProviderErrors(t *testing.T) {
	refusal := `{"error": {"message":"slow down","type":"rate_limit","code":"429"}}` + "\n"
	limited := func(r *http.Request) (*http.Response, error) {
		resp, err := respond(429, "application/json; charset=utf-8", refusal)(r)
		resp.Header.Set("Retry-After", "7")
		return resp, err
	}
	t.Run("segment 1, byte for byte", func(t *testing.T) {
		for _, streaming := range []bool{true, false} {
			w := newRig(limited).post(fmt.Sprintf("%s,\"stream\":%v}", question, streaming))
			if w.Code != 429 || w.Body.String() != refusal || w.Header().Get("Retry-After") != "7" || w.Header().Get("Content-Type") != "application/json; charset=utf-8" {
				t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
			}
		}
	})
	t.Run("segment 2, whole", func(t *testing.T) {
		w := newRig(whole(calls("mcp_mail__send", "{}")), limited).post(question + "}")
		if w.Code != 429 || w.Body.String() != refusal || w.Header().Get("Retry-After") != "7" || w.Header().Get(retryHeader) != "" {
			t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
		}
	})
	t.Run("segment 2, streamed", func(t *testing.T) {
		w := newRig(streamed(roleChunk+asStream(calls("mcp_mail__send", "{}"))), limited).post(question + `,"stream":true}`)
		s := read(w.Body.String())
		if len(s.errors) != 1 || gjson.Get(s.errors[0], "message").String() != "slow down" || s.dones != 0 || !strings.HasSuffix(w.Body.String(), "}\n\n") {
			t.Errorf("%s", w.Body)
		}
	})
	t.Run("segment 2, streamed, an HTML page", func(t *testing.T) {
		w := newRig(streamed(roleChunk+asStream(calls("mcp_mail__send", "{}"))), respond(502, "text/html", "<html>")).post(question + `,"stream":true}`)
		if s := read(w.Body.String()); len(s.errors) != 1 || gjson.Get(s.errors[0], "code").String() != "upstream_error" {
			t.Errorf("%s", w.Body)
		}
	})
	t.Run("no connection", func(t *testing.T) {
		fails := func(*http.Request) (*http.Response, error) { return nil, errors.New("connection refused") }
		w := newRig(fails).post(question + "}")
		if w.Code != 502 || gjson.Get(w.Body.String(), "error.code").String() != "upstream_unreachable" || strings.Contains(w.Body.String(), "refused") {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
	t.Run("an error inside a 200 stream has a status as long as nothing was sent", func(t *testing.T) {
		w := newRig(streamed("event: error\ndata: {\"error\":{\"message\":\"quota\",\"code\":\"429\"}}\n\n")).post(question + `,"stream":true}`)
		if w.Code != 429 || gjson.Get(w.Body.String(), "error.message").String() != "quota" {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
	t.Run("no completion at all passes as it came", func(t *testing.T) {
		w := newRig(respond(200, "text/html", "<html>hello")).post(question + "}")
		if w.Code != 200 || w.Body.String() != "<html>hello" {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
	t.Run("no completion in segment 2", func(t *testing.T) {
		w := newRig(whole(calls("mcp_wx__now", "{}")), whole("<html>")).post(question + "}")
		if w.Code != 502 || gjson.Get(w.Body.String(), "error.code").String() != "upstream_malformed" {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
	t.Run("garbage in a stream", func(t *testing.T) {
		w := newRig(streamed(roleChunk + "data: {\"choi\n\n")).post(question + `,"stream":true}`)
		if s := read(w.Body.String()); len(s.errors) != 1 || gjson.Get(s.errors[0], "code").String() != "upstream_malformed" {
			t.Errorf("%s", w.Body)
		}
	})
}

func TestResponseTooLarge(t *testing.T) {
	text := strings.Repeat("x", 3000)
	for name, tt := range map[string]struct {
		answers []answerFunc
		stream  bool
	}{
		"whole":               {[]answerFunc{whole(says(text))}, false},
		"whole, sum of texts": {[]answerFunc{whole(strings.Replace(calls("mcp_wx__now", "{}"), `"content":null`, `"content":"`+text[:1200]+`"`, 1)), whole(says(text[:1200]))}, false},
		"streamed":            {[]answerFunc{streamed(roleChunk + strings.Repeat(roleChunk[:strings.Index(roleChunk, `""`)]+`"`+text[:500]+`"}}]}`+"\n\n", 5))}, true},
		"one huge event":      {[]answerFunc{streamed(roleChunk + "data: " + strings.Repeat("x", maxEventBytes+1) + "\n\n")}, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(tt.answers...)
			g.options.MaxResponseBytes = 2000
			w := g.post(fmt.Sprintf("%s,\"stream\":%v}", question, tt.stream))
			code := gjson.Get(w.Body.String(), "error.code").String()
			if tt.stream {
				code = gjson.Get(strings.Join(read(w.Body.String()).errors, ""), "code").String()
			}
			if code != "response_too_large" || !tt.stream && w.Code != 502 || w.Body.Len() > 3000 {
				t.Errorf("%d %.300s", w.Code, w.Body)
			}
		})
	}
}

func zipped(s string) string {
	var b bytes.Buffer
	zw := gzip.NewWriter(&b)
	zw.Write([]byte(s)) //nolint:errcheck // memory
	zw.Close()          //nolint:errcheck // memory
	return b.String()
}

func TestCompression(t *testing.T) {
	coded := func(coding string, answer answerFunc) answerFunc {
		return func(r *http.Request) (*http.Response, error) {
			resp, err := answer(r)
			resp.Header.Set("Content-Encoding", coding)
			resp.Header.Set("Etag", `"x"`)
			return resp, err
		}
	}
	t.Run("gzip answers are read, and the client gets them plain", func(t *testing.T) {
		g := newRig(coded("gzip", whole(zipped(calls("mcp_wx__now", "{}")))), coded("gzip", whole(zipped(says("Sunny.")))))
		w := g.post(question+"}", func(r *http.Request) { r.Header.Set("Accept-Encoding", "gzip, br") })
		if gjson.Get(w.Body.String(), "choices.0.message.content").String() != "Sunny." || w.Header().Get("Content-Encoding") != "" || w.Header().Get("Etag") != "" {
			t.Errorf("%v %s", w.Header(), w.Body)
		}
		if got := g.model.requests[0].Header.Get("Accept-Encoding"); got != "identity" {
			t.Errorf("accept-encoding: %s", got)
		}
		g = newRig(coded("gzip", streamed(zipped(asStream(says("Sunny."))))))
		if w := g.post(question + `,"stream":true}`); read(w.Body.String()).text != "Sunny." || w.Header().Get("Content-Encoding") != "" {
			t.Errorf("%v %s", w.Header(), w.Body)
		}
	})
	t.Run("an error is passed on as it was coded", func(t *testing.T) {
		body := zipped(`{"error":{"message":"slow down"}}`)
		w := newRig(coded("gzip", respond(429, "application/json", body))).post(question + "}")
		if w.Code != 429 || w.Body.String() != body || w.Header().Get("Content-Encoding") != "gzip" {
			t.Errorf("%d %v %q", w.Code, w.Header(), w.Body)
		}
	})
	t.Run("other codings cannot be read", func(t *testing.T) {
		w := newRig(coded("br", whole("xx"))).post(question + "}")
		if w.Code != 502 || gjson.Get(w.Body.String(), "error.code").String() != "upstream_encoding" || w.Header().Get("Content-Encoding") != "" {
			t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
		}
	})
	t.Run("gzip requests are read", func(t *testing.T) {
		g := newRig(whole(says("hi")))
		g.post(zipped(question+"}"), func(r *http.Request) { r.Header.Set("Content-Encoding", "gzip") })
		if got := gjson.Get(g.model.asked(1), "tools.0.type").String(); got != "function" || g.model.requests[0].Header.Get("Content-Encoding") != "" {
			t.Errorf("the model got %s", g.model.asked(1))
		}
	})
	t.Run("gzip bombs are not", func(t *testing.T) {
		g := newRig()
		g.options.MaxRequestBytes = 10_000
		w := g.post(zipped(strings.Repeat(" ", 1<<20)), func(r *http.Request) { r.Header.Set("Content-Encoding", "gzip") })
		if w.Code != 413 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}

// A provider that streams when it should not, or does not when it should, is read.
func TestTheOtherForm(t *testing.T) {
	g := newRig(whole(calls("mcp_wx__now", "{}")), whole(says("Sunny.")))
	s := read(g.post(question + `,"stream":true}`).Body.String())
	if s.text != "Sunny." || s.dones != 1 || s.roles != 1 || len(s.finishes) != 1 || g.model.count() != 2 {
		t.Errorf("streamed: %v", s.events)
	}
	g = newRig(streamed(asStream(calls("mcp_wx__now", "{}"))), streamed(asStream(says("Sunny."))))
	w := g.post(question + "}")
	if gjson.Get(w.Body.String(), "choices.0.message.content").String() != "Sunny." || w.Header().Get("Content-Type") != "application/json" ||
		gjson.Get(w.Body.String(), "object").String() != "chat.completion" || gjson.Get(w.Body.String(), "usage.total_tokens").Int() != 35 {
		t.Errorf("whole: %s", w.Body)
	}
}

// What the tools' side does wrong the model is told; the turn goes on.
func TestToolFaults(t *testing.T) {
	for name, tt := range map[string]struct {
		call, arguments string
		run             func(context.Context, string, string) Result
		told            string
	}{
		"panic":         {"mcp_wx__now", "{}", func(context.Context, string, string) Result { panic("boom") }, "failed inside the gateway"},
		"not JSON":      {"mcp_wx__now", `{"a":`, nil, "not valid JSON"},
		"not an object": {"mcp_wx__now", `[]`, nil, "not an object"},
		"two objects":   {"mcp_wx__now", `{"q":"a"}{"q":"b"}`, nil, "not valid JSON"},
		"unknown":       {"mcp_wx__forcast", `{}`, nil, "there is no tool"},
		"a tool's error": {"mcp_wx__now", `{}`, func(context.Context, string, string) Result {
			return Result{Text: "Error: no such city", Outcome: "tool_error"}
		}, "no such city"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(whole(calls(tt.call, tt.arguments)), whole(says("Sorry.")))
			g.tools.run = tt.run
			w := g.post(question + "}")
			if told := gjson.Get(g.model.asked(2), `messages.#(role=="tool").content`).String(); !strings.Contains(told, tt.told) {
				t.Errorf("the model was told %q, want %q", told, tt.told)
			}
			if w.Code != 200 || gjson.Get(w.Body.String(), "choices.0.message.content").String() != "Sorry." {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
	}
}

// A body that breaks off is an error, not an answer.
func TestBrokenBody(t *testing.T) {
	broken := func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}},
			Body: io.NopCloser(io.MultiReader(strings.NewReader(`{"choices"`), errReader{}))}, nil
	}
	w := newRig(broken).post(question + "}")
	if w.Code != 502 || gjson.Get(w.Body.String(), "error.code").String() != "upstream_truncated" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	defer func() {
		if recover() != http.ErrAbortHandler {
			t.Error("a copied answer that breaks off must abort the response")
		}
	}()
	g := newRig(broken)
	g.post("{}", func(r *http.Request) { r.URL.Path = "/v1/embeddings" })
}

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, errors.New("connection reset") }
