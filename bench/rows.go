package main

import (
	"context"
	"fmt"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The ways that are compared. Each row names the ones it has.
const (
	viaDirect  = "LLM alone"
	viaEnvoy   = "Envoy alone"
	viaCopy    = "Envoy and a filter that copies"
	viaHold    = "Envoy and a filter that copies whole messages"
	viaService = "this service"
	byHandOnly = "the same exchanges by a Go client"
	byHandVia  = "the same exchanges by a Go client through Envoy"
	toolOnly   = "the MCP call alone"
)

// row is a few operations that are measured by turns.
type row struct {
	Name        string
	Connections int
	series      []series
	prepare     func(context.Context) error // before the first measurement; may be nil
}

type series struct {
	name string
	op   operation
}

// bench makes the rows of one stack.
type bench struct {
	*stack
	client  *http.Client
	session *mcp.ClientSession
}

func (b *bench) row(name string, connections int, p plan, ways ...string) row {
	r := row{Name: name, Connections: connections}
	for _, way := range ways {
		r.series = append(r.series, series{way, b.operation(way, p)})
	}
	return r
}

func (b *bench) operation(way string, p plan) operation {
	switch way {
	case viaDirect:
		return turn(b.client, b.direct, p)
	case viaEnvoy:
		return turn(b.client, b.plain, p)
	case viaCopy:
		return turn(b.client, b.copied, p)
	case viaHold:
		return turn(b.client, b.held, p)
	case viaService:
		return turn(b.client, b.service, p)
	case byHandOnly:
		return byHand(b.client, b.direct, b.session, p)
	case byHandVia:
		return byHand(b.client, b.plain, b.session, p)
	case toolOnly:
		return onlyTool(b.session)
	}
	return func(context.Context) (sample, error) { return sample{}, fmt.Errorf("no way is called %q", way) }
}

const (
	kilobyte = 1000
	chunks   = 20 // of an ordinary streamed answer
	many     = 16 // connections
	slowMS   = 500
)

func size(bytes int) string {
	if bytes >= 1000*kilobyte {
		return fmt.Sprintf("%d MB", bytes/(1000*kilobyte))
	}
	return fmt.Sprintf("%d KB", bytes/kilobyte)
}

func form(stream bool) string {
	if stream {
		return "streamed"
	}
	return "whole"
}

// turnRows are the turns without and with tool calls, one at a time.
func (b *bench) turnRows() (rows []row) {
	for _, stream := range []bool{false, true} {
		for _, history := range []int{kilobyte, 100 * kilobyte, 1000 * kilobyte} {
			p := plan{Stream: stream, Chunks: chunks, History: history}
			rows = append(rows, b.row(fmt.Sprintf("no tool call, %s, history %s", form(stream), size(history)), 1, p, viaDirect, viaEnvoy, viaCopy, viaHold, viaService))
		}
		for _, rounds := range []int{1, 3, 10} {
			p := plan{Stream: stream, Chunks: chunks, History: kilobyte, Rounds: rounds}
			rows = append(rows, b.row(fmt.Sprintf("%d rounds, %s", rounds, form(stream)), 1, p, toolOnly, byHandOnly, byHandVia, viaService))
		}
		mixed := plan{Stream: stream, Chunks: chunks, History: kilobyte, Mixed: true}
		rows = append(rows, b.row("mixed turn and its resume, "+form(stream), 1, mixed, viaService))
		mixed.SlowMS = slowMS
		rows = append(rows, b.row(fmt.Sprintf("the same, both tools take %d ms, %s", slowMS, form(stream)), 1, mixed, viaService))
	}
	return rows
}

// overrideRows are turns in the mode that Envoy 1.40 has besides, in which the service asks for the bodies first.
func (b *bench) overrideRows() (rows []row) {
	for _, history := range []int{kilobyte, 100 * kilobyte} {
		rows = append(rows, b.row("no tool call, history "+size(history), 1, plan{History: history}, viaEnvoy, viaCopy, viaService))
	}
	return append(rows, b.row("1 round", 1, plan{History: kilobyte, Rounds: 1}, byHandVia, viaService),
		b.row("no tool call, history "+size(kilobyte), many, plan{History: kilobyte}, viaEnvoy, viaCopy, viaService))
}

// throughputRows are the same turns on many connections.
func (b *bench) throughputRows() []row {
	p := func(rounds int) plan { return plan{History: kilobyte, Rounds: rounds} }
	return []row{
		b.row("no tool call", many, p(0), viaDirect, viaEnvoy, viaCopy, viaHold, viaService),
		b.row("1 round", many, p(1), byHandOnly, byHandVia, viaService),
		b.row("3 rounds", many, p(3), byHandOnly, byHandVia, viaService),
	}
}

// streamRows are long streams, where each chunk tells when it left the LLM.
func (b *bench) streamRows() []row {
	p := plan{Stream: true, History: kilobyte, Chunks: 1000, PaceUS: 1000}
	return []row{b.row("1,000 chunks, 1 ms apart", 1, p, viaDirect, viaEnvoy, viaCopy, viaService)}
}

// storeRows are the turns that use the store.
func (b *bench) storeRows() []row {
	p := func(rounds int, mixed bool) plan { return plan{History: kilobyte, Rounds: rounds, Mixed: mixed} }
	return []row{
		b.row("no tool call", 1, p(0, false), viaEnvoy, viaCopy, viaService),
		b.row("1 round", 1, p(1, false), byHandVia, viaService),
		b.row("mixed turn and its resume", 1, p(0, true), viaService),
	}
}

// catalogRows show what the size of the catalog costs: beside it, a client sends as many functions of its own, so that
// the LLM has as much to read.
func (b *bench) catalogRows() []row {
	r := b.row("no tool call", 1, plan{History: kilobyte}, viaService)
	own := plan{History: kilobyte, Own: b.tools}
	r.series = append(r.series, series{viaEnvoy, b.operation(viaEnvoy, own)}, series{viaCopy, b.operation(viaCopy, own)})
	return []row{r}
}

// sessionRows show what the number of conversations in the store costs a turn that looks for its own.
func (b *bench) sessionRows() (rows []row) {
	p := plan{History: 20 * kilobyte, Rounds: 1}
	for _, n := range sessionCounts {
		r := b.row(fmt.Sprintf("%d sessions in the store", n), 1, p, byHandVia, viaService)
		r.prepare = func(ctx context.Context) error { return b.fill(ctx, n) }
		rows = append(rows, r)
	}
	return rows
}

var sessionCounts = []int{0, 10_000, 100_000, 1_000_000}
