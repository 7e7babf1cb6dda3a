package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/chat"
	"github.com/tidwall/gjson"
)

var (
	errNoSampling = errors.New("this application does not let servers ask the model")
	errSampled    = errors.New("the turn's budget of requests to the model is used up")
)

// Sample asks the model of the turn, on the turn's account (MCP 2025-11-25,
// "Sampling"). It goes beside the conversation: of that the server learns nothing,
// and the model nothing of what the server asks.
func (a *asker) Sample(ctx context.Context, _ string, params json.RawMessage) (json.RawMessage, error) {
	budget := a.t.client.Sampling
	if budget.MaxRequests <= 0 {
		return nil, errNoSampling
	}
	aside, err := a.t.aside(gjson.ParseBytes(params))
	if err != nil {
		return nil, err
	}
	body := a.t.req.Aside(aside, chat.Dialects[a.t.client.Dialect])
	if int64(len(body)) > a.t.h.MaxRequestBytes {
		return nil, errors.New("the request is too large")
	}
	if a.t.sampled.Add(1) > int64(budget.MaxRequests) {
		return nil, errSampled
	}
	if limit := a.t.client.LoopTimeout; limit > 0 { // the turn may have ended
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	said, err := a.t.ask(ctx, body)
	if err != nil {
		return nil, err
	}
	a.spend(said.Usage)
	return sampled(said)
}

// aside makes a request of what a server asks. Preferences of models are not
// heeded: the client has chosen its model.
func (t *turn) aside(params gjson.Result) (chat.Aside, error) {
	out := chat.Aside{MaxTokens: t.client.Sampling.MaxTokens, More: map[string]string{}}
	if n := params.Get("maxTokens").Int(); n > 0 {
		out.MaxTokens = int(min(n, int64(out.MaxTokens)))
	}
	if v := params.Get("temperature"); v.Type == gjson.Number {
		out.More["temperature"] = v.Raw
	}
	if v := params.Get("stopSequences"); v.IsArray() && len(v.Array()) > 0 {
		out.More["stop"] = v.Raw
	}
	if system := params.Get("systemPrompt").String(); system != "" {
		out.Messages = append(out.Messages, chat.TextMessage("system", system))
	}
	for _, m := range params.Get("messages").Array() {
		role := m.Get("role").String()
		if role != "user" && role != "assistant" {
			return out, fmt.Errorf("a message has the role %q; only user and assistant can be sent", role)
		}
		message, err := t.sampleMessage(role, m.Get("content"))
		if err != nil {
			return out, err
		}
		out.Messages = append(out.Messages, message)
	}
	if len(out.Messages) == 0 {
		return out, errors.New("there are no messages")
	}
	return out, nil
}

// sampleMessage makes a message of one block of content or of several.
func (t *turn) sampleMessage(role string, content gjson.Result) ([]byte, error) {
	if content.Get("type").String() == "text" {
		return chat.TextMessage(role, content.Get("text").String()), nil
	}
	blocks := content.Array() // of one, if it is not an array
	var parts [][]byte
	for _, b := range blocks {
		switch kind := b.Get("type").String(); kind {
		case "text":
			parts = append(parts, chat.TextPart(b.Get("text").String()))
		case "image", "audio":
			mime, data := b.Get("mimeType").String(), b.Get("data").String()
			if kind == "image" && role == "user" && t.shows() && len(data) <= maxTurnImages {
				parts = append(parts, chat.ImagePart(mime, data))
			} else {
				parts = append(parts, chat.TextPart(fmt.Sprintf("[%s %s]", kind, mime)))
			}
		default:
			return nil, fmt.Errorf("content of type %q cannot be sent", kind)
		}
	}
	return chat.PartsMessage(role, parts...), nil
}

// ask does one exchange with the model beside the turn.
func (t *turn) ask(ctx context.Context, body []byte) (chat.Said, error) {
	report, sent := SegmentReport{Offset: time.Since(t.start), Bytes: len(body)}, time.Now()
	ctx, span := t.startSegment(ctx)
	said, err := t.askModel(ctx, body, &report)
	report.Duration = time.Since(sent)
	var reply *chat.Reply
	if err == nil {
		reply = &chat.Reply{Message: string(chat.TextMessage("assistant", said.Text)), Finish: said.Finish, Usage: said.Usage, Origin: chat.Origin{Model: said.Model}}
	}
	t.h.OnSegment(ctx, t.endSegment(ctx, span, body, &report, reply, err)) // now: many may run at once, and outlive the turn
	return said, err
}

func (t *turn) askModel(ctx context.Context, body []byte, report *SegmentReport) (chat.Said, error) {
	request := t.request(ctx, body)
	request.Header.Set("Accept", "application/json")
	resp, err := t.h.Aside.RoundTrip(request)
	if err != nil {
		t.h.Log.WarnContext(ctx, "a server's request to the model failed", "err", err)
		return chat.Said{}, errors.New("the model's provider could not be reached")
	}
	defer resp.Body.Close()
	if report.Status = resp.StatusCode; resp.StatusCode/100 != 2 {
		return chat.Said{}, fmt.Errorf("the model's provider answered with status %d", resp.StatusCode)
	}
	if err := decode(resp); err != nil {
		return chat.Said{}, err
	}
	answer, err := readAll(resp.Body, t.h.MaxResponseBytes, resp.ContentLength)
	if err != nil {
		return chat.Said{}, fmt.Errorf("the model's answer could not be read: %w", err)
	}
	completion := string(answer)
	if contentType(resp, "event-stream") {
		if completion, err = assemble(answer, t.req.Model, "aside"); err != nil {
			return chat.Said{}, err
		}
	}
	return chat.ReadSaid(completion)
}

// sampled is the result of sampling/createMessage.
func sampled(said chat.Said) (json.RawMessage, error) {
	reason := map[string]string{"stop": "endTurn", "length": "maxTokens"}[said.Finish]
	if reason == "" {
		reason = said.Finish
	}
	type content struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	return json.Marshal(struct {
		Role    string  `json:"role"`
		Content content `json:"content"`
		Model   string  `json:"model"`
		Reason  string  `json:"stopReason,omitempty"`
	}{"assistant", content{"text", said.Text}, said.Model, reason})
}

// spend adds to what the call has cost the turn.
func (a *asker) spend(usage string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.usage = chat.AddUsage(a.usage, usage)
}

func (a *asker) spent() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.usage
}
