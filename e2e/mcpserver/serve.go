package mcpserver

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Stdio serves on standard input and output until the client closes them or ctx ends.
func Stdio(ctx context.Context, server *mcp.Server, recorder *Recorder) error {
	// A message is recorded before it goes on, so that who has seen its effect finds it in the record.
	in := io.TeeReader(os.Stdin, &lines{recorder: recorder, received: true})
	return server.Run(ctx, &mcp.IOTransport{
		Reader: io.NopCloser(in),
		Writer: stdout{io.MultiWriter(&lines{recorder: recorder}, os.Stdout)},
	})
}

type stdout struct{ io.Writer }

func (stdout) Close() error { return os.Stdout.Close() }

// HTTP serves over Streamable HTTP. With stateless the server keeps no sessions, as revision 2026-07-28 has it; else
// it gives Mcp-Session-Id headers to clients of earlier revisions.
func HTTP(server *mcp.Server, stateless bool, recorder *Recorder) http.Handler {
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{
		Stateless: stateless, PropagateRequestCancellation: true,
	})
	if recorder == nil {
		return handler
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client went away
		}
		recorder.add(true, bytes.TrimSpace(body))
		r.Body = io.NopCloser(bytes.NewReader(body))
		handler.ServeHTTP(&recordedResponse{ResponseWriter: w, to: lines{recorder: recorder}}, r)
	})
}

// recordedResponse records the messages of a response: each in a line of its own, as JSON or as an event's data.
type recordedResponse struct {
	http.ResponseWriter
	to lines
}

func (r *recordedResponse) Write(p []byte) (int, error) {
	r.to.Write(p)
	if r.Header().Get("Content-Type") == "application/json" {
		r.to.Write([]byte("\n")) // the SDK writes the whole message at once, and no newline
	}
	return r.ResponseWriter.Write(p)
}

func (r *recordedResponse) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// Flush is needed beside Unwrap: the SDK asserts http.Flusher.
func (r *recordedResponse) Flush() { http.NewResponseController(r.ResponseWriter).Flush() }
