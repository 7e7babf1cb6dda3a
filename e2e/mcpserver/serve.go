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
	in := io.TeeReader(os.Stdin, &lines{recorder: recorder, received: true})
	return server.Run(ctx, &mcp.IOTransport{
		Reader: io.NopCloser(in),
		Writer: stdout{io.MultiWriter(os.Stdout, &lines{recorder: recorder})},
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
		tee := &teeResponse{ResponseWriter: w}
		handler.ServeHTTP(tee, r)
		recorder.body(w.Header().Get("Content-Type"), tee.seen.Bytes())
	})
}

type teeResponse struct {
	http.ResponseWriter
	seen bytes.Buffer
}

func (t *teeResponse) Write(p []byte) (int, error) {
	t.seen.Write(p)
	return t.ResponseWriter.Write(p)
}

func (t *teeResponse) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// Flush is needed beside Unwrap: the SDK asserts http.Flusher.
func (t *teeResponse) Flush() { http.NewResponseController(t.ResponseWriter).Flush() }
