package admin

import (
	"slices"
	"sync"

	"github.com/mcp-via-llm/mcp-via-llm/loop"
)

// keptTurns is how many turns that have ended are shown.
const keptTurns = 200

// Turns are the turns that run and the last that have ended. The zero value is ready.
type Turns struct {
	mu      sync.Mutex
	started uint64
	running []entry
	ended   []entry
}

type entry struct {
	number uint64
	ledger Ledger
}

// Ledger tells what has happened in a turn up to now; see [loop.Ledger].
type Ledger interface {
	Report() *loop.Report
	Ended() bool
}

// Turn is one of them.
type Turn struct {
	Number  uint64 `json:"number"`  // counted from the start of the process
	Running bool   `json:"running"` // it has not ended
	*loop.Report
}

// Start takes a turn in, and gives what is to be called when it is over.
func (t *Turns) Start(l Ledger) (over func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.started++
	e := entry{t.started, l}
	t.running = append(t.running, e)
	return func() { t.end(e) }
}

func (t *Turns) end(e entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running = slices.DeleteFunc(t.running, func(other entry) bool { return other.number == e.number })
	if !e.ledger.Ended() {
		return // it panicked, and would look as if it still ran
	}
	if len(t.ended) == keptTurns {
		t.ended = slices.Delete(t.ended, 0, 1)
	}
	t.ended = append(t.ended, e)
}

// Active counts the turns that run.
func (t *Turns) Active() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.running)
}

// Running lists the turns that run, the newest first, at most limit of them.
func (t *Turns) Running(limit int) []Turn { return t.list(&t.running, limit) }

// Ended lists the kept turns that have ended, the last to end first, at most limit
// of them.
func (t *Turns) Ended(limit int) []Turn { return t.list(&t.ended, limit) }

func (t *Turns) list(of *[]entry, limit int) []Turn {
	t.mu.Lock()
	entries := slices.Clone((*of)[max(0, len(*of)-limit):])
	t.mu.Unlock()
	all := make([]Turn, 0, len(entries))
	for _, e := range slices.Backward(entries) {
		all = append(all, e.turn())
	}
	return all
}

// Find gives one turn.
func (t *Turns) Find(number uint64) (Turn, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, of := range [][]entry{t.running, t.ended} {
		for _, e := range of {
			if e.number == number {
				return e.turn(), true
			}
		}
	}
	return Turn{}, false
}

func (e entry) turn() Turn {
	report := e.ledger.Report()
	return Turn{e.number, report.StopReason == "", report}
}

// Behind counts the calls that still run though the turn has ended.
func (t Turn) Behind() (n int) {
	for _, c := range t.Calls {
		if c.Running && !t.Running {
			n++
		}
	}
	return n
}
