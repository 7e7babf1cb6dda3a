package loop

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tidwall/gjson"
)

func TestOverflows(t *testing.T) {
	for _, tt := range []struct {
		status int
		body   string
		want   bool
	}{
		{400, `{"error":{"message":"This model's maximum context length is 128000 tokens. However, your messages resulted in 1300000 tokens.","code":"context_length_exceeded"}}`, true},
		{400, `{"error":{"message":"Your input exceeds the context window of this model. Please adjust your input and try again."}}`, true},
		{400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 218849 tokens > 200000 maximum"}}`, true},
		{400, `{"object":"error","message":"This model's maximum context length is 4096 tokens. Please reduce the length of the messages.","type":"BadRequestError","code":400}`, true},
		{400, `[{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048575).","status":"INVALID_ARGUMENT"}}]`, true},
		{400, `{"error":{"code":400,"message":"the request exceeds the available context size. try increasing the context size","type":"exceed_context_size_error"}}`, true},
		{400, `{"error":{"message":"Invalid 'messages[2].content': string too long.","code":"string_above_max_length"}}`, true},
		{400, `{"message":"Input is too long for requested model."}`, true},
		{422, `{"error":"Input validation error: ` + "`inputs`" + ` must have less than 4096 tokens. Given: 9000"}`, true},
		{413, `<html>413 Request Entity Too Large</html>`, true},
		{413, ``, true},
		{429, `{"error":{"message":"Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 60000.","type":"tokens","code":"rate_limit_exceeded"}}`, true},
		{500, `{"error":{"message":"input length exceeds context length","type":"api_error"}}`, true},
		{400, `{"error":{"message":"input length and ` + "`max_tokens`" + ` exceed context limit: 175272 + 32000 > 200000, decrease input length or ` + "`max_tokens`" + ` and try again"}}`, true},
		{400, `{"error":{"message":"Invalid request: Your request exceeded model token limit: 262144 (requested: 269030)"}}`, true},
		{400, `{"error":{"message":"total message size 2100954 exceeds limit 2097152"}}`, true},
		{400, `{"error":{"message":"<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 258048]"}}`, true},
		{400, `{"error":{"code":"1261","message":"Prompt exceeds max length"}}`, true},
		{400, `[{"error":{"message":"Request payload size exceeds the limit: 20971520 bytes."}}]`, true},
		{400, `{"errors":[{"code":"invalid_input_argument","message":"the number of input tokens 5000 cannot exceed the total tokens limit 4096 for this model"}]}`, true},
		{400, `{"error_code":336007,"error_msg":"prompt tokens too long"}`, true},
		{400, `{"error_code":336003,"error_msg":"the max input characters is 5120"}`, true},
		{400, `{"message":"Exceeded max input tokens: input length 10 exceeded"}`, true},
		{400, `{"message":"too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 5000. Try using a shorter prompt"}`, true},
		{400, `{"error":{"message":"Please reduce the length of the messages or completion."}}`, true},
		{400, `{"object":"error","message":"Prompt contains 65673 tokens, too large for model with 32768 maximum context length"}`, true},
		{400, `{"error":{"message":"invalid params, context window exceeds limit (2013)"}}`, true},
		{400, `{"error":{"message":"Total tokens of image and text exceed max message tokens"}}`, true},
		{400, `{"error":{"message":"The input (9000 tokens) is longer than the model's context length (8192 tokens)."}}`, true},
		{400, `{"error":{"message":"prompt token count of 70000 exceeds the limit of 64000","code":"model_max_prompt_tokens_exceeded"}}`, true},
		{400, `{"error":{"message":"Your messages exceed the model's maximum length"}}`, true},
		{400, `{"error":{"message":"max tokens of 4096 exceeded"}}`, true},
		{400, `{"error":{"message":"the length of your prompt exceeds the maximum"}}`, true},
		{400, `{"error":{"message":"inputs tokens + max_new_tokens must be <= 8193. Given: 9000"}}`, true},
		{429, `{"error":{"message":"Number of request tokens has exceeded your daily rate limit"}}`, false},
		{429, `{"error":{"message":"Tokens per day limit exceeded. Requested 4000, used 100000."}}`, false},
		{400, `{"error":{"message":"Unsupported parameter: foo","code":"unsupported_parameter"}}`, false},
		{429, `{"error":{"message":"Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 29000, Requested 5000. Please try again in 8s."}}`, false},
		{429, `{"error":{"message":"Requests to the ChatCompletions operation have exceeded token rate limit of your current OpenAI S0 pricing tier."}}`, false},
		{429, `{"error":{"message":"max tokens exceeded per minute"}}`, false},
		{503, `{"error":{"message":"too many tokens in queue"}}`, false},
		{429, `{"error":{"message":"You exceeded your current quota, please check your plan and billing details."}}`, false},
		{500, `{"error":{"message":"The server had an error while processing your request."}}`, false},
		{503, `{"error":{"message":"The model is overloaded."}}`, false},
		{401, `{"error":{"message":"Your token is too long: maximum context length"}}`, false},
	} {
		if got := overflows(tt.status, []byte(tt.body)); got != tt.want {
			t.Errorf("%d %s: %v", tt.status, tt.body, got)
		}
	}
}

// A refusal in words that nobody knows may be about the length; one that says something
// else is not.
func TestUnclearRefusals(t *testing.T) {
	for _, tt := range []struct {
		status int
		body   string
		want   bool
	}{
		{400, `{"error":{"message":"Bad Request"}}`, true},
		{400, ``, true},
		{422, `{"detail":"unprocessable"}`, true},
		{400, `{"error":{"message":"no","param":null}}`, true},
		{400, `{"error":{"message":"no","param":"messages[3].content"}}`, true},
		{400, `{"error":{"message":"doesn't support tool calling without tools= param"}}`, true},
		{400, `{"error":{"message":"no","param":"temperature"}}`, false},
		{400, `{"error":{"message":"Unsupported parameter: foo"}}`, false},
		{400, `{"error":{"message":"The model m does not exist"}}`, false},
		{400, `{"error":{"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}`, false},
		{400, `{"error":{"message":"Your credit balance is too low to access the API."}}`, false},
		{400, `{"error":{"code":"content_filter"}}`, false},
		{401, `?`, false}, {404, `?`, false}, {429, `?`, false}, {500, `?`, false},
	} {
		if got := unclear(tt.status, []byte(tt.body)); got != tt.want {
			t.Errorf("%d %s: %v", tt.status, tt.body, got)
		}
	}
}

const (
	longAnswer = `{"error":{"message":"maximum context length","code":"context_length_exceeded"}}`
	longTPM    = `{"error":{"message":"Request too large for m on tokens per min (TPM)","code":"rate_limit_exceeded"}}`
)

// Whatever the status, a request that is refused as too long brings less when it comes
// again; a refusal for another reason does not.
func TestRefusedWithAnyStatus(t *testing.T) {
	for _, tt := range []struct {
		status int
		body   string
		short  bool
	}{
		{429, longTPM, true}, {500, longAnswer, true}, {413, "<html>", true}, {422, longAnswer, true}, {400, `{"error":{"message":"?"}}`, true},
		{429, `{"error":{"message":"slow down"}}`, false}, {500, "oops", false},
	} {
		synctest.Test(t, func(t *testing.T) {
			rigs, _, _ := replicas(t, 2)
			for _, g := range rigs {
				g.tools.run = large
			}
			rigs[0].answer(whole(calls("mcp_fs__write", "{}")), respond(tt.status, "application/json", tt.body))
			rigs[0].post(chatOf(asks))
			rigs[1].answer(whole(says("Short.")))
			rigs[1].post(chatOf(asks))
			result := gjson.Get(rigs[1].model.asked(1), `messages.#(role=="tool").content`).String()
			if short := len(result) <= refusedMax; short != tt.short || result == "" {
				t.Errorf("%d %s: %d bytes", tt.status, tt.body, len(result))
			}
		})
	}
}

// limited is a model that takes no more than so many bytes of messages.
func limited(g *rig, limit *int, refusal answerFunc, answers ...answerFunc) {
	for range 3 * len(answers) {
		g.answer(func(r *http.Request) (*http.Response, error) {
			body := g.model.asked(g.model.count())
			if len(gjson.Get(body, "messages").Raw) > *limit {
				return refusal(r)
			}
			next := answers[0]
			answers = answers[1:]
			return next(r)
		})
	}
}

// Hidden history that makes a request too long is left out of it, as much as must be:
// what works without us works with us.
func TestHistoryThatIsTooLong(t *testing.T) {
	for _, streaming := range []bool{false, true} {
		for name, tt := range map[string]struct {
			limit, args int
			want        string
			asked       int
		}{
			"fits":                      {1 << 20, 10, "row row", 1},
			"without results":           {8_000, 10, noticeTrimmed, 2},
			"without what is hidden":    {8_000, 20_000, "", 3},
			"too long without us, even": {100, 10, "", 3},
		} {
			synctest.Test(t, func(t *testing.T) {
				rigs, _, _ := replicas(t, 1)
				g := rigs[0]
				g.tools.run = func(context.Context, string, string) Result {
					return Result{Text: strings.Repeat("row ", 10_000), Outcome: "ok"}
				}
				limit := 1 << 20
				wrap := func(s string) answerFunc { return whole(s) }
				if streaming {
					wrap = func(s string) answerFunc { return streamed(asStream(s)) }
				}
				limited(g, &limit, respond(400, "application/json", longAnswer),
					wrap(calls("mcp_fs__write", fmt.Sprintf(`{"a":"%s"}`, strings.Repeat("x", tt.args)))), wrap(says("Done.")), wrap(says("Next.")))
				with := func(messages ...string) string {
					return fmt.Sprintf(`{"stream":%v,%s`, streaming, chatOf(messages...)[1:])
				}
				g.post(with(`{"role":"user","content":"one"}`))
				limit = tt.limit
				before := g.model.count()
				w := g.post(with(`{"role":"user","content":"one"}`, `{"role":"assistant","content":"Done."}`, `{"role":"user","content":"two"}`))
				last := g.model.asked(g.model.count())
				if n := g.model.count() - before; n != tt.asked {
					t.Errorf("%s: asked %d times", name, n)
				}
				if tt.limit == 100 {
					if w.Code != 400 || w.Body.String() != longAnswer {
						t.Errorf("%s: %d %s", name, w.Code, w.Body)
					}
					return
				}
				if w.Code != 200 || !strings.Contains(w.Body.String(), "Next.") || tt.want != "" && !strings.Contains(last, tt.want) ||
					tt.want == "" && len(gjson.Get(last, "messages").Array()) != 3 {
					t.Errorf("%s: %d %s; the model saw %.300s", name, w.Code, w.Body, last)
				}
			})
		}
	}
}

// The same if the provider says so in an answer with status 200, unless the client has
// something of it.
func TestHistoryThatIsTooLongWithStatus200(t *testing.T) {
	const event = "data: " + longAnswer + "\n\n"
	const role = `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"We"}}]}` + "\n\n"
	for _, tt := range []struct {
		name, refusal string
		stream        bool
		limit, asked  int
		code          int
		body          string // has this
	}{
		{"an event", event, true, 8_000, 3, 200, "Next."},
		{"an event behind comments", ": wait\n\n" + event, true, 8_000, 3, 200, "Next."},
		{"an event for whatever is sent", event, true, 100, 3, 502, "maximum context length"},
		{"an event after text", role + event, true, 8_000, 1, 200, "maximum context length"},
		{"an event for another reason", "data: " + `{"error":{"message":"too many tokens in queue"}}` + "\n\n", true, 8_000, 1, 502, "in queue"},
		{"an object", longAnswer, true, 8_000, 3, 200, "Next."},
		{"an object, not streamed", longAnswer, false, 8_000, 3, 200, "Next."},
		{"an event, not streamed", event, false, 8_000, 3, 200, "Next."},
		{"an event for whatever is sent, not streamed", event, false, 100, 3, 502, "maximum context length"},
		{"an object for whatever is sent", longAnswer, false, 100, 3, 200, longAnswer},
	} {
		synctest.Test(t, func(t *testing.T) {
			rigs, _, _ := replicas(t, 1)
			g := rigs[0]
			limit, kind, wrap := 1<<20, "application/json", whole
			if tt.stream {
				wrap = func(s string) answerFunc { return streamed(asStream(s)) }
			}
			if strings.Contains(tt.refusal, "data: ") {
				kind = "text/event-stream"
			}
			limited(g, &limit, respond(200, kind, tt.refusal),
				wrap(calls("mcp_fs__write", fmt.Sprintf(`{"a":"%s"}`, strings.Repeat("x", 20_000)))), wrap(says("Done.")), wrap(says("Next.")))
			with := func(messages ...string) string {
				return fmt.Sprintf(`{"stream":%v,%s`, tt.stream, chatOf(messages...)[1:])
			}
			first, done, next := `{"role":"user","content":"one"}`, `{"role":"assistant","content":"Done."}`, `{"role":"user","content":"two"}`
			g.tools.run = large
			g.post(with(first))
			limit = tt.limit
			before := g.model.count()
			w := g.post(with(first, done, next))
			if n := g.model.count() - before; n != tt.asked || w.Code != tt.code || !strings.Contains(w.Body.String(), tt.body) {
				t.Errorf("%s: asked %d times, %d %s", tt.name, n, w.Code, w.Body)
			}
			if got := g.history(); tt.asked == 3 && got != "user:one|assistant:Done.|user:two" {
				t.Errorf("%s: the model saw %.300s", tt.name, got)
			}
		})
	}
}

// What a provider refuses for an unknown reason it gets once more, without what the
// client has not sent. Later requests of the turn, and reasons that are known, are not
// worth that.
func TestUnclearRefusalOfHistory(t *testing.T) {
	const odd, known = `{"error":{"message":"?"}}`, `{"error":{"message":"Unsupported parameter: foo"}}`
	for _, tt := range []struct {
		name, refusal string
		times         int // that the provider refuses
		asked, code   int
	}{
		{"taken without", odd, 1, 2, 200}, {"refused without", odd, 2, 2, 400}, {"a known reason", known, 1, 1, 400},
	} {
		synctest.Test(t, func(t *testing.T) {
			rigs, _, _ := replicas(t, 1)
			g := rigs[0]
			g.answer(whole(calls("mcp_fs__write", "{}")), whole(says("Done.")))
			for range tt.times {
				g.answer(respond(400, "application/json", tt.refusal))
			}
			g.answer(whole(says("Next.")))
			first, done, next := `{"role":"user","content":"one"}`, `{"role":"assistant","content":"Done."}`, `{"role":"user","content":"two"}`
			g.post(chatOf(first))
			w := g.post(chatOf(first, done, next))
			if w.Code != tt.code || g.model.count() != 2+tt.asked || tt.code != 200 && w.Body.String() != tt.refusal {
				t.Errorf("%s: %d %s, asked %d times", tt.name, w.Code, w.Body, g.model.count()-2)
			}
			if got := g.history(); tt.asked == 2 && got != "user:one|assistant:Done.|user:two" {
				t.Errorf("%s: the model saw %s", tt.name, got)
			}
		})
	}
	g := newRig(whole(calls("mcp_fs__write", "{}")), respond(400, "application/json", odd))
	if w := g.post(chatOf(asks)); w.Code != 400 || g.model.count() != 2 {
		t.Errorf("%d, asked %d times", w.Code, g.model.count())
	}
}

// New results of a mixed turn are cut short, where nothing else helps.
func TestFreshResultsThatAreTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rigs, _, _ := replicas(t, 1)
		g := rigs[0]
		g.tools.run = large
		g.answer(whole(mixedCalls()), respond(500, "application/json", longAnswer), whole(says("Done.")))
		g.post(chatOf(asks))
		w := g.post(chatOf(asks, booking, booked))
		for _, m := range gjson.Get(g.model.asked(3), `messages.#(role=="tool")#.content`).Array() {
			if len(m.String()) > refusedMax || strings.HasPrefix(m.String(), "begin") && !strings.HasSuffix(m.String(), " end") {
				t.Errorf("%d bytes: %.100s", len(m.String()), m)
			}
		}
		if w.Code != 200 || g.model.count() != 3 || len(g.tools.made()) != 2 {
			t.Errorf("%d %s, asked %d times, ran %q", w.Code, w.Body, g.model.count(), g.tools.made())
		}
	})
}

// A refusal is the client's as it came where nothing can be left out: the new results of
// a mixed turn may be short.
func TestRefusalOfShortResults(t *testing.T) {
	for _, status := range []int{200, 400} {
		synctest.Test(t, func(t *testing.T) {
			rigs, _, _ := replicas(t, 1)
			g := rigs[0]
			refusal := func(r *http.Request) (*http.Response, error) {
				resp, err := respond(status, "application/json", longAnswer)(r)
				resp.Header.Set("X-Ratelimit-Remaining", "7")
				return resp, err
			}
			g.answer(whole(mixedCalls()), refusal)
			g.post(chatOf(asks))
			w := g.post(chatOf(asks, booking, booked))
			if w.Code != status || w.Body.String() != longAnswer || w.Header().Get("X-Ratelimit-Remaining") == "" || g.model.count() != 2 {
				t.Errorf("%d: %d %v %s, asked %d times", status, w.Code, w.Header(), w.Body, g.model.count())
			}
		})
	}
}
