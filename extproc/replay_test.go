package extproc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
)

// TestRecorded replays what real Envoys sent, and compares what the adapter
// sends with what those Envoys accepted.
func TestRecorded(t *testing.T) {
	for _, f := range recordedFlavours {
		if *record {
			recordFlavour(t, f)
		}
		for _, r := range loadRecordings(t, f) {
			t.Run(f.String()+"/"+r.scenario.name, func(t *testing.T) {
				got, err := replay(t, r, len(r.envoy))
				if err != nil {
					t.Fatal(err)
				}
				if got, want := summarize(got), summarize(r.us); got != want {
					t.Errorf("sent\n%s\nrecorded\n%s", got, want)
				}
			})
		}
	}
}

// TestRecordedCut ends the stream after every message of Envoy's: all
// goroutines must end (goleak), whatever phase that is.
func TestRecordedCut(t *testing.T) {
	for _, f := range recordedFlavours {
		for _, r := range loadRecordings(t, f) {
			for n := range len(r.envoy) {
				if _, err := replay(t, r, n); err != nil {
					t.Errorf("%s/%s, cut after %d: %v", f, r.scenario.name, n, err)
				}
			}
		}
	}
}

// replay plays the first n of Envoy's messages. The recorded upstreams read the
// whole request first, so a response waits for that. With all of them it returns
// what the adapter sent up to its last recorded message.
func replay(t testing.TB, r *recording, n int) ([]*pb.ProcessingResponse, error) {
	f := serve(t, r.scenario.handler)
	defer f.stop()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	stream, err := f.client.Process(ctx)
	if err != nil {
		return nil, err
	}
	released := make(chan struct{})
	sent := make(chan error, 1)
	go func() {
		sent <- func() error {
			for _, msg := range r.envoy[:n] {
				if msg.GetResponseHeaders() != nil {
					select {
					case <-released:
					case <-ctx.Done():
						return errors.New("the request did not end")
					}
				}
				if err := stream.Send(msg); err != nil && err != io.EOF {
					return err
				}
			}
			return nil
		}()
	}()
	if n < len(r.envoy) {
		go func() {
			for {
				msg, err := stream.Recv()
				if err != nil {
					return
				}
				if r.ends(msg) {
					close(released)
				}
			}
		}()
		return nil, <-sent
	}
	var got []*pb.ProcessingResponse
	last := shape(r.us[len(r.us)-1])
	for {
		msg, err := stream.Recv()
		if err != nil {
			return got, fmt.Errorf("before %q: %w", last, err)
		}
		got = append(got, msg)
		if r.ends(msg) {
			close(released)
		}
		if shape(msg) == last {
			return got, <-sent
		}
	}
}

// ends says that msg is the end of the request.
func (r *recording) ends(msg *pb.ProcessingResponse) bool {
	if r.envoy[0].GetRequestHeaders().GetEndOfStream() {
		return msg.GetRequestHeaders() != nil
	}
	return msg.GetRequestTrailers() != nil ||
		msg.GetRequestBody().GetResponse().GetBodyMutation().GetStreamedResponse().GetEndOfStream()
}

// shape is a message without its content.
func shape(msg *pb.ProcessingResponse) string {
	text := describe(msg)
	if b := ourBody(msg); b != nil {
		kind, _, _ := strings.Cut(text, " body")
		return kind + " body " + fmt.Sprint(strings.HasSuffix(text, " end"))
	}
	return text
}

// summarize joins the bodies of each side: their cuts depend on timing.
func summarize(msgs []*pb.ProcessingResponse) string {
	var lines [2][]string
	bodies := map[string]*struct {
		data []byte
		ends int
	}{}
	for _, msg := range msgs {
		s := 1
		if strings.HasPrefix(describe(msg), "request") || msg.GetModeOverride() != nil {
			s = 0
		}
		b := ourBody(msg)
		if b == nil {
			lines[s] = append(lines[s], describe(msg))
			continue
		}
		kind, _, _ := strings.Cut(describe(msg), " body")
		if bodies[kind] == nil {
			bodies[kind] = &struct {
				data []byte
				ends int
			}{}
			lines[s] = append(lines[s], kind+" body")
		}
		bodies[kind].data = append(bodies[kind].data, *b...)
		if strings.HasSuffix(describe(msg), " end") {
			bodies[kind].ends++
		}
	}
	var text strings.Builder
	for _, line := range append(lines[0], lines[1]...) {
		text.WriteString(line)
		if kind, ok := strings.CutSuffix(line, " body"); ok && bodies[kind] != nil {
			fmt.Fprintf(&text, ": %d bytes %s, %d ends", len(bodies[kind].data), sum(bodies[kind].data)[:8], bodies[kind].ends)
		}
		text.WriteByte('\n')
	}
	return text.String()
}
