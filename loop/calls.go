package loop

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/mcp-via-llm/mcp-via-llm/chat"
	"github.com/mcp-via-llm/mcp-via-llm/excerpt"
)

// take waits until fewer than MaxParallelCalls of the turn's calls run, and gives
// what ends the one that may run now.
func (t *turn) take() (release func()) {
	if t.places == nil {
		return func() {}
	}
	t.places <- struct{}{}
	return func() { <-t.places }
}

// targets tells what the calls of a reply are of.
func (t *turn) targets(reply *chat.Reply) []string {
	all := make([]string, len(reply.Calls))
	for i, c := range reply.Calls {
		all[i] = t.tools.Target(c.Name, c.Arguments)
	}
	return all
}

// moved says whether a call that was once of target would now reach another tool.
func (t *turn) moved(name, arguments, target string) bool {
	now := t.tools.Target(name, arguments)
	return target != "" && now != "" && now != target
}

// runCall runs one call, if it still is of target. A panic of the tool's side ends the call, not the process.
func (t *turn) runCall(ctx context.Context, call *chat.Call, target string) (result Result) {
	defer t.panicked(ctx, call.Name, &result)
	if refused := t.unfit(ctx, call, target); refused != nil {
		return t.refuse(ctx, call, refused)
	}
	result = t.tools.Call(ctx, call.Name, call.Arguments)
	t.trim(ctx, &result)
	return result
}

// panicked makes a result of a panic.
func (t *turn) panicked(ctx context.Context, name string, result *Result) {
	if p := recover(); p != nil {
		t.h.Log.ErrorContext(ctx, "a tool call panicked", "tool", name, "panic", p, "stack", string(debug.Stack()))
		*result = Result{Text: fmt.Sprintf("Error: the tool %q failed inside the gateway.", name), Outcome: "failed"}
	}
}

// unfit is the result of a call that cannot be made; nil if it can.
func (t *turn) unfit(ctx context.Context, call *chat.Call, target string) *Result {
	switch {
	case ctx.Err() != nil:
		return &Result{Text: "Error: the call was cancelled before it began.", Outcome: "cancelled"}
	case call.Bad != "":
		return badArguments(call)
	case t.moved(call.Name, call.Arguments, target):
		t.h.Log.WarnContext(ctx, "a call was not run: its name has come to be another tool's", "tool", call.Name)
		return &Result{Text: noticeMoved, Outcome: "unknown_tool"}
	}
	return nil
}

// trim leaves of a result what the turn can use, and adds what the call cost.
func (t *turn) trim(ctx context.Context, result *Result) {
	result.Text = t.fit(result.Text)
	if a, ok := AskerFrom(ctx).(*asker); ok {
		result.usage = a.spent()
	}
	if !t.shows() {
		result.Images = nil
	}
}

// refuse tells the tools of a call that is not made.
func (t *turn) refuse(ctx context.Context, call *chat.Call, result *Result) Result {
	t.tools.Refused(ctx, call.Name, call.Written(), result.Outcome)
	return *result
}

// leastRoom is what a result may take of the turn's room when that is used up.
const leastRoom = 1 << 10

// fit shortens a result to what the results of the turn may still take together.
// It is done before a result is stored, so that it is the same in the history.
func (t *turn) fit(text string) string {
	limit := t.client.TurnMaxBytes
	if limit <= 0 {
		return text
	}
	used := t.taken.Add(int64(len(text))) - int64(len(text))
	room := max(int64(limit)-used, leastRoom)
	fitting := excerpt.Of(text, int(min(room, int64(len(text)))))
	t.taken.Add(int64(len(fitting) - len(text)))
	return fitting
}

func badArguments(call *chat.Call) *Result {
	return &Result{Outcome: "invalid_arguments",
		Text: fmt.Sprintf("Error: the call of %q was not run, because its arguments cannot be used: %s. Send one JSON object that fits the function's parameters.", call.Name, call.Bad)}
}
