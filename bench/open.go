package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"

	"github.com/mcp-via-llm/mcp-via-llm/e2e/rig"
)

// openResult is what turns cost that are open and wait for a slow tool.
type openResult struct {
	Turns         int     `json:"turns"`
	KilobytesEach float64 `json:"kilobytes_each"`      // resident memory of the service, above that with none open
	CopyEach      float64 `json:"copy_kilobytes_each"` // the same of a filter that copies, with as many streams open
	CPU           float64 `json:"cpu_share"`           // of one core, while all wait
	Jitter        float64 `json:"keepalive_jitter_ms"` // 99th percentile of |gap between two keep-alives - 10 s|
	Silence       float64 `json:"longest_silence_ms"`  // between two bytes of a stream that has begun
	Failed        int64   `json:"failed"`
}

const (
	keepalive  = 10 * time.Second
	waitTime   = 75 * time.Second // of the slow tool: long enough to open all and to see keep-alives
	batch      = 100              // turns on one HTTP/2 connection
	batchEvery = 150 * time.Millisecond
)

func openTurns(ctx context.Context, tools *rig.Tools, turns int) (*openResult, error) {
	s, err := startStack(tools, stackOptions{Tools: 5})
	if err != nil {
		return nil, err
	}
	defer s.close() //nolint:errcheck // what was measured stands
	out := &openResult{Turns: turns}
	copier := s.processes[2]
	base, copied := residentKB(s.rig.Service.PID()), residentKB(copier.PID())
	slow := plan{Stream: true, Chunks: 1, History: kilobyte, Rounds: 1, SlowMS: int(waitTime / time.Millisecond)}
	done := make(chan error, 1)
	var o opened
	go func() { done <- o.open(ctx, s.service, slow, turns) }()
	if err := o.settle(ctx, turns); err != nil {
		return nil, err
	}
	before := cpuTime(s.rig.Service.PID())
	time.Sleep(keepalive + 2*time.Second)
	out.CPU = (cpuTime(s.rig.Service.PID()) - before).Seconds() / (keepalive + 2*time.Second).Seconds()
	out.KilobytesEach = float64(residentKB(s.rig.Service.PID())-base) / float64(turns)
	if err := <-done; err != nil {
		return nil, err
	}
	out.Failed = o.failed.Load()
	out.Jitter, out.Silence = o.jitter(), float64(quantile(o.silences, 1))/float64(time.Millisecond)

	// The floor: as many streams through the copying filter, held open by a paced answer.
	var held opened
	long := plan{Stream: true, History: kilobyte, Chunks: 3, PaceUS: int(waitTime/time.Microsecond) / 3}
	go func() { done <- held.open(ctx, s.copied, long, turns) }()
	if err := held.settle(ctx, turns); err != nil {
		return nil, err
	}
	out.CopyEach = float64(residentKB(copier.PID())-copied) / float64(turns)
	return out, <-done
}

// opened follows many streams.
type opened struct {
	begun  atomic.Int64
	failed atomic.Int64

	mu       sync.Mutex
	gaps     []time.Duration // between two keep-alive comments
	silences []time.Duration // the longest of each stream
}

func (o *opened) open(ctx context.Context, base string, p plan, turns int) error {
	var wg sync.WaitGroup
	pace := time.NewTicker(batchEvery)
	defer pace.Stop()
	for first := 0; first < turns; first += batch {
		client := &http.Client{Transport: &http2.Transport{AllowHTTP: true, DialTLSContext: plainDial}}
		for range min(batch, turns-first) {
			o.begun.Add(1)
			wg.Go(func() {
				if err := o.follow(ctx, client, base, p); err != nil {
					o.failed.Add(1)
				}
			})
		}
		<-pace.C
	}
	wg.Wait()
	if n := o.failed.Load(); n > int64(turns/100) {
		return fmt.Errorf("%d of %d turns failed", n, turns)
	}
	return nil
}

func plainDial(ctx context.Context, network, address string, _ *tls.Config) (net.Conn, error) {
	var dialer net.Dialer
	return dialer.DialContext(ctx, network, address)
}

// follow reads one stream to its end.
func (o *opened) follow(ctx context.Context, client *http.Client, base string, p plan) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/chat/completions", bytes.NewReader(p.request(nonces.Add(1))))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var last, comment time.Time
	var gaps []time.Duration
	var silence time.Duration
	found := false
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		now, line := time.Now(), lines.Bytes()
		if !last.IsZero() {
			silence = max(silence, now.Sub(last))
		}
		last = now
		if bytes.HasPrefix(line, []byte(":")) {
			if !comment.IsZero() {
				gaps = append(gaps, now.Sub(comment))
			}
			comment = now
		}
		found = found || bytes.Contains(line, []byte(final))
	}
	if err := lines.Err(); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK || !found {
		return fmt.Errorf("status %d, and no end", response.StatusCode)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.gaps = append(o.gaps, gaps...)
	o.silences = append(o.silences, silence)
	return nil
}

// settle waits until all turns are open and what they began has had time to calm down.
func (o *opened) settle(ctx context.Context, turns int) error {
	deadline := time.Now().Add(waitTime / 2)
	for o.begun.Load() < int64(turns) {
		if time.Now().After(deadline) {
			return fmt.Errorf("only %d of %d turns could be opened in %v", o.begun.Load(), turns, waitTime/2)
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	time.Sleep(5 * time.Second)
	return nil
}

func (o *opened) jitter() float64 {
	off := make([]time.Duration, len(o.gaps))
	for i, gap := range o.gaps {
		off[i] = (gap - keepalive).Abs()
	}
	return float64(quantile(off, 0.99)) / float64(time.Millisecond)
}

// residentKB is a process's resident memory, from proc(5).
func residentKB(pid int) int64 {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(status)) {
		if after, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, _ := strconv.ParseInt(strings.Fields(after)[0], 10, 64)
			return kb
		}
	}
	return 0
}

// cpuTime is what a process has used of the processors, from proc(5): fields 14 and 15 of stat, in ticks of 10 ms.
func cpuTime(pid int) time.Duration {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, after, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(after)
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond
}
