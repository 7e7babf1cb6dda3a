package loop

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/mcp-via-llm/mcp-via-llm/chat"
)

// requestBody is a body as it came and as it reads.
type requestBody struct{ wire, plain []byte }

func (b requestBody) sent() io.Reader { return bytes.NewReader(b.wire) }

// readBody reads the whole request body, decoding gzip (RFC 9110 section 8.4).
func (h *handler) readBody(r *http.Request) (requestBody, *chat.Error) {
	wire, err := readAll(r.Body, h.MaxRequestBytes, r.ContentLength)
	if err != nil {
		return requestBody{}, h.bodyError(err)
	}
	switch coding := strings.ToLower(r.Header.Get("Content-Encoding")); coding {
	case "", "identity":
		return requestBody{wire, wire}, nil
	case "gzip", "x-gzip":
		var plain []byte
		zr, err := gzip.NewReader(bytes.NewReader(wire))
		if err == nil {
			plain, err = readAll(zr, h.MaxRequestBytes, 0)
		}
		if err != nil {
			return requestBody{}, h.bodyError(fmt.Errorf("gzip: %w", err))
		}
		return requestBody{wire, plain}, nil
	default:
		return requestBody{}, &chat.Error{Status: http.StatusUnsupportedMediaType, Type: "invalid_request_error", Code: "unsupported_content_encoding",
			Message: fmt.Sprintf("The request body has content-encoding %q. Send it as gzip or without a coding.", coding)}
	}
}

func (h *handler) bodyError(err error) *chat.Error {
	if errors.Is(err, errTooLarge) {
		return &chat.Error{Status: http.StatusRequestEntityTooLarge, Type: "invalid_request_error", Code: "request_too_large",
			Message: fmt.Sprintf("The request body is larger than the limit of %d bytes.", h.MaxRequestBytes)}
	}
	return &chat.Error{Status: http.StatusBadRequest, Type: "invalid_request_error", Code: "invalid_body",
		Message: "The request body could not be read: " + err.Error()}
}

// errCut says that an answer that is being copied to the client broke off.
var errCut = errors.New("the provider's answer broke off")

var errTooLarge = errors.New("larger than the limit")

// maxHint is what a declared length makes readAll set aside at most before anything
// came, and minHint what it does without one.
const (
	maxHint = 1 << 20
	minHint = 512
)

// readAll reads at most limit bytes; more is errTooLarge. The size is a hint.
func readAll(r io.Reader, limit, size int64) ([]byte, error) {
	if size <= 0 {
		size = minHint
	}
	b := make([]byte, 0, min(size, limit, maxHint)+1)
	for {
		if len(b) == cap(b) {
			b = slices.Grow(b, len(b))
		}
		n, err := r.Read(b[len(b):min(int64(cap(b)), limit+1)])
		b = b[:len(b)+n]
		switch {
		case int64(len(b)) > limit:
			return b, errTooLarge
		case err == io.EOF:
			return b, nil
		case err != nil:
			return b, err
		}
	}
}

// outbound makes the request of a segment: the client's own, with another body
// and without what concerns only the hop between client and gateway.
func (h *handler) outbound(ctx context.Context, r *http.Request, body io.ReadCloser, size int64) *http.Request {
	out, url := r.WithContext(ctx), *r.URL
	url.Scheme, url.Host = "http", r.Host
	out.URL, out.RequestURI = &url, ""
	out.Body, out.ContentLength = body, size
	out.TransferEncoding, out.Close = nil, false
	out.Header = make(http.Header, len(r.Header)+1)
	for name, values := range r.Header {
		if !hopByHop(name) && !h.internal[name] {
			out.Header[name] = values[:len(values):len(values)]
		}
	}
	if names := r.Header.Get("Connection"); names != "" {
		for _, name := range strings.Split(names, ",") {
			out.Header.Del(strings.TrimSpace(name))
		}
	}
	return out
}

// bytesBody is a request's body that is all there.
type bytesBody struct{ bytes.Reader }

func newBytesBody(b []byte) *bytesBody {
	body := new(bytesBody)
	body.Reset(b)
	return body
}

func (*bytesBody) Close() error { return nil }

// internal are the request headers that are not for the model's provider.
func internal(private []string) map[string]bool {
	all := map[string]bool{}
	for _, name := range slices.Concat(Headers, private) {
		all[http.CanonicalHeaderKey(name)] = true
	}
	return all
}

// hopByHop says whether a header is one of RFC 9110 section 7.6.1, or of those that
// net/http writes from the request's fields.
func hopByHop(name string) bool {
	switch name {
	case "Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization",
		"Te", "Trailer", "Transfer-Encoding", "Upgrade", "Content-Length", "Expect":
		return true
	}
	return false
}

// copyThrough sends a request on as it is and copies the answer back as it comes.
func (h *handler) copyThrough(w http.ResponseWriter, r *http.Request, body io.Reader, size int64) {
	out := h.outbound(r.Context(), r, io.NopCloser(body), size)
	h.injectUntouched(r.Context(), out.Header)
	resp, err := h.Transport.RoundTrip(out)
	if err != nil {
		if r.Context().Err() == nil {
			h.Log.WarnContext(r.Context(), "upstream request failed", "err", err)
			endUntouched(r.Context(), unreachable.Status, unreachable.Code)
			unreachable.WriteTo(w)
		}
		return
	}
	defer resp.Body.Close()
	endUntouched(r.Context(), resp.StatusCode, "")
	if copyResponse(w, resp) != nil {
		endUntouched(r.Context(), resp.StatusCode, "upstream_truncated")
		panic(http.ErrAbortHandler) // the client must see that it was cut
	}
}

// copyResponse copies a response byte for byte, flushing what has come. It fails
// if the provider ended its answer too early.
func copyResponse(w http.ResponseWriter, resp *http.Response) error {
	copyHeader(w.Header(), resp.Header)
	w.WriteHeader(resp.StatusCode)
	flush := http.NewResponseController(w).Flush
	buf := make([]byte, 32<<10)
	for {
		n, err := resp.Body.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return nil // the client is gone, nobody is left to tell
			}
			flush() //nolint:errcheck // a writer that cannot flush buffers
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: %w", errCut, err)
		}
	}
}

func copyHeader(dst, src http.Header) {
	for name, values := range src {
		if !hopByHop(name) || name == "Content-Length" {
			dst[name] = values[:len(values):len(values)]
		}
	}
}
