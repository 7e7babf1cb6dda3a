package loop

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/mcp-via-llm/mcp-via-llm/chat"
	"github.com/mcp-via-llm/mcp-via-llm/sessions"
	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

var errLoopTimeout = errors.New("the turn took longer than its loop timeout")

// retryHeader stops the official SDKs' own retries (openai-python, openai-node).
const retryHeader = "X-Should-Retry"

// retryCountHeader is how often the official SDKs have sent a request before.
const retryCountHeader = "X-Stainless-Retry-Count"

var unreachable = &chat.Error{Status: http.StatusBadGateway, Type: "server_error", Code: "upstream_unreachable",
	Message: "The model's provider could not be reached."}

// statusError is an answer of the provider whose status is not a success.
type statusError struct {
	status int
	header http.Header
	body   []byte
}

func (e *statusError) Error() string {
	return fmt.Sprintf("the provider answered with status %d", e.status)
}

// object is the provider's error as the one-member object of a stream's error event.
func (e *statusError) object() []byte {
	if v := gjson.GetBytes(e.body, "error"); gjson.ValidBytes(e.body) && v.IsObject() {
		return []byte(`{"error":` + v.Raw + `}`)
	}
	return (&chat.Error{Type: "server_error", Code: "upstream_error", Message: "The model's provider answered with status " + fmt.Sprint(e.status) + "."}).Object()
}

// fail ends a turn that cannot go on: with a status and an error body as long as
// nothing was sent, else with one error event. Whoever is gone gets nothing.
func (t *turn) fail(ctx context.Context, err error) {
	stop, out := StopError, t.describe(ctx, err)
	t.failure = t.errorType(ctx, 0, err)
	if out == nil {
		t.end(StopCancelled, 0, err)
		return
	}
	if out.Code == "loop_timeout" {
		stop = StopTimeout
	}
	var status *statusError
	var upstream *chat.UpstreamError
	object := out.Object()
	switch {
	case errors.As(err, &status):
		object = status.object()
	case errors.As(err, &upstream):
		object, out.Status = upstream.Object(), upstream.Status
	}
	object, _ = sjson.SetRawBytes(object, "extensions.mcp_via_llm", []byte(t.extensions(stop)))

	if t.answer.seize() {
		t.answer.final(string(object)) //nolint:errcheck // the client is gone, nobody is left to tell
		t.end(stop, http.StatusOK, err)
		return
	}
	if t.acted {
		t.w.Header().Set(retryHeader, "false")
	}
	if status != nil {
		for _, name := range chat.BodyHeaders { // of an earlier segment
			t.w.Header().Del(name)
		}
		for _, name := range []string{"Content-Type", "Content-Encoding", "Retry-After"} {
			t.w.Header()[name] = status.header[name]
		}
		t.w.WriteHeader(status.status)
		t.w.Write(status.body) //nolint:errcheck // as above
		t.end(stop, status.status, err)
		return
	}
	chat.WriteError(t.w, out.Status, object)
	t.end(stop, out.Status, err)
}

// describe puts an error in words for the client; nil if the client is gone.
func (t *turn) describe(ctx context.Context, err error) *chat.Error {
	out := &chat.Error{Status: http.StatusBadGateway, Type: "server_error"}
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, errLoopTimeout):
		out.Status, out.Code = http.StatusGatewayTimeout, "loop_timeout"
		out.Message = fmt.Sprintf("The turn took longer than %s. Ask for less, or have the gateway's loop_timeout raised.", t.client.LoopTimeout)
	case errors.Is(cause, context.Canceled):
		return nil
	case errors.Is(cause, errTakenOver):
		out.Status, out.Code, out.Message = http.StatusConflict, "superseded", "The same request was sent again, and that one goes on."
	case cause != nil:
		out.Status, out.Code = http.StatusServiceUnavailable, "shutting_down"
		out.Message = "The gateway is shutting down. Send the request again."
	case errors.Is(err, sessions.ErrUnavailable):
		*out = *storeAway
	case errors.Is(err, errTooLarge):
		out.Code = "response_too_large"
		out.Message = fmt.Sprintf("The response is larger than the gateway's limit of %d bytes.", t.h.MaxResponseBytes)
	case errors.Is(err, chat.ErrTruncated):
		out.Code, out.Message = "upstream_truncated", "The model's provider ended its answer too early."
	case errors.Is(err, chat.ErrMalformed):
		out.Code, out.Message = "upstream_malformed", "The model's provider sent an answer that is not a chat completion."
	case errors.Is(err, errCoding):
		out.Code, out.Message = "upstream_encoding", "The model's provider sent its answer in a content-encoding that the gateway cannot read."
	default:
		*out = *unreachable
	}
	return out
}
