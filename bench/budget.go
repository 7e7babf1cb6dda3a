package main

import (
	"errors"
	"fmt"
)

// budget is a ratio that the project keeps below (or above) a limit.
type budget struct {
	Name    string  `json:"name"`
	Limit   float64 `json:"limit"`
	Value   float64 `json:"value"`
	AtLeast bool    `json:"at_least,omitempty"` // the limit is a lower one
	Bare    float64 `json:"bare,omitempty"`     // what is reached without work of one's own, see judge; 0: does not apply
}

func (b budget) met() bool {
	if b.AtLeast {
		return b.Value >= b.Limit
	}
	return b.Value <= b.Limit
}

func (b budget) verdict() string {
	if b.met() {
		return "met"
	}
	return "**missed**"
}

// judge works out the budgets for which both sides were measured. Without work of its own, a service that reads messages
// is a filter that copies whole ones; and one that runs rounds is a client that goes through Envoy, with a filter that
// copies on the way of its first request.
func (r *report) judge() {
	for _, bytes := range []int{kilobyte, 100 * kilobyte} {
		row := "no tool call, whole, history " + size(bytes)
		envoy, copied, service := r.find("turns", row, viaEnvoy), r.find("turns", row, viaCopy), r.find("turns", row, viaService)
		if service == nil {
			continue
		}
		held := r.find("turns", row, viaHold)
		r.most("added latency without a tool call, by that of the copying filter, p50, "+size(bytes), 1.3, (service.P50-envoy.P50)/(copied.P50-envoy.P50)).
			Bare = (held.P50 - envoy.P50) / (copied.P50 - envoy.P50)
		r.most("the same, p99, "+size(bytes), 1.5, (service.P99-envoy.P99)/(copied.P99-envoy.P99)).
			Bare = (held.P99 - envoy.P99) / (copied.P99 - envoy.P99)
	}
	r.judgeRounds()
	if slow := r.find("turns", fmt.Sprintf("the same, both tools take %d ms, whole", slowMS), viaService); slow != nil {
		r.most("a mixed turn and its resume, by the longer of its two tools", 1.02, slow.P50/slowMS)
	}
	if service := r.find("stream", "1,000 chunks, 1 ms apart", viaService); service != nil {
		r.most("delay of a chunk, by that of the copying filter, p50", 1.2, service.ChunkP50/r.find("stream", "1,000 chunks, 1 ms apart", viaCopy).ChunkP50)
		r.most("the same, p99", 1.2, service.ChunkP99/r.find("stream", "1,000 chunks, 1 ms apart", viaCopy).ChunkP99)
	}
	if service := r.find("throughput", "no tool call", viaService); service != nil {
		copied := r.find("throughput", "no tool call", viaCopy).Throughput
		r.least("throughput without a tool call, by that of the copying filter", 0.8, service.Throughput/copied).
			Bare = r.find("throughput", "no tool call", viaHold).Throughput / copied
		filter := 1/copied - 1/r.find("throughput", "no tool call", viaEnvoy).Throughput
		r.judgeThroughput("throughput with one round, by two requests through Envoy and an MCP call", "1 round", 0.8, byHandVia, filter)
		r.judgeThroughput("throughput with 3 rounds, by a Go client without Envoy", "3 rounds", 0.69, byHandOnly, filter)
	}
	if n := len(r.Open); n > 0 {
		r.most("KB of memory for each open turn, beyond the copying filter's", 48, r.Open[n-1].KilobytesEach-r.Open[n-1].CopyEach)
	}
}

// judgeThroughput compares rows with rounds on many connections. filter is what the copying filter takes for a request, in
// seconds of all processors.
func (r *report) judgeThroughput(name, row string, limit float64, by string, filter float64) {
	if r.find("throughput", row, viaService) == nil {
		return
	}
	of := func(way string) float64 { return r.find("throughput", row, way).Throughput }
	r.least(name, limit, of(viaService)/of(by)).Bare = 1 / (1/of(byHandVia) + filter) / of(by)
}

// judgeRounds compares what each further round adds, as the mean of nine. It asks the LLM and the tool, as a client does
// that is connected to both, and goes through Envoy once: one hop is what the same round of that client takes longer
// through Envoy.
func (r *report) judgeRounds() {
	p50 := func(rounds int, way string) float64 {
		if f := r.find("turns", fmt.Sprintf("%d rounds, whole", rounds), way); f != nil {
			return f.P50
		}
		return 0
	}
	if p50(1, viaService) == 0 || p50(3, viaService) == 0 || p50(10, viaService) == 0 {
		return
	}
	further := func(way string) float64 { return (p50(10, way) - p50(1, way)) / 9 }
	floor := further(byHandOnly)
	r.most("a further round, beyond the LLM's and the tool's time, by one hop through Envoy", 1.3, (further(viaService)-floor)/(further(byHandVia)-floor)).Bare = 1
	three := r.most("3 rounds, by a Go client without Envoy, p50", 1.5, p50(3, viaService)/p50(3, byHandOnly))
	row := "no tool call, whole, history " + size(kilobyte)
	if envoy, copied := r.find("turns", row, viaEnvoy), r.find("turns", row, viaCopy); copied != nil {
		three.Bare = (p50(3, byHandVia) + copied.P50 - envoy.P50) / p50(3, byHandOnly)
	}
}

func (r *report) most(name string, limit, value float64) *budget {
	r.Budgets = append(r.Budgets, budget{Name: name, Limit: limit, Value: value})
	return &r.Budgets[len(r.Budgets)-1]
}

func (r *report) least(name string, limit, value float64) *budget {
	b := r.most(name, limit, value)
	b.AtLeast = true
	return b
}

// compare fails where a budget's ratio is worse than that of an earlier run by more than the slack.
func (r *report) compare(file string, slack float64) error {
	before, err := readReport(file)
	if err != nil {
		return err
	}
	var worse []error
	for _, now := range r.Budgets {
		for _, then := range before.Budgets {
			if now.Name != then.Name {
				continue
			}
			if !now.AtLeast && now.Value > then.Value*(1+slack) || now.AtLeast && now.Value < then.Value*(1-slack) {
				worse = append(worse, fmt.Errorf("%s: %.2f, it was %.2f", now.Name, now.Value, then.Value))
			}
		}
	}
	return errors.Join(worse...)
}
