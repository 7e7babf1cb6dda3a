package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// sample is one turn as its client saw it.
type sample struct {
	total  time.Duration
	first  time.Duration   // to the first byte of the body
	chunks []time.Duration // of each paced chunk: from the LLM to here
	quiet  time.Duration   // the longest time between two of them
}

// operation is what is measured: one turn, or what it is compared with.
type operation func(ctx context.Context) (sample, error)

var nonces atomic.Int64

// client has connections of its own for each place that it asks.
func newClient(connections int) *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections, MaxConnsPerHost: connections, DisableCompression: true}}
}

// turn is a whole turn of a plan, with the resume where it is a mixed one. It fails unless the answer is the one that
// the plan ends with.
func turn(client *http.Client, base string, p plan) operation {
	return func(ctx context.Context) (sample, error) {
		nonce := nonces.Add(1)
		start := time.Now()
		wanted := final
		if p.Mixed {
			wanted = clientTool
		}
		s, err := exchange(ctx, client, base, p.request(nonce), wanted)
		if err == nil && p.Mixed {
			time.Sleep(time.Duration(p.SlowMS) * time.Millisecond) // the client's own tool takes as long
			s, err = exchange(ctx, client, base, p.resume(nonce), final)
		}
		s.total = time.Since(start)
		return s, err
	}
}

// exchange is one request whose answer must have the wanted text.
func exchange(ctx context.Context, client *http.Client, base string, body []byte, wanted string) (sample, error) {
	var s sample
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return s, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+liteLLMKey) // nobody else looks at it
	start := time.Now()
	response, err := client.Do(request)
	if err != nil {
		return s, err
	}
	defer response.Body.Close()
	lines := bufio.NewReaderSize(response.Body, 64<<10)
	if _, err := lines.Peek(1); err != nil {
		return s, fmt.Errorf("status %d and no body: %w", response.StatusCode, err)
	}
	s.first = time.Since(start)
	found, err := s.read(lines, wanted)
	if err == nil && (response.StatusCode != http.StatusOK || !found) {
		err = fmt.Errorf("status %d, and the answer has no %q", response.StatusCode, wanted)
	}
	return s, err
}

// read takes the whole answer, with the delay of each chunk that tells when it left.
func (s *sample) read(lines *bufio.Reader, wanted string) (found bool, err error) {
	var last time.Time
	for {
		line, err := lines.ReadSlice('\n')
		for errors.Is(err, bufio.ErrBufferFull) { // a whole completion is one long line
			found = found || bytes.Contains(line, []byte(wanted))
			line, err = lines.ReadSlice('\n')
		}
		found = found || bytes.Contains(line, []byte(wanted))
		if _, after, ok := bytes.Cut(line, []byte(`"content":"t=`)); ok {
			digits, _, _ := bytes.Cut(after, []byte(" "))
			if sent, err := strconv.ParseInt(string(digits), 10, 64); err == nil {
				now := time.Now()
				s.chunks = append(s.chunks, time.Duration(now.UnixNano()-sent))
				if !last.IsZero() {
					s.quiet = max(s.quiet, now.Sub(last))
				}
				last = now
			}
		}
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return found, err
		}
	}
}

// measured is what some seconds of load gave.
type measured struct {
	totals  []time.Duration
	firsts  []time.Duration
	chunks  []time.Duration
	quiet   time.Duration // the longest of all
	elapsed time.Duration
}

func (m *measured) throughput() float64 { return float64(len(m.totals)) / m.elapsed.Seconds() }

// load runs an operation on so many connections for so long. The first failure ends it.
func load(ctx context.Context, op operation, connections int, length time.Duration) (*measured, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex
	var all measured
	var wg sync.WaitGroup
	start := time.Now()
	for range connections {
		wg.Go(func() {
			var own []sample
			for time.Since(start) < length || len(own) == 0 {
				s, err := op(ctx)
				if err != nil {
					cancel(err)
					return
				}
				own = append(own, s)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, s := range own {
				all.totals = append(all.totals, s.total)
				all.firsts = append(all.firsts, s.first)
				all.chunks = append(all.chunks, s.chunks...)
				all.quiet = max(all.quiet, s.quiet)
			}
		})
	}
	wg.Wait()
	all.elapsed = time.Since(start)
	return &all, context.Cause(ctx)
}

// quantile is the value below which a share q of the values lies.
func quantile(values []time.Duration, q float64) time.Duration {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	if len(sorted) == 0 {
		return 0
	}
	return sorted[len(sorted)/2]
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.3f", float64(d)/float64(time.Millisecond))
}
