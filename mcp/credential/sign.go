package credential

import (
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
)

// maxDrain bounds what is read of an answer that is thrown away, in bytes, to
// keep its connection.
const maxDrain = 64 << 10

// RoundTripper signs what it sends through next, which leads to the server.
//
// A request that the server answers with 401 goes out once more with another
// token, and so does one for a larger scope (403): the server has not accepted
// it (RFC 9110, sections 15.5.2 and 15.5.4), so even a call cannot have taken
// effect.
func (s *Signer) RoundTripper(next http.RoundTripper) http.RoundTripper {
	if s.source.Auth == nil {
		return next
	}
	return &signed{s.source, s.signer, next}
}

type signed struct {
	source *Source
	signer signer
	next   http.RoundTripper
}

// RoundTrip implements [http.RoundTripper]. An [Error] means that the server has
// not accepted the request, or never saw it.
func (t *signed) RoundTrip(req *http.Request) (*http.Response, error) {
	value, err := t.signer.token(req.Context())
	if err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, err
	}
	tried := map[int]bool{}
	for {
		resp, where, err := t.send(req, value)
		if err != nil {
			return nil, err
		}
		refused := resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden
		if !refused || tried[resp.StatusCode] || !rewind(req) {
			return resp, nil
		}
		tried[resp.StatusCode] = true
		better, err := t.signer.renew(req.Context(), value, challengeOf(resp, t.source.zone(where)))
		if err == nil && better == "" {
			return resp, nil
		}
		_, _ = io.CopyN(io.Discard, resp.Body, maxDrain)
		resp.Body.Close()
		if err != nil {
			return nil, err
		}
		value = better
	}
}

// send sends a copy with the token, and tells which address answered.
func (t *signed) send(req *http.Request, value string) (*http.Response, netip.Addr, error) {
	var where netip.Addr
	out := req.Clone(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			if at, ok := info.Conn.RemoteAddr().(*net.TCPAddr); ok {
				where = at.AddrPort().Addr()
			}
		},
	}))
	if value != "" {
		if t.source.Auth.Scheme != "" {
			value = t.source.Auth.Scheme + " " + value
		}
		out.Header.Set(t.source.Auth.Header, value)
	}
	resp, err := t.next.RoundTrip(out)
	return resp, where, err
}

// rewind makes a request ready to go out again.
func rewind(req *http.Request) bool {
	if req.Body == nil || req.Body == http.NoBody {
		return true
	}
	if req.GetBody == nil {
		return false
	}
	body, err := req.GetBody()
	if err != nil {
		return false
	}
	req.Body = body
	return true
}
