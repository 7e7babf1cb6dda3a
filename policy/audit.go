package policy

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/log"
	"go.opentelemetry.io/otel/log/noop"
)

// Stderr in the place of a file's path is the process's standard error.
const Stderr = "stderr"

// AuditTarget says where records go.
type AuditTarget struct {
	File string // a path, [Stderr], or "" for no audit log: then there are no records at all
	Full bool   // arguments are written as they are, not only their digest
}

// AuditOptions configure [NewAudit].
type AuditOptions struct {
	Target AuditTarget
	Stderr io.Writer
	// Log is told when records cannot be written, and when they can again.
	Log *slog.Logger
	// Logs gets every record that the file gets, as an OpenTelemetry log record; nil
	// for none.
	Logs log.LoggerProvider
	// Count is told of records that were written and that were lost; nil for nobody.
	Count func(outcome string, n int)
}

// What became of records, as Count is told.
const (
	AuditWritten = "written"
	AuditLost    = "lost"
)

// maxPending bounds what waits for the file, in bytes. What comes on top is lost,
// and counted: a disk that hangs must not stop the calls.
const maxPending = 16 << 20

// retryPause is the time between two tries at a file that cannot be written.
const retryPause = time.Second

// Audit writes records in the background. Nobody who calls waits for the disk.
type Audit struct {
	opts   AuditOptions // save the target
	logger log.Logger
	wake   chan struct{}
	ending sync.Once
	stop   chan struct{} // closed when no more records come
	done   chan struct{} // closed when the writer has ended

	mu      sync.Mutex
	target  AuditTarget
	pending [][]byte
	size    int  // of pending, in bytes
	reopen  bool // somebody asked for it
	losing  bool // records are being lost
}

// NewAudit starts the writer. Close ends it.
func NewAudit(o AuditOptions) *Audit {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Logs == nil {
		o.Logs = noop.NewLoggerProvider()
	}
	if o.Count == nil {
		o.Count = func(string, int) {}
	}
	a := &Audit{opts: o, target: o.Target, logger: o.Logs.Logger("mcp-via-llm"), wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
	go a.run()
	return a
}

// Update sends records that come from now on, and those that wait, elsewhere.
func (a *Audit) Update(t AuditTarget) {
	a.mu.Lock()
	a.target = t
	a.mu.Unlock()
	a.nudge()
}

// Reopen opens the file again, for who has moved it away. That it was moved is
// noticed without this too.
func (a *Audit) Reopen() {
	a.mu.Lock()
	a.reopen = true
	a.mu.Unlock()
	a.nudge()
}

func (a *Audit) nudge() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// Write takes a record. It does not wait for the disk, and nothing that goes wrong
// there is told to the caller.
func (a *Audit) Write(ctx context.Context, r Record) {
	a.mu.Lock()
	target := a.target
	a.mu.Unlock()
	if target.File == "" {
		return
	}
	sum := digest(r.arguments)
	if a.logger.Enabled(ctx, log.EnabledParameters{Severity: log.SeverityInfo}) {
		r.emit(ctx, a.logger, sum, target.Full)
	}
	a.add(r.line(sum, target.Full))
}

func (a *Audit) add(line []byte) {
	a.mu.Lock()
	full := a.size+len(line) > maxPending
	first := full && !a.losing
	a.losing = full
	if !full {
		a.pending = append(a.pending, line)
		a.size += len(line)
	}
	a.mu.Unlock()
	if full {
		a.opts.Count(AuditLost, 1)
	}
	if first {
		a.opts.Log.Error("audit records are lost, because those that wait to be written take too much memory", "limit_bytes", maxPending)
	}
	a.nudge()
}

// Close writes what waits, until ctx ends, and ends the writer. Records that come
// later are lost.
func (a *Audit) Close(ctx context.Context) {
	a.ending.Do(func() { close(a.stop) })
	select {
	case <-a.done:
	case <-ctx.Done():
	}
}

// run is the writer. It alone touches the file.
func (a *Audit) run() {
	defer close(a.done)
	var f auditFile
	defer f.close()
	failing := false
	for stopped := false; !stopped; {
		wake, retry := a.wake, (<-chan time.Time)(nil)
		if failing { // a new record is no reason to try again at once
			wake, retry = nil, time.After(retryPause)
		}
		select {
		case <-wake:
		case <-retry:
		case <-a.stop:
			stopped = true
		}
		err := a.flush(&f)
		switch {
		case err != nil && !failing:
			a.opts.Log.Error("the audit log cannot be written; records wait in memory", "err", err)
		case err == nil && failing:
			a.opts.Log.Info("the audit log is written again")
		}
		failing = err != nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if n := len(a.pending); n > 0 {
		a.opts.Count(AuditLost, n)
		a.opts.Log.Error("audit records are lost at the end of the process", "records", n)
	}
}

// flush writes what waits.
func (a *Audit) flush(f *auditFile) error {
	for {
		a.mu.Lock()
		lines, target, reopen := a.pending, a.target, a.reopen
		a.reopen = false
		a.mu.Unlock()
		if reopen || target.File == "" {
			f.close()
		}
		if len(lines) == 0 {
			return nil
		}
		if target.File == "" { // turned off meanwhile
			a.gone(len(lines), AuditLost)
			continue
		}
		n, err := f.write(target.File, a.opts.Stderr, lines)
		a.gone(n, AuditWritten)
		if err != nil {
			return err
		}
	}
}

// gone takes the first n records away.
func (a *Audit) gone(n int, outcome string) {
	a.mu.Lock()
	for _, line := range a.pending[:n] {
		a.size -= len(line)
	}
	if a.pending = a.pending[n:]; len(a.pending) == 0 {
		a.pending = nil
	}
	a.mu.Unlock()
	if n > 0 {
		a.opts.Count(outcome, n)
	}
}
