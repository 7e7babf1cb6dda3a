package loop

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/chat"
)

// runCalls runs the MCP calls of a segment in parallel, save those whose results
// are known, and gives all results in the order of the calls. Every call has a
// result: one that says what went wrong, if need be.
func (t *turn) runCalls(ctx context.Context, place int, calls []chat.Call, known map[int]Result) []Result {
	results := make([]Result, len(calls))
	var wg sync.WaitGroup
	for i, call := range calls {
		if t.tools.Has(call.Name) {
			t.rec.called = append(t.rec.called, call.Name)
		}
		if result, ok := known[i]; ok {
			results[i] = result
			continue
		}
		wg.Go(func() {
			defer t.take()()
			start := time.Now()
			results[i] = t.runCall(ctx, call)
			t.rec.call(CallReport{Name: call.Name, Segment: place + 1, Offset: start.Sub(t.start), Duration: time.Since(start),
				Outcome: results[i].Outcome, Bytes: len(results[i].Text)})
			if ctx.Err() == nil || results[i].Outcome != "cancelled" {
				t.journal.call(ctx, place, i, results[i])
			}
		})
	}
	wg.Wait()
	if t.journal.isLost() {
		for _, call := range calls {
			readOnly, _ := t.tools.Hints(call.Name, call.Arguments)
			t.acted = t.acted || t.tools.Has(call.Name) && !readOnly
		}
	}
	return results
}

// take waits until fewer than MaxParallelCalls of the turn's calls run, and gives
// what ends the one that may run now.
func (t *turn) take() (release func()) {
	if t.places == nil {
		return func() {}
	}
	t.places <- struct{}{}
	return func() { <-t.places }
}

// runCall runs one call. A panic of the tool's side ends the call, not the process.
func (t *turn) runCall(ctx context.Context, call chat.Call) (result Result) {
	defer func() {
		if p := recover(); p != nil {
			t.h.Log.Error("a tool call panicked", "tool", call.Name, "panic", p, "stack", string(debug.Stack()))
			result = Result{Text: fmt.Sprintf("Error: the tool %q failed inside the gateway.", call.Name), Outcome: "failed"}
		}
	}()
	if ctx.Err() != nil {
		return Result{Text: "Error: the call was cancelled before it began.", Outcome: "cancelled"}
	}
	if call.Bad != "" {
		return badArguments(call)
	}
	return t.tools.Call(ctx, call.Name, call.Arguments)
}

func badArguments(call chat.Call) Result {
	return Result{Outcome: "invalid_arguments",
		Text: fmt.Sprintf("Error: the call of %q was not run, because its arguments cannot be used: %s. Send one JSON object that fits the function's parameters.", call.Name, call.Bad)}
}
