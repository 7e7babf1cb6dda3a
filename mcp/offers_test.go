package mcp

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"
)

// Every kind of thing is listed, and can be called, over every transport.
func TestResourcesAndPrompts(t *testing.T) {
	for _, kind := range []string{stateful, stateless, plainSSE, stdio} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			var h *Host
			if kind == stdio {
				h = newTestHost(t, stdioConfig("box", "library"))
			} else {
				h, _ = library(t, kind, newLibrary(nil))
			}
			ts := all(t, h, "box")
			b := ts.Bind(nil)
			if got, want := b.System(), "Say please.\n\nWrite British English."; got != want {
				t.Errorf("instructions %q, want %q", got, want)
			}
			for name, row := range map[string]struct{ arguments, want string }{
				"mcp_resource__box__notes":  {"", "Buy milk."},
				"mcp_resource__box__logo":   {"{}", "[resource box://logo image/png, 8 bytes]"},
				"mcp_resource__box__folder": {"null", "[resource box://folder/a]\none\n[resource box://folder/b, 2 bytes]"},
				"mcp_resource__box__row":    {`{"table":"a b/ü","id":"7"}`, "read db://a%20b%2F%C3%BC/7"},
				"mcp_prompt__box__review":   {`{"code":"x++"}`, "[user]\nReview x++\n[assistant]\nWith pleasure.\n[user]\n[image image/png, 8 bytes]"},
			} {
				if res := b.Call(t.Context(), name, row.arguments); res.Text != row.want || res.IsError || res.Outcome != OutcomeOK {
					t.Errorf("%s: %+v, want %q", name, res, row.want)
				}
				if readOnly, repeatable := b.Hints(name, ""); !readOnly || !repeatable {
					t.Errorf("%s: to read is no harm", name)
				}
			}
			if res := b.Call(t.Context(), "mcp_resource__box__row", `{"table":"t","id":"7","columns":"a,b"}`); res.Text != "read db://t/7?columns=a%2Cb" {
				t.Errorf("%+v", res)
			}
			if res := b.Call(t.Context(), "mcp_resource__box__gone", ""); res.Outcome != OutcomeToolError || strings.Contains(res.Text, "effect") {
				t.Errorf("%+v", res)
			}
			if st := h.Status()[0]; st.Resources != 4 || st.ResourceTemplates != 1 || st.Prompts != 1 || st.SystemPrompts != 2 {
				t.Errorf("%+v", st)
			}
			again, _ := library(t, stateful, newLibrary(nil)) // another replica
			if other := all(t, again, "box").Bind(nil); kind != stdio && (string(other.JSON()) != string(b.JSON()) || other.System() != b.System()) {
				t.Error("other bytes on another replica")
			}
		})
	}
}

func TestDescriptionsAndParameters(t *testing.T) {
	t.Parallel()
	h, _ := library(t, stateful, newLibrary(nil))
	got := map[string]gjson.Result{}
	for _, tool := range gjson.Parse("[" + string(all(t, h, "box").Bind(nil).JSON()) + "]").Array() {
		got[tool.Get("function.name").String()] = tool.Get("function")
	}
	for name, want := range map[string]string{
		"mcp_resource__box__notes": `{"name":"mcp_resource__box__notes","description":"Reads the resource \"The notes\" (box://notes, text/plain, 9 bytes). about notes","parameters":{"type":"object","properties":{}}}`,
		"mcp_resource__box__gone":  `{"name":"mcp_resource__box__gone","description":"Reads the resource \"gone\" (box://gone).","parameters":{"type":"object","properties":{}}}`,
		"mcp_resource__box__row": `{"name":"mcp_resource__box__row","description":"Reads a resource of the kind \"A row\" (db://{table}/{id}{?columns}, application/json). One row of a table.","parameters":{"type":"object","properties":{` +
			`"table":{"type":"string","description":"What stands for \"table\" in the resource's URI"},"id":{"type":"string","description":"What stands for \"id\" in the resource's URI"},` +
			`"columns":{"type":"string","description":"What stands for \"columns\" in the resource's URI"}},"required":["table","id"]}}`,
		"mcp_prompt__box__review": `{"name":"mcp_prompt__box__review","description":"Gives the text of the prompt \"Review\". Reviews code.","parameters":{"type":"object","properties":{` +
			`"code":{"type":"string","description":"What to review"},"tone":{"type":"string","description":"How to say it"}},"required":["code"]}}`,
	} {
		if got[name].Raw != want {
			t.Errorf("got  %s\nwant %s", got[name].Raw, want)
		}
	}
}

