package credential

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"
)

const (
	// maxIdleConns and maxConns bound the TCP connections of one pool: running
	// calls over HTTP/1.1 need one each, and a standing stream one more.
	maxIdleConns = 64
	maxConns     = 1024
	// maxHeader bounds the header of an answer, in bytes.
	maxHeader = 256 << 10
)

// Pool is the connections to one server for one caller. Callers never share one:
// some servers and proxies tie a login to the connection (RFC 4559, section 6).
type Pool struct {
	*http.Transport
	egress *url.URL
}

// NewPool makes a pool with the server's TLS settings. An error is an [Error].
func (s *Source) NewPool() (*Pool, error) {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost, t.MaxConnsPerHost, t.MaxResponseHeaderBytes = maxIdleConns, maxConns, maxHeader
	t.ResponseHeaderTimeout = 0                        // a call may take its time; its context bounds it
	t.ReadBufferSize, t.WriteBufferSize = 2<<10, 2<<10 // a call that waits holds both
	// A standing stream may be silent for hours: only pings find a dead peer.
	t.HTTP2 = &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second}
	dial := dialer(byOperator).DialContext
	t.DialContext = dial
	if s.Egress != nil {
		t.Proxy = nil
		return &Pool{t, s.Egress}, nil
	}
	conf, err := s.tls.config()
	if err != nil {
		return nil, err
	}
	t.TLSClientConfig = conf // behind a proxy; else each dial reads the files anew
	t.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		return s.dialTLS(ctx, dial, network, address)
	}
	return &Pool{t, nil}, nil
}

func (s *Source) dialTLS(ctx context.Context, dial dialFunc, network, address string) (net.Conn, error) {
	conf, err := s.tls.config()
	if err != nil {
		return nil, err
	}
	if conf.ServerName == "" {
		if conf.ServerName, _, err = net.SplitHostPort(address); err != nil {
			return nil, err
		}
	}
	conf.NextProtos = []string{"h2", "http/1.1"}
	raw, err := dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	conn := tls.Client(raw, conf)
	if err := conn.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, err
	}
	return conn, nil
}

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// RoundTrip implements [http.RoundTripper]. With an egress the request goes there
// and names the server in its Host header.
func (p *Pool) RoundTrip(req *http.Request) (*http.Response, error) {
	if p.egress == nil {
		return p.Transport.RoundTrip(req)
	}
	out := req.Clone(req.Context())
	out.Host = req.URL.Host
	out.URL.Scheme, out.URL.Host = p.egress.Scheme, p.egress.Host
	return p.Transport.RoundTrip(out)
}

// zone is where the server is, by the address that answered a request. Behind a
// proxy that address says nothing.
func (s *Source) zone(answered netip.Addr) zone {
	if z, ok := literal(s.URL.Hostname()); ok {
		return z
	}
	if s.Egress != nil || !answered.IsValid() || proxied(s.URL) {
		return zonePublic
	}
	return zoneOf(answered)
}

func proxied(u *url.URL) bool {
	proxy, err := http.ProxyFromEnvironment(&http.Request{URL: u})
	return err != nil || proxy != nil
}

const (
	// fetchTimeout bounds one request for a token or a document.
	fetchTimeout = 10 * time.Second
	// maxDocument bounds such a document, in bytes.
	maxDocument  = 256 << 10
	maxRedirects = 3
)

var errRedirect = errors.New("answered with a redirect, which is not followed")

// client calls u. What belongs to the server's origin goes the server's own way,
// through its egress and with its TLS settings. What the operator has configured
// may be anywhere, what others name only where the server in z is.
func (s *Source) client(u *url.URL, z zone, follow func(*http.Request, []*http.Request) error) (*http.Client, error) {
	c := &http.Client{Timeout: fetchTimeout, CheckRedirect: follow}
	if SameOrigin(u, s.URL) {
		pool, err := s.NewPool()
		if err != nil {
			return nil, err
		}
		pool.DisableKeepAlives = true
		c.Transport = pool
		return c, nil
	}
	roots, err := s.tls.roots()
	if err != nil {
		return nil, err
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DisableKeepAlives = true // tokens are asked for seldom
	t.MaxResponseHeaderBytes = maxHeader
	t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
	if z == zoneOperator {
		t.DialContext = dialer(byOperator).DialContext
		c.Transport = t
		return c, nil
	}
	direct := t.Clone()
	direct.Proxy, direct.DialContext = nil, dialer(z.reaches).DialContext
	c.Transport = &guarded{direct: direct, proxied: t, zone: z}
	return c, nil
}

// zoneOperator marks an address that the operator has configured.
const zoneOperator zone = -1

// guarded dials only what a server in a zone may name. A proxy dials for itself;
// there only the host as it is written can be judged.
type guarded struct {
	direct, proxied *http.Transport
	zone            zone
}

func (g *guarded) RoundTrip(req *http.Request) (*http.Response, error) {
	if !proxied(req.URL) {
		return g.direct.RoundTrip(req)
	}
	if z, ok := literal(req.URL.Hostname()); ok && !g.zone.reaches(z) {
		return nil, errForbidden
	}
	return g.proxied.RoundTrip(req)
}

// noRedirect keeps a client's proof and a caller's token at the address that
// they were meant for.
func noRedirect(*http.Request, []*http.Request) error { return errRedirect }
