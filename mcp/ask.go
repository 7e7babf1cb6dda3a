package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"runtime/debug"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/mcp-via-llm/mcp-via-llm/excerpt"
)

const (
	methodSample = "sampling/createMessage"
	methodElicit = "elicitation/create"
	methodRoots  = "roots/list"

	// maxQuestions bounds what a server may ask during one request, and with it the
	// rounds of input_required.
	maxQuestions = 10
	// maxBusy bounds how often a server may put a request off.
	maxBusy = 3
	// codeRejected is what the specification's example of a refused sampling request
	// has (2025-11-25, "Sampling": Error Handling).
	codeRejected = -1
)

// capabilities are what servers are told that they may ask for. Undeclared, a
// server must not ask (2025-11-25, "Lifecycle": Capability Negotiation).
func (s *Server) capabilities() *sdk.ClientCapabilities {
	caps := &sdk.ClientCapabilities{}
	if len(s.Roots) > 0 {
		caps.RootsV2 = &sdk.RootCapabilities{}
	}
	if s.Sampling {
		caps.Sampling = &sdk.SamplingCapabilities{}
	}
	if s.Elicitation {
		caps.Elicitation = &sdk.ElicitationCapabilities{Form: &sdk.FormElicitationCapabilities{}}
	}
	return caps
}

// capabilitiesV2 are the same as 2026-07-28 has them in every request's _meta.
func (s *Server) capabilitiesV2() map[string]any {
	caps := map[string]any{}
	if len(s.Roots) > 0 {
		caps["roots"] = struct{}{}
	}
	if s.Sampling {
		caps["sampling"] = struct{}{}
	}
	if s.Elicitation {
		caps["elicitation"] = map[string]any{"form": struct{}{}}
	}
	return caps
}

// rootsResult answers roots/list.
func (s *Server) rootsResult() json.RawMessage {
	type root struct {
		URI  string `json:"uri"`
		Name string `json:"name,omitempty"`
	}
	result := struct {
		Roots []root `json:"roots"`
	}{[]root{}}
	for _, uri := range s.Roots {
		result.Roots = append(result.Roots, root{uri, path.Base(uri)})
	}
	raw, _ := json.Marshal(result) // strings always encode
	return raw
}

// answerTo answers what a server asks while it works on run, nil if that cannot be
// told. Nothing is ever accepted here: either the Asker of that very request
// answers, or nobody does.
func (s *session) answerTo(ctx context.Context, run *running, method string, params json.RawMessage) (json.RawMessage, *jsonrpc.Error) {
	refuse := func(code int64, reason string) (json.RawMessage, *jsonrpc.Error) {
		return nil, &jsonrpc.Error{Code: code, Message: reason}
	}
	parsed := gjson.ParseBytes(params)
	switch {
	case method == methodRoots && len(s.cfg.Roots) > 0:
		return s.cfg.rootsResult(), nil
	case method == methodSample && s.cfg.Sampling:
		if parsed.Get("tools").Exists() {
			return refuse(jsonrpc.CodeInvalidParams, "this client does not offer tools in sampling")
		}
	case method == methodElicit && s.cfg.Elicitation:
		if mode := parsed.Get("mode").String(); mode != "" && mode != "form" {
			return refuse(jsonrpc.CodeInvalidParams, "this client offers elicitation by form only")
		}
	default:
		return refuse(jsonrpc.CodeMethodNotFound, excerpt.Head(method, 60)+" is not offered by this client")
	}
	switch {
	case run == nil:
		return refuse(codeRejected, "not answered: it cannot be told which running request this belongs to, or whether to one that was given up")
	case run.asker == nil:
		return refuse(codeRejected, "not answered: nobody can be asked during this request")
	case !run.mayAsk():
		return refuse(codeRejected, fmt.Sprintf("not answered: more than %d questions during one request", maxQuestions))
	}
	defer run.clock.hold()()
	answer, err := s.askOf(ctx, run, method, params)
	switch {
	case err != nil:
		return refuse(codeRejected, "not answered: "+excerpt.Head(err.Error(), maxErrorText))
	case method == methodElicit && !isElicitResult(answer), !gjson.ParseBytes(answer).IsObject():
		return refuse(codeRejected, "not answered: there is no usable answer")
	}
	return answer, nil
}

