package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/mcp-via-llm/mcp-via-llm/schema"
)

// argument is one string argument of a function that is no tool of the server's.
type argument struct {
	name, description string
	required          bool
}

// takes makes the parameters of a function from its arguments.
func (t *tool) takes(arguments []argument) error {
	type property struct {
		Type        string `json:"type"`
		Description string `json:"description,omitempty"`
	}
	properties, required := "", []string{}
	for i, a := range arguments {
		if i > 0 {
			properties += ","
		}
		properties += encode(a.name) + ":" + encode(property{"string", a.description})
		if a.required {
			required = append(required, a.name)
		}
	}
	t.schema = `{"type":"object","properties":{` + properties + `}`
	if len(required) > 0 {
		t.schema += `,"required":` + encode(required)
	}
	t.schema += `}`
	if len(t.schema) > schema.MaxInput {
		return fmt.Errorf("arguments of %d bytes are over the limit of %d", len(t.schema), schema.MaxInput)
	}
	t.input = schema.NewChecker(t.schema)
	return nil
}

// newPrompt makes a function of an element of prompts/list. One that takes no
// arguments is not for the model to call: its text is an instruction.
func newPrompt(raw gjson.Result, _ *slog.Logger) (*tool, error) {
	t := &tool{kind: KindPrompt, name: raw.Get("name").String(), raw: raw.Raw, readOnly: true, repeatable: true, functions: new(sync.Map)}
	seen := map[string]bool{}
	var arguments []argument
	for _, a := range raw.Get("arguments").Array() {
		name := a.Get("name").String()
		if name == "" || seen[name] {
			continue
		}
		seen[name] = true
		arguments = append(arguments, argument{name, cmp.Or(a.Get("description").String(), a.Get("title").String()), a.Get("required").Bool()})
	}
	if len(arguments) == 0 {
		t.kind = KindSystemPrompt
		return t, nil
	}
	t.description = strings.TrimSpace(fmt.Sprintf("Gives the text of the prompt %q. %s", title(raw), raw.Get("description").String()))
	return t, t.takes(arguments)
}

// stringArguments are the arguments of a prompt, or the values of a URI template.
func stringArguments(args json.RawMessage) map[string]string {
	out := map[string]string{}
	gjson.ParseBytes(args).ForEach(func(name, value gjson.Result) bool {
		out[name.String()] = value.String()
		return true
	})
	return out
}

// messages takes in a raw prompts/get result. It says who speaks; if roles is false,
// only where that is not always the user.
func (c *content) messages(raw []byte, roles bool) {
	all := gjson.GetBytes(raw, "messages").Array()
	for _, m := range all {
		roles = roles || m.Get("role").String() != "user"
	}
	for _, m := range all {
		var said []string
		for _, block := range m.Get("content").Array() { // one block is an array of one
			if part := c.block(block); strings.TrimSpace(part) != "" {
				said = append(said, part)
			}
		}
		if len(said) == 0 {
			continue
		}
		part := strings.Join(said, "\n")
		if roles {
			part = fmt.Sprintf("[%.40s]\n%s", m.Get("role").String(), part)
		}
		c.parts = append(c.parts, part)
	}
}

// instructions gets the text of a prompt without arguments. What has no proper end
// within limit bytes is no instruction.
func (s *session) instructions(ctx context.Context, name string, limit int) (string, error) {
	got, err := s.ask(ctx, "prompts/get", &sdk.GetPromptParams{Name: name})
	if err := got.failure(err); err != nil {
		return "", plainError(ctx, s.tr, err)
	}
	if asksForInput(got.result) {
		return "", errors.New("the server asks for input of a person")
	}
	var c content
	c.messages(got.result, false)
	switch text := c.text(); {
	case len(c.parts) == 0:
		return "", errors.New("it has no text")
	case len(text) > limit:
		return "", fmt.Errorf("its text of %d bytes is over the limit of %d", len(text), limit)
	default:
		return text, nil
	}
}

// maxSystem bounds the instructions of all servers together, in bytes: they go with
// every request.
const maxSystem = 128 << 10

// instructions joins the texts of the prompts without arguments, of the servers in
// their order and of each by name.
func (h *Host) instructions(filter Filter, servers []string, from []*catalog) (prompts []Tool, system string) {
	for i, cat := range from {
		mine := ofKind(cat.items(listPrompts), KindSystemPrompt)
		slices.SortFunc(mine, func(a, b *tool) int { return strings.Compare(a.name, b.name) })
		for _, t := range mine {
			from := t.origin(servers[i])
			name := clean(from.full())
			if len(name) > maxName {
				name = from.hashed(0)
			}
			offer := t.offer(name, from)
			if filter != nil && !filter.Keep(offer) {
				continue
			}
			if len(system)+len(t.text) > maxSystem {
				h.opts.Log.Warn("a prompt is left out: the instructions of all servers would be too long", "server", servers[i], "prompt", t.name, "limit", maxSystem)
				continue
			}
			if system != "" {
				system += "\n\n"
			}
			system += t.text
			offer.Tokens = estimate(len(t.text))
			prompts = append(prompts, offer)
		}
	}
	return prompts, system
}
