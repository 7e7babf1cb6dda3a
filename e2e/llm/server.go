// Package llm is a scripted, OpenAI-compatible LLM for tests and the demo. It speaks the wire format that the API
// reference (Chat Completions, object and streamed chunks) gives, records every request with its exact bytes, and
// notices when its caller goes away.
package llm

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Brain chooses the answer to one request. It runs on the request's own goroutine and may be called concurrently.
type Brain func(*Request) Step

// Step answers one request.
type Step func(http.ResponseWriter, *Request)

// Server is the scripted LLM, listening on a port of its own.
type Server struct {
	server   *http.Server
	address  string
	mu       sync.Mutex
	brain    Brain
	requests []*Request
	arrived  chan struct{} // closed and replaced with each request and each abort
}

// New is a server that answers every POST with what brain chooses, for a listener of the caller's own.
func New(brain Brain) *Server { return &Server{brain: brain, arrived: make(chan struct{})} }

// Start listens on address ("127.0.0.1:0" for any free port) and answers every POST with what brain chooses.
func Start(address string, brain Brain) (*Server, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("scripted LLM: %w", err)
	}
	s := New(brain)
	s.address = listener.Addr().String()
	s.server = &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	go s.server.Serve(listener) // returns http.ErrServerClosed after Close
	return s, nil
}

// Address is the host and port the server listens on.
func (s *Server) Address() string { return s.address }

// Close ends the listener and every connection.
func (s *Server) Close() error { return s.server.Close() }

// Use changes the brain for the requests that follow and forgets the requests seen so far.
func (s *Server) Use(brain Brain) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.brain, s.requests = brain, nil
}

// Requests returns the requests seen so far, in order of arrival.
func (s *Server) Requests() []*Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*Request(nil), s.requests...)
}

// Wait returns request number n (from 1) as soon as it has arrived, or ctx's error.
func (s *Server) Wait(ctx context.Context, n int) (*Request, error) {
	for {
		s.mu.Lock()
		seen, arrived := s.requests, s.arrived
		s.mu.Unlock()
		if len(seen) >= n {
			return seen[n-1], nil
		}
		select {
		case <-arrived:
		case <-ctx.Done():
			return nil, fmt.Errorf("request %d did not reach the LLM (%d did): %w", n, len(seen), ctx.Err())
		}
	}
}

// models is the answer to GET /v1/models, as the API reference has it.
const models = `{"object":"list","data":[{"id":"scripted","object":"model","created":1700000000,"owned_by":"mcp-via-llm"}]}`

// ServeHTTP records the request, reads its whole body and plays the step chosen for it. The list of models is answered
// without a record.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/models") {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, models)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the caller went away within its own body: there is nobody to answer
	}
	request := &Request{
		Method: r.Method, Path: r.URL.RequestURI(), Host: r.Host, Header: r.Header, Body: body, At: time.Now(),
		ContentLength: r.ContentLength, ctx: r.Context(), ended: make(chan struct{}),
	}
	request.parse()
	brain := s.add(request)
	stop := context.AfterFunc(r.Context(), func() { request.end(true) })
	defer func() {
		// The server cancels the context when this returns; only a cancellation before that is an abort.
		stop()
		request.end(r.Context().Err() != nil)
	}()
	brain(request)(w, request)
}

func (s *Server) add(r *Request) Brain {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r)
	r.Number = len(s.requests)
	close(s.arrived)
	s.arrived = make(chan struct{})
	return s.brain
}
