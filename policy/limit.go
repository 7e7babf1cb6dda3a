package policy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Limit bounds calls. The zero value bounds nothing.
type Limit struct {
	Rate        Rate
	Burst       int // calls that may start at once after a pause; 0: what the rate gives in a second, at least 1
	Concurrency int // calls that run at once; 0: any number
}

// ServerLimits are the limits of one server, in this process.
type ServerLimits struct {
	Limit // of all its calls together
	// Tools are globs over the server's own names; each tool that one matches has
	// such a limit of its own.
	Tools map[string]Limit
	// Wait is how long a call waits for others to end.
	Wait time.Duration
}

// Rate is a number of calls in a time. The zero value bounds nothing.
type Rate struct {
	Calls int
	Per   time.Duration
}

var units = map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}

// ParseRate reads N/UNIT, with a unit s, m or h: 10/s, 600/m.
func ParseRate(text string) (Rate, error) {
	number, unit, _ := strings.Cut(text, "/")
	calls, err := strconv.Atoi(number)
	if per, ok := units[unit]; ok && err == nil && calls > 0 {
		return Rate{calls, per}, nil
	}
	return Rate{}, errors.New("is not a rate of the form 10/s, 600/m or 1000/h")
}

func (r Rate) perSecond() float64 {
	if r.Per == 0 {
		return 0
	}
	return float64(r.Calls) / r.Per.Seconds()
}

func (r Rate) String() string {
	for unit, per := range units {
		if per == r.Per {
			return fmt.Sprintf("%d/%s", r.Calls, unit)
		}
	}
	return fmt.Sprintf("%d/%s", r.Calls, r.Per)
}

func (l Limit) burst() int {
	if l.Burst > 0 {
		return l.Burst
	}
	return max(1, int(math.Ceil(l.Rate.perSecond())))
}

// Limits holds what calls of servers and tools have used of their limits. It
// outlives configurations.
type Limits struct {
	mu      sync.Mutex
	servers map[string]*serverGates
}

type serverGates struct {
	ServerLimits
	gates map[gateKey]*gate
}

// gateKey is a glob and a tool; both are empty for the whole server.
type gateKey struct{ glob, tool string }

// maxGates bounds the gates of a server, which decides how its tools are called.
const maxGates = 4096

// Update puts limits in force, by server, also for calls that already wait. What
// was used of a limit that goes on counts for it.
func (l *Limits) Update(all map[string]ServerLimits) {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := map[string]*serverGates{}
	for name, limits := range all {
		s := l.servers[name]
		if s == nil {
			s = &serverGates{gates: map[gateKey]*gate{}}
		}
		s.ServerLimits = limits
		for key, g := range s.gates {
			limit, ok := limits.limit(key.glob)
			g.set(limit)
			if !ok {
				delete(s.gates, key)
			}
		}
		next[name] = s
	}
	for name, s := range l.servers {
		if next[name] == nil {
			for _, g := range s.gates {
				g.set(Limit{})
			}
		}
	}
	l.servers = next
}

func (s ServerLimits) limit(glob string) (Limit, bool) {
	if glob == "" {
		return s.Limit, s.Limit != Limit{}
	}
	limit, ok := s.Tools[glob]
	return limit, ok
}

// passage is a gate that a call goes through.
type passage struct {
	gate *gate
	what string // for the model
}

// passages gives the gates of a tool: its own before the server's, so that a call
// that waits for its own keeps nobody else from the server.
func (l *Limits) passages(t Tool) (all []passage, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.servers[t.Server]
	if s == nil {
		return nil, 0
	}
	for _, glob := range slices.Sorted(maps.Keys(s.Tools)) {
		if match(glob, []string{t.Original}) {
			all = append(all, passage{s.gate(gateKey{glob, t.Original}, s.Tools[glob]), "this tool"})
		}
	}
	if s.Limit != (Limit{}) {
		all = append(all, passage{s.gate(gateKey{}, s.Limit), fmt.Sprintf("the MCP server %q", t.Server)})
	}
	return all, s.Wait
}

func (s *serverGates) gate(key gateKey, limit Limit) *gate {
	g := s.gates[key]
	if g == nil {
		if len(s.gates) >= maxGates {
			maps.DeleteFunc(s.gates, func(_ gateKey, g *gate) bool { return g.idle() })
		}
		g = newGate(limit)
		s.gates[key] = g
	}
	return g
}

// Enter waits until the limits let a call of the tool begin; leave when it has
// ended. Callers take turns, whoever asks more often.
func (l *Limits) Enter(ctx context.Context, t Tool, caller string) (leave func(), refused *Refusal) {
	var entered []*gate
	leave = func() {
		for _, g := range slices.Backward(entered) {
			g.leave()
		}
	}
	passages, wait := l.passages(t)
	for _, p := range passages {
		if err := p.gate.enter(ctx, caller, wait); err != nil {
			leave()
			return nil, err.refusal(p.what)
		}
		entered = append(entered, p.gate)
	}
	return leave, nil
}

func (f *full) refusal(what string) *Refusal {
	switch {
	case f.ended:
		return &Refusal{Outcome: OutcomeCancelled, Message: "The call was cancelled before it began, while it waited for others."}
	case f.after > 0:
		seconds := int(math.Ceil(f.after.Seconds()))
		return &Refusal{Outcome: OutcomeRateLimited, Reason: "rate of " + f.limit.Rate.String(),
			Message: fmt.Sprintf("The call was not made: %s may be called %s, and that is used up. Try again in %d s.", what, f.limit.Rate.words(), seconds)}
	}
	return &Refusal{Outcome: OutcomeRateLimited, Reason: fmt.Sprintf("concurrency of %d", f.limit.Concurrency),
		Message: fmt.Sprintf("The call was not made: %s runs no more than %d at once, and none of them ended in time. Try again later.", what, f.limit.Concurrency)}
}

func (r Rate) words() string {
	word := map[time.Duration]string{time.Second: "second", time.Minute: "minute", time.Hour: "hour"}[r.Per]
	if r.Calls == 1 {
		return "once per " + word
	}
	return fmt.Sprintf("%d times per %s", r.Calls, word)
}
