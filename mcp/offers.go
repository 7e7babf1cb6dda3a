package mcp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcp-via-llm/mcp-via-llm/excerpt"
)

// maxInstructions bounds how many prompts of a server become instructions.
const maxInstructions = 64

// complaintTools is what there is to complain of in tools/list, see conn.complain.
const complaintTools = "tools/list"

// listTools reads the tools. The catalog that is known is returned if nothing in it
// differs. past says that a change was announced. If every page came from the SDK's
// cache, the server is asked for a sign of life.
func (c *conn) listTools(ctx context.Context, s *session, known *catalog, past bool) (*catalog, error) {
	got, err := s.walk(ctx, listTools, c, known.items(listTools), past)
	if err == nil && !got.asked {
		err = s.ping(ctx)
	}
	if err != nil {
		return nil, err
	}
	s.toolsTTL = refreshInterval
	if got.ttl > 0 {
		s.toolsTTL = min(got.ttl, refreshInterval)
	}
	if s.toolsCut = got.cut != nil; s.toolsCut {
		c.complain(complaintTools, "the tools could not all be listed; using what came and what was known before", "error", plainError(ctx, s.tr, got.cut))
	} else {
		c.said.Delete(complaintTools)
	}
	s.binds.Store(bindsHeaders(got.items))
	return known.with(listTools, got.items), nil
}

// listed is what came of listing anything else. What could not be listed is in the
// items as it was known before.
type listed struct {
	list      list
	announced bool
	items     []*tool
	ttl       time.Duration
	err       error
	suspect   bool // it may be that of a server that is away
}

// listOther reads resources, templates or prompts. afresh says that the texts of
// prompts may have changed too.
func (c *conn) listOther(ctx context.Context, s *session, l list, known []*tool, afresh bool) listed {
	out := listed{list: l, announced: afresh}
	got, suspect, err := c.listOne(ctx, s, l, known)
	out.suspect = suspect
	if out.items, out.ttl, out.err = got.items, got.ttl, got.cut; err != nil {
		out.items, out.err = known, err
	}
	if l == listPrompts {
		var err error
		out.items, err = c.instruct(ctx, s, out.items, afresh)
		out.err = errors.Join(out.err, err)
	}
	return out
}

func (c *conn) listOne(ctx context.Context, s *session, l list, known []*tool) (got walked, suspect bool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.cfg.ConnectTimeout, errConnectTimeout)
	defer cancel()
	got, err = s.walk(ctx, l, c, known, true)
	var rpc *jsonrpc.Error
	if errors.As(err, &rpc) && rpc.Code == jsonrpc.CodeMethodNotFound {
		return walked{}, false, nil // many servers have resources and no templates
	}
	if err != nil {
		suspect = !isRPC(err) && !errors.Is(context.Cause(ctx), context.Canceled)
		return walked{}, suspect, fmt.Errorf("%s: %w", listings[l].method, plainError(ctx, s.tr, err))
	}
	if got.cut != nil {
		got.cut = fmt.Errorf("%s: %w", listings[l].method, plainError(ctx, s.tr, got.cut))
	}
	return got, false, nil
}

// promptText is the text of one of the prompts without arguments, by its place among them.
type promptText int

// instruct gives the prompts without arguments their texts. One whose text is known
// is asked for again only afresh, and keeps it if that fails; one without a text is
// left out.
func (c *conn) instruct(ctx context.Context, s *session, prompts []*tool, afresh bool) ([]*tool, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.cfg.ConnectTimeout, errConnectTimeout)
	defer cancel()
	errs := make([]error, len(prompts))
	var group sync.WaitGroup
	prompts = slices.Clone(prompts)
	for i, wanted := 0, 0; i < len(prompts); i++ {
		t := prompts[i]
		if t.kind != KindSystemPrompt {
			continue
		}
		if wanted++; wanted > maxInstructions {
			errs[i] = fmt.Errorf("there are more than %d prompts without arguments", maxInstructions)
		} else if t.text == "" || afresh {
			at := promptText(wanted)
			group.Go(func() {
				var text string
				errs[i] = c.mayMiss(ctx, s, at, func(ctx context.Context) (err error) {
					text, err = s.instructions(ctx, t.name, c.cfg.MaxResultBytes)
					return err
				})
				if errs[i] == nil && text != t.text {
					with := *t
					with.text = text
					prompts[i] = &with
				}
			})
		}
	}
	group.Wait()
	var failed []string
	for i, err := range errs {
		if err != nil {
			failed = append(failed, fmt.Sprintf("prompt %q: %v", excerpt.Head(prompts[i].name, maxErrorText), err))
		}
	}
	kept := slices.DeleteFunc(prompts, func(t *tool) bool { return t.kind == KindSystemPrompt && t.text == "" })
	if failed != nil {
		return kept, errors.New(strings.Join(failed, "; "))
	}
	return kept, nil
}
