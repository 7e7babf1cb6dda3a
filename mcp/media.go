package mcp

import (
	"bufio"
	"bytes"
	"io"
	"mime"
	"net/http"
)

// The types that an answer to a request has (2025-11-25, "Transports: Streamable HTTP").
const (
	mediaJSON   = "application/json"
	mediaEvents = "text/event-stream"
)

// maxSniff bounds how much of an answer is looked at to find its type, in bytes.
const maxSniff = 256

// byteOrderMark may not begin JSON, but readers may ignore it (RFC 8259, section 8.1).
var byteOrderMark = []byte("\xef\xbb\xbf")

// declared is the type that an answer says it has.
func declared(resp *http.Response) string {
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return media
}

// sniffed is the type of an answer that declares another than MCP has, as some servers
// do, or none: the one that it begins as, else what it declares.
func sniffed(resp *http.Response, media string) string {
	body := resp.Body.(*wireBody)
	reader := bufio.NewReaderSize(body.ReadCloser, maxSniff)
	body.ReadCloser = struct {
		io.Reader
		io.Closer
	}{reader, body.ReadCloser}
	for n := 1; n <= maxSniff; n++ {
		begin, err := reader.Peek(n)
		switch begin = bytes.TrimLeft(bytes.TrimPrefix(begin, byteOrderMark), " \t\r\n"); {
		case bytes.HasPrefix(begin, []byte("{")), bytes.HasPrefix(begin, []byte("[")):
			return mediaJSON
		case bytes.HasPrefix(begin, []byte("data:")), bytes.HasPrefix(begin, []byte("event:")), bytes.HasPrefix(begin, []byte("id:")):
			resp.Header.Set("Content-Type", mediaEvents)
			return mediaEvents
		case err != nil, len(begin) >= len("event:"):
			return media
		}
	}
	return media
}