// Arguments that do not fit go back to the model and not to the server.
func TestArgumentsOfTemplatesAndPrompts(t *testing.T) {
	t.Parallel()
	h, f := library(t, stateful, newLibrary(nil))
	b := all(t, h, "box").Bind(nil)
	gets := f.count("prompts/get")
	for name, arguments := range map[string]string{
		"mcp_resource__box__row":  `{"table":"t"}`,
		"mcp_prompt__box__review": `{"code":7}`,
	} {
		if res := b.Call(t.Context(), name, arguments); res.Outcome != OutcomeInvalidArguments {
			t.Errorf("%+v", res)
		}
	}
	if res := b.Call(t.Context(), "mcp_resource__box__row", `{"table":"t","id":"`+strings.Repeat("x", maxURI)+`"}`); res.Outcome != OutcomeInvalidArguments {
		t.Errorf("%+v", res)
	}
	if f.count("resources/read") != 0 || f.count("prompts/get") != gets {
		t.Error("the server was asked")
	}
}

// A profile takes what it wants; each is left alone otherwise.
func TestTogglesOfAQuery(t *testing.T) {
	t.Parallel()
	h, _ := library(t, stateful, newLibrary(nil))
	all(t, h, "box") // connected
	for _, q := range []Query{{}, {Resources: true}, {Prompts: true}, {Resources: true, Prompts: true}} {
		q.Servers = []string{"box"}
		ts := h.Toolset(t.Context(), q)
		b := ts.Bind(nil)
		if b.Has("mcp_resource__box__notes") != q.Resources || b.Has("mcp_resource__box__row") != q.Resources || b.Has("mcp_prompt__box__review") != q.Prompts ||
			(b.System() != "") != q.Prompts || (len(ts.Instructions()) == 2) != q.Prompts || !b.Has("box__echo") {
			t.Errorf("%+v: %q, instructions %q", q, injected(b), b.System())
		}
	}
}

// Prompts whose text does not come are left out, and come back with the next look.
func TestInstructionsThatFail(t *testing.T) {
	t.Parallel()
	box := newLibrary(nil)
	box.prompt("broken", "")
	box.prompt("endless", strings.Repeat("x", DefaultMaxResultBytes+1))
	h, _ := library(t, stateful, box)
	if got, want := all(t, h, "box").Bind(nil).System(), "Say please.\n\nWrite British English."; got != want {
		t.Errorf("%q", got)
	}
	box.prompt("broken", "Mended.")
	eventually(t, "the prompt", func() bool { return strings.HasPrefix(all(t, h, "box").Bind(nil).System(), "Mended.") })
}

// Instructions come in the order of the servers, and end where there are too many.
func TestOrderOfInstructions(t *testing.T) {
	t.Parallel()
	one, two := newToolbox(), newToolbox()
	one.prompt("b", "one b")
	one.prompt("a", "one a")
	two.prompt("a", "two a")
	for i := range 3 {
		two.prompt(fmt.Sprint("long", i), strings.Repeat(fmt.Sprint(i), maxSystem/2-100))
	}
	h := newTestHost(t, config("one", stateful, one.serve(t, stateful)), config("two", stateful, two.serve(t, stateful)))
	if got := all(t, h, "one").Bind(nil).System(); got != "one a\n\none b" {
		t.Errorf("%q", got)
	}
	got := all(t, h, "two", "one")
	if system := got.Bind(nil).System(); !strings.HasPrefix(system, "two a\n\n000") || !strings.HasSuffix(system, "one a\n\none b") || len(system) > maxSystem+100 {
		t.Errorf("%d bytes, %.20q", len(system), system)
	}
	if list := got.Instructions(); len(list) != 5 || list[0].Name != "mcp_prompt__two__a" || list[0].Kind != KindSystemPrompt || list[4].Server != "one" || list[4].Tokens != 2 {
		t.Errorf("%+v", list)
	}
}