// askOf stops a panic of the Asker.
func (s *session) askOf(ctx context.Context, run *running, method string, params json.RawMessage) (answer json.RawMessage, err error) {
	defer func() {
		if r := recover(); r != nil { // not the value: it may quote what was asked
			s.log.Error("panic while answering a server", "method", method, "panic", fmt.Sprintf("%T", r), "stack", string(debug.Stack()))
			answer, err = nil, errors.New("internal error")
		}
	}()
	if method == methodSample {
		return run.asker.Sample(ctx, run.server, params)
	}
	return run.asker.Elicit(ctx, run.server, params)
}

func isElicitResult(raw json.RawMessage) bool {
	if !validJSON(raw) {
		return false
	}
	switch gjson.GetBytes(raw, "action").String() {
	case "accept", "decline", "cancel":
		return true
	}
	return false
}

// declined is the answer to an elicitation that nobody answers. The result has no
// member for a reason, so that is in its _meta.
func declined(reason string) json.RawMessage {
	raw, _ := json.Marshal(map[string]any{"action": "decline", "_meta": map[string]string{"mcp-via-llm/reason": reason}})
	return raw
}

// asksForInput reports whether a result is no result yet (2026-07-28: resultType
// input_required).
func asksForInput(raw []byte) bool {
	result := parse(raw)
	return result.Get("resultType").String() == "input_required" || result.Get("inputRequests").Exists()
}

// inputResponse is one answer in its own bytes.
type inputResponse struct {
	*sdk.ElicitResult // for the SDK, which takes only its own types
	raw               json.RawMessage
}

func (r inputResponse) MarshalJSON() ([]byte, error) { return r.raw, nil }

// giveInput answers what a server needs to go on with a request. If something is
// not answered the request ends, and the model is told why.
func (s *session) giveInput(run *running, raw []byte) (answers, error) {
	result := parse(raw)
	given := answers{state: result.Get("requestState").String(), responses: sdk.InputResponseMap{}}
	requests := result.Get("inputRequests")
	failed := func(text string) (answers, error) {
		return answers{}, &callError{OutcomeToolError, run.what.as + " failed: " + text}
	}
	if len(requests.Map()) == 0 {
		// Load shedding: the server wants the same again, later.
		if given.state == "" {
			return failed(needsPerson("input that it does not name", ""))
		}
		if run.busy++; run.busy > maxBusy {
			return failed("the server is too busy to go on with it. The call was not completed.")
		}
		timer := time.NewTimer(retryPause << run.busy)
		defer timer.Stop()
		select {
		case <-timer.C:
			given.responses = nil
			return given, nil
		case <-run.ctx.Done():
			return answers{}, run.ctx.Err()
		}
	}
	if run.rounds++; run.rounds > maxQuestions {
		return failed(fmt.Sprintf("the server asked for more input %d times. The call was not completed.", maxQuestions))
	}
	var refusal *jsonrpc.Error
	var method string
	requests.ForEach(func(id, request gjson.Result) bool {
		method = request.Get("method").String()
		var answer json.RawMessage
		answer, refusal = s.answerTo(run.ctx, run, method, json.RawMessage(request.Get("params").Raw))
		given.responses[id.String()] = inputResponse{raw: answer}
		return refusal == nil && run.ctx.Err() == nil
	})
	switch {
	case run.ctx.Err() != nil:
		return answers{}, run.ctx.Err()
	case refusal != nil && method == methodElicit:
		return failed(needsPerson("a human confirmation or other input from a person", refusal.Message))
	case refusal != nil:
		return failed(fmt.Sprintf("the server asks for %s, which it cannot have here (%s). The call was not completed.",
			excerpt.Head(strings.ToValidUTF8(method, "\uFFFD"), 60), refusal.Message))
	}
	return given, nil
}

// needsPerson tells the model that a server wants something of a person.
func needsPerson(what, reason string) string {
	if reason != "" {
		reason = " (" + reason + ")"
	}
	return "the server needs " + what + ", which cannot be given here" + reason + ". The call was not completed."
}
