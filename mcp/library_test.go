package mcp

import (
	"context"
	"fmt"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const pixel = "\x89PNG\r\n\x1a\n"

// newLibrary is a toolbox that offers resources, templates and prompts too.
func newLibrary(o *sdk.ServerOptions) *toolbox {
	b := newToolboxWith(o)
	s := b.server
	b.shelve("notes", &sdk.ResourceContents{MIMEType: "text/plain", Text: "Buy milk."})
	b.shelve("logo", &sdk.ResourceContents{MIMEType: "image/png", Blob: []byte(pixel)})
	b.shelve("folder", &sdk.ResourceContents{URI: "box://folder/a", Text: "one"}, &sdk.ResourceContents{URI: "box://folder/b", Blob: []byte{0, 1}})
	s.AddResource(&sdk.Resource{Name: "gone", URI: "box://gone"}, func(_ context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return nil, sdk.ResourceNotFoundError(r.Params.URI)
	})
	s.AddResourceTemplate(&sdk.ResourceTemplate{Name: "row", Title: "A row", URITemplate: "db://{table}/{id}{?columns}", MIMEType: "application/json", Description: "One row of a table."},
		func(_ context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
			return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: r.Params.URI, Text: "read " + r.Params.URI}}}, nil
		})
	b.prompt("style", "Write British English.")
	b.prompt("manners", "Say please.")
	s.AddPrompt(&sdk.Prompt{Name: "review", Title: "Review", Description: "Reviews code.", Arguments: []*sdk.PromptArgument{
		{Name: "code", Description: "What to review", Required: true}, {Name: "tone", Title: "How to say it"},
	}}, func(_ context.Context, r *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
		return &sdk.GetPromptResult{Messages: []*sdk.PromptMessage{
			{Role: "user", Content: &sdk.TextContent{Text: "Review " + r.Params.Arguments["code"] + strings.TrimRight(" "+r.Params.Arguments["tone"], " ")}},
			{Role: "assistant", Content: &sdk.TextContent{Text: "With pleasure."}},
			{Role: "user", Content: &sdk.ImageContent{MIMEType: "image/png", Data: []byte(pixel)}},
		}}, nil
	})
	return b
}

// shelve adds a resource.
func (b *toolbox) shelve(name string, contents ...*sdk.ResourceContents) {
	b.server.AddResource(&sdk.Resource{Name: name, Title: "The " + name, URI: "box://" + name, MIMEType: contents[0].MIMEType, Size: 9, Description: "about " + name},
		func(_ context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
			b.note("resource "+name, nil)
			for _, c := range contents {
				if c.URI == "" {
					c.URI = r.Params.URI
				}
			}
			return &sdk.ReadResourceResult{Contents: contents}, nil
		})
}

// prompt adds a prompt without arguments.
func (b *toolbox) prompt(name, text string) {
	b.server.AddPrompt(&sdk.Prompt{Name: name}, func(context.Context, *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
		b.note("prompt "+name, nil)
		if text == "" {
			return nil, fmt.Errorf("no text for %s", name)
		}
		return &sdk.GetPromptResult{Messages: []*sdk.PromptMessage{{Role: "user", Content: &sdk.TextContent{Text: text}}}}, nil
	})
}

// onMethod changes the answers to one method. The SDK knows only its own cursors, so
// it never sees one.
func (b *toolbox) onMethod(method string, change func(cursor string, res sdk.Result) error) {
	b.server.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, m string, req sdk.Request) (sdk.Result, error) {
			if m != method {
				return next(ctx, m, req)
			}
			cursor := ""
			switch p := req.GetParams().(type) {
			case *sdk.ListToolsParams:
				cursor, p.Cursor = p.Cursor, ""
			case *sdk.ListResourcesParams:
				cursor, p.Cursor = p.Cursor, ""
			case *sdk.ListResourceTemplatesParams:
				cursor, p.Cursor = p.Cursor, ""
			case *sdk.ListPromptsParams:
				cursor, p.Cursor = p.Cursor, ""
			}
			res, err := next(ctx, m, req)
			if err == nil {
				err = change(cursor, res)
			}
			return res, err
		}
	})
}

// all asks for everything that servers offer.
func all(t *testing.T, h *Host, servers ...string) *Toolset {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	return h.Toolset(ctx, Query{Servers: servers, Resources: true, Prompts: true})
}

// library starts a host with one library.
func library(t *testing.T, kind string, box *toolbox) (*Host, *front) {
	t.Helper()
	f := box.serve(t, kind)
	return newTestHost(t, config("box", kind, f)), f
}
