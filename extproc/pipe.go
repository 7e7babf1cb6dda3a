package extproc

import (
	"io"
	"net/http"
	"sync"
)

// pipeLimit is how many unread bytes stop the receiver from taking more from
// Envoy. One message may overshoot it: Envoy sends up to its own buffer limit,
// 1 MiB by default.
const pipeLimit = 256 << 10

// pipe is a message body between the receiver, who pushes and never blocks, and
// the handler, who reads. Whoever pushes asks full first.
type pipe struct {
	mu      sync.Mutex
	ready   sync.Cond
	chunks  [][]byte
	size    int
	end     error             // io.EOF, or what broke the body; after the chunks
	broken  error             // seen at once, before the chunks
	onEOF   func(http.Header) // in the reader's goroutine, once
	trailer http.Header
	drained func() // called when a full pipe has room again
}

func (p *pipe) init(drained func()) {
	p.drained = drained
	p.ready.L = &p.mu
}

// push takes ownership of data. What nobody will read is dropped.
func (p *pipe) push(data []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(data) == 0 || p.broken != nil || p.end != nil {
		return
	}
	p.chunks = append(p.chunks, data)
	p.size += len(data)
	p.ready.Broadcast()
}

// finish ends the body after what was pushed.
func (p *pipe) finish(trailer http.Header) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.end == nil {
		p.end, p.trailer = io.EOF, trailer
		p.ready.Broadcast()
	}
}

// fail breaks the body now: what is unread is dropped, every Read returns err.
func (p *pipe) fail(err error) {
	p.mu.Lock()
	wasFull := p.size >= pipeLimit
	if p.broken == nil {
		p.broken = err
	}
	p.chunks, p.size = nil, 0
	p.ready.Broadcast()
	p.mu.Unlock()
	if wasFull {
		p.drained()
	}
}

func (p *pipe) full() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.size >= pipeLimit
}

// trailers are those that came with the end, or nil.
func (p *pipe) trailers() http.Header {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.trailer
}

// Read implements io.Reader.
func (p *pipe) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	p.mu.Lock()
	for p.broken == nil && len(p.chunks) == 0 && p.end == nil {
		p.ready.Wait()
	}
	if p.broken != nil {
		defer p.mu.Unlock()
		return 0, p.broken
	}
	if len(p.chunks) == 0 {
		onEOF := p.onEOF
		p.onEOF = nil
		end, trailer := p.end, p.trailer
		p.mu.Unlock()
		if onEOF != nil && len(trailer) > 0 {
			onEOF(trailer)
		}
		return 0, end
	}
	wasFull := p.size >= pipeLimit
	n := copy(b, p.chunks[0])
	if p.chunks[0] = p.chunks[0][n:]; len(p.chunks[0]) == 0 {
		p.chunks[0] = nil
		p.chunks = p.chunks[1:]
	}
	p.size -= n
	hasRoom := wasFull && p.size < pipeLimit
	p.mu.Unlock()
	if hasRoom {
		p.drained()
	}
	return n, nil
}

// Close implements io.Closer: the rest is dropped as it comes.
func (p *pipe) Close() error {
	p.fail(http.ErrBodyReadAfterClose)
	return nil
}