// Resources of one name are told apart, in the same way on every replica; nobody's
// tool loses its name to them.
func TestNamesOfResources(t *testing.T) {
	t.Parallel()
	names := func(order ...string) []string {
		box := newToolbox()
		box.server.RemoveTools("echo", "add_numbers", "fails", "pure", "large", "hang")
		for _, uri := range order {
			box.server.AddResource(&sdk.Resource{Name: "read me", URI: uri}, nil)
		}
		h := newTestHost(t, config("box", stateful, box.serve(t, stateful)), named(t, "mcp_resource", "box__read_me"))
		ts := all(t, h, "box", "mcp_resource")
		var out []string
		for _, tool := range ts.Tools() {
			uri, _, _ := strings.Cut(strings.TrimPrefix(tool.Description, `Reads the resource "read me" (`), ")")
			out = append(out, tool.Name+" "+uri)
		}
		slices.Sort(out)
		return out
	}
	got := names("a://1", "a://2", "a://3")
	if again := names("a://3", "a://1", "a://2"); !slices.Equal(got, again) {
		t.Errorf("%q and %q", got, again)
	}
	if len(got) != 4 || got[0] != "mcp_resource__box__read_me about box__read_me" || !strings.HasPrefix(got[1], "mcp_resource__box__read_me_") {
		t.Errorf("%q", got)
	}
}

// What a user may read is a matter of that user's connection.
func TestInstructionsPerCredential(t *testing.T) {
	t.Parallel()
	f := serve(t, sdk.NewStreamableHTTPHandler(func(r *http.Request) *sdk.Server {
		box := newToolbox()
		box.prompt("who", "You serve "+r.Header.Get("X-User-Token")+".")
		return box.server
	}, &sdk.StreamableHTTPOptions{Stateless: true}))
	cfg := config("box", stateful, f)
	cfg.ForwardHeaders = []string{"x-user-token"}
	h := newTestHost(t, cfg)
	for _, token := range []string{"ann", "bob", "ann"} {
		ts := h.Toolset(t.Context(), Query{Servers: []string{"box"}, Header: user(token), Prompts: true})
		if got := ts.Bind(nil).System(); got != "You serve "+token+"." {
			t.Errorf("%s: %q", token, got)
		}
	}
}

// A list that cannot be read has the server looked at once, and again when it could be
// read meanwhile.
func TestListsThatFailHaveTheServerLookedAt(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	s.answer("POST initialize", func(w http.ResponseWriter, _ *http.Request, m heard) {
		result(w, m, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{}},"serverInfo":{"name":"o","version":"1"}}`)
	})
	h := newTestHost(t, config("box", stateful, s.front))
	c := newConn(h, h.servers["box"], caller{}) // that nobody supervises
	session, catalog, err := c.open(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.close(0)
	k := &keeper{conn: c, session: session, catalog: catalog}
	for i, row := range []struct {
		status int
		looked bool
	}{{500, true}, {500, false}, {200, false}, {503, true}, {503, false}} {
		s.answer("POST resources/list", func(w http.ResponseWriter, _ *http.Request, m heard) {
			if row.status != http.StatusOK {
				w.WriteHeader(row.status)
				return
			}
			result(w, m, `{"resources":[]}`)
		})
		k.take(c.listOther(t.Context(), session, listResources, nil, false))
		select {
		case <-c.suspect:
			if !row.looked {
				t.Errorf("%d: looked at", i)
			}
		default:
			if row.looked {
				t.Errorf("%d: not looked at", i)
			}
		}
	}
}

// A read that broke with its session goes out again on the next.
func TestReadAgain(t *testing.T) {
	t.Parallel()
	h, f := library(t, stateful, newLibrary(nil))
	b := all(t, h, "box").Bind(nil)
	var broken atomic.Bool
	f.on(func(w http.ResponseWriter, r *http.Request, body []byte) bool {
		if isMethod(body, "resources/read") && broken.CompareAndSwap(false, true) {
			panic(http.ErrAbortHandler) // the connection is cut
		}
		return false
	})
	if res := b.Call(t.Context(), "mcp_resource__box__notes", ""); res.Text != "Buy milk." || f.count("resources/read") != 2 {
		t.Errorf("%+v after %d reads", res, f.count("resources/read"))
	}
	forget(f, http.StatusNotFound, "session not found")
	if res := b.Call(t.Context(), "mcp_prompt__box__review", `{"code":"y"}`); !strings.HasPrefix(res.Text, "[user]\nReview y") {
		t.Errorf("%+v", res)
	}
	if got := all(t, h, "box").Bind(nil); string(got.JSON()) != string(b.JSON()) || got.System() != b.System() {
		t.Error("other bytes after a lost session")
	}
}
