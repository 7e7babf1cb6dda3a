package llm_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"go.uber.org/goleak"

	"github.com/mcp-via-llm/mcp-via-llm/e2e/llm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, brain llm.Brain) (*llm.Server, string) {
	t.Helper()
	server, err := llm.Start("127.0.0.1:0", brain)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return server, "http://" + server.Address() + "/v1"
}

// TestWireFormat asserts that the official SDK reads the answers, whole, streamed and compressed.
func TestWireFormat(t *testing.T) {
	answer := llm.Answer{Text: "Let me add.", Prompt: 3, Output: 4, Calls: []llm.ToolCall{
		llm.Call("c1", "add", `{"a":5,"b":7}`), llm.Call("c2", "add", `{"a":"é","b":8}`),
	}}.Step()
	for name, step := range map[string]llm.Step{"plain": answer, "gzip": llm.Gzip(answer)} {
		t.Run(name, func(t *testing.T) {
			_, url := start(t, llm.Always(step))
			client := openai.NewClient(option.WithBaseURL(url), option.WithAPIKey("k"))
			request := openai.ChatCompletionNewParams{Model: "m", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hi")}}
			whole, err := client.Chat.Completions.New(t.Context(), request)
			if err != nil {
				t.Fatal(err)
			}
			check(t, whole)
			request.StreamOptions.IncludeUsage = openai.Bool(true)
			chunks := client.Chat.Completions.NewStreaming(t.Context(), request)
			defer chunks.Close()
			var sum openai.ChatCompletionAccumulator
			for chunks.Next() {
				if !sum.AddChunk(chunks.Current()) {
					t.Error("the accumulator refuses a chunk")
				}
			}
			if chunks.Err() != nil {
				t.Fatal(chunks.Err())
			}
			check(t, &sum.ChatCompletion)
		})
	}
}

func check(t *testing.T, c *openai.ChatCompletion) {
	t.Helper()
	message := c.Choices[0].Message
	if message.Content != "Let me add." || c.Choices[0].FinishReason != "tool_calls" || c.Usage.TotalTokens != 7 || len(message.ToolCalls) != 2 {
		t.Fatalf("got %s", c.RawJSON())
	}
	if call := message.ToolCalls[1]; call.ID != "c2" || call.Function.Name != "add" || call.Function.Arguments != `{"a":"é","b":8}` {
		t.Errorf("second call %+v", call)
	}
}

// TestAbort asserts that a caller that goes away is noticed, and one that stays is not taken for one.
func TestAbort(t *testing.T) {
	server, url := start(t, llm.Sequence(llm.Hang(), llm.Text("hello")))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		if request, err := server.Wait(ctx, 1); err == nil && request.Number == 1 {
			cancel()
		}
	}()
	if err := post(ctx, url); err == nil {
		t.Error("the hanging request was answered")
	}
	limit, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	if _, err := server.Requests()[0].WaitAborted(limit); err != nil {
		t.Error(err)
	}
	if err := post(t.Context(), url); err != nil {
		t.Error(err)
	}
	if _, err := server.Requests()[1].WaitAborted(limit); err == nil {
		t.Error("an answered request counts as aborted")
	}
}

func post(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/chat/completions", strings.NewReader(`{"model":"m","messages":[]}`))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return err
}
