package extproc

import (
	"context"
	"net/http"
	"net/textproto"
	"net/url"

	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
)

// modeOf tells the filter's configuration from the stream's first message.
func modeOf(first *pb.ProcessingRequest) Mode {
	config := first.GetProtocolConfig()
	request, response := config.GetRequestBodyMode(), config.GetResponseBodyMode()
	switch {
	case config == nil, first.GetObservabilityMode(): // an observer's answers are ignored
		return ModeUnsupported
	case request == filterv3.ProcessingMode_NONE && response == filterv3.ProcessingMode_NONE:
		return ModeOverride
	case request == filterv3.ProcessingMode_FULL_DUPLEX_STREAMED && response == filterv3.ProcessingMode_FULL_DUPLEX_STREAMED:
		return ModeStatic
	}
	return ModeUnsupported
}

// newRequest makes the server-side request of Envoy's request headers, as
// net/http's server would; the body is added later. It is an error if :path
// cannot be parsed, as with CONNECT.
func newRequest(headers *pb.HttpHeaders) (*http.Request, error) {
	m := headers.GetHeaders()
	path := pseudo(m, ":path")
	u, err := url.ParseRequestURI(path)
	if err != nil {
		return nil, err
	}
	r := &http.Request{
		Method:        pseudo(m, ":method"),
		URL:           u,
		RequestURI:    path,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Host:          pseudo(m, ":authority"),
		Header:        toHeader(m),
		Body:          http.NoBody,
		ContentLength: -1,
	}
	if r.Host == "" {
		r.Host = r.Header.Get("Host")
	}
	delete(r.Header, "Host")
	if headers.GetEndOfStream() {
		r.ContentLength = 0
	} else if n := contentLength(r.Header); n >= 0 {
		r.ContentLength = n
	}
	delete(r.Header, "Transfer-Encoding")
	r.Trailer = announcedTrailer(r.Header)
	return r, nil
}

// attach gives the request its exchange: body, context, remote address.
func (x *exchange) attach(r *http.Request, headers *pb.HttpHeaders, info *Info) *http.Request {
	x.path, x.host, x.method = r.RequestURI, r.Host, r.Method
	// Values but not the end of the stream's context, so that the cause is ours.
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(x.stream.Context()))
	x.cancel = cancel
	r = r.WithContext(&exchangeContext{ctx, x, info})
	r.RemoteAddr = info.Attributes["source.address"]
	x.requestPipe.onEOF = func(trailer http.Header) {
		if r.Trailer == nil {
			r.Trailer = http.Header{}
		}
		for key, values := range trailer {
			r.Trailer[key] = values
		}
	}
	if !headers.GetEndOfStream() {
		r.Body = &x.requestPipe
	}
	return r
}

// strip removes Options.Strip and the marker.
func (s *Server) strip(h http.Header) {
	delete(h, markerKey)
	for _, key := range s.stripped {
		delete(h, key)
	}
}

// canonicalKeys prepares Options.Strip.
func canonicalKeys(names []string) []string {
	keys := make([]string, len(names))
	for i, name := range names {
		keys[i] = textproto.CanonicalMIMEHeaderKey(name)
	}
	return keys
}
