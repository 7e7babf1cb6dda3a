package credential

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// authority is a CA that signs certificates for tests.
type authority struct {
	t    *testing.T
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pem  string
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	ca := &authority{t: t}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	ca.key = newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, template, template, ca.key.Public(), ca.key)
	if err != nil {
		t.Fatal(err)
	}
	if ca.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	ca.pem = encode("CERTIFICATE", der)
	return ca
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func encode(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// issue makes a certificate and its key for a name or an address.
func (ca *authority) issue(name string) (cert, key string) {
	ca.t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if ip := net.ParseIP(name); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{name}
	}
	private := newKey(ca.t)
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, private.Public(), ca.key)
	if err != nil {
		ca.t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		ca.t.Fatal(err)
	}
	return encode("CERTIFICATE", der), encode("PRIVATE KEY", raw)
}

// secure is an https server that wants a client certificate of clients, and
// answers with the protocol and the client's name.
func secure(t *testing.T, ca, clients *authority, name string, change func(*tls.Config)) *httptest.Server {
	t.Helper()
	cert, key := ca.issue(name)
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Seen", fmt.Sprintf("%s %s", r.Proto, r.TLS.PeerCertificates[0].Subject.CommonName))
	}))
	pool := x509.NewCertPool()
	pool.AddCert(clients.cert)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}
	if change != nil {
		change(server.TLS)
	}
	server.EnableHTTP2 = true
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

// files are where the service finds its side.
type files struct{ ca, cert, key string }

func newFiles(t *testing.T) files {
	dir := t.TempDir()
	return files{filepath.Join(dir, "ca"), filepath.Join(dir, "cert"), filepath.Join(dir, "key")}
}

func (f files) write(t *testing.T, ca *authority, cert, key string) {
	t.Helper()
	write(t, f.ca, ca.pem)
	write(t, f.cert, cert)
	write(t, f.key, key)
}

func get(t *testing.T, s *Source) string {
	t.Helper()
	pool, err := s.NewPool()
	if err != nil {
		return err.Error()
	}
	defer pool.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL.String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := s.For("").RoundTripper(pool).RoundTrip(req)
	if err != nil {
		return err.Error()
	}
	resp.Body.Close()
	return resp.Header.Get("X-Seen")
}

func TestTLS(t *testing.T) {
	ca, clients, other := newAuthority(t, "servers"), newAuthority(t, "clients"), newAuthority(t, "other")
	f := newFiles(t)
	cert, key := clients.issue("gateway")
	f.write(t, ca, cert, key)
	full := TLS{CA: f.ca, Cert: f.cert, Key: f.key}
	foreign := newFiles(t)
	foreign.write(t, other, cert, key)
	early := func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 } // the refusal is part of the handshake
	old := func(c *tls.Config) { c.MaxVersion = tls.VersionTLS11 }
	for name, row := range map[string]struct {
		conf   TLS
		issued string
		change func(*tls.Config)
		want   string
	}{
		"both verified":         {full, "127.0.0.1", nil, "HTTP/2.0 gateway"},
		"another name":          {TLS{CA: f.ca, Cert: f.cert, Key: f.key, ServerName: "mcp.internal"}, "mcp.internal", nil, "HTTP/2.0 gateway"},
		"not its name":          {full, "mcp.internal", nil, "x509: "},
		"HTTP/1.1":              {full, "127.0.0.1", func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} }, "HTTP/1.1 gateway"},
		"another CA":            {TLS{CA: foreign.ca, Cert: f.cert, Key: f.key}, "127.0.0.1", nil, "unknown authority"},
		"the system's CAs":      {TLS{Cert: f.cert, Key: f.key}, "127.0.0.1", nil, "unknown authority"},
		"no client certificate": {TLS{CA: f.ca}, "127.0.0.1", early, "remote error: tls: "},
		"TLS 1.1":               {full, "127.0.0.1", old, "protocol version"},
		"no such file":          {TLS{CA: f.ca + "x"}, "127.0.0.1", nil, "no such file"},
		"no certificate":        {TLS{CA: f.key}, "127.0.0.1", nil, "it holds no PEM certificate"},
		"no pair":               {TLS{CA: f.ca, Cert: f.ca, Key: f.key}, "127.0.0.1", nil, "it is no certificate that goes with the key"},
	} {
		t.Run(name, func(t *testing.T) {
			server := secure(t, ca, clients, row.issued, row.change)
			got := get(t, sourceWith(t, Options{URL: parse(t, server.URL), TLS: &row.conf}))
			if !strings.Contains(got, row.want) {
				t.Errorf("%q, want %q", got, row.want)
			}
		})
	}
}

// Renewed files count for the next connection; half renewed ones for none.
func TestTLSReload(t *testing.T) {
	ca, clients := newAuthority(t, "servers"), newAuthority(t, "clients")
	f := newFiles(t)
	synctest.Test(t, func(t *testing.T) {
		s := sourceWith(t, Options{URL: parse(t, "https://server.test"), TLS: &TLS{CA: f.ca, Cert: f.cert, Key: f.key}})
		name := func() string {
			time.Sleep(time.Second)
			conf, err := s.tls.config()
			if err != nil {
				return err.Error()
			}
			leaf, err := x509.ParseCertificate(conf.Certificates[0].Certificate[0])
			if err != nil {
				t.Fatal(err)
			}
			return leaf.Subject.CommonName
		}
		if got := name(); !strings.Contains(got, "no such file") {
			t.Error(got)
		}
		cert, key := clients.issue("one")
		f.write(t, ca, cert, key)
		if got := name(); got != "one" {
			t.Error(got)
		}
		cert, key = clients.issue("two")
		write(t, f.cert, cert)
		if got := name(); got != "one" {
			t.Errorf("with half a pair: %s", got)
		}
		write(t, f.key, key)
		if got := name(); got != "two" {
			t.Error(got)
		}
		write(t, f.ca, "")
		if got := name(); got != "two" {
			t.Errorf("without a CA: %s", got)
		}
	})
}

// A private CA also verifies the authorization servers, beside the system's.
func TestCAOfTokenEndpoint(t *testing.T) {
	ca := newAuthority(t, "private")
	f := newFiles(t)
	write(t, f.ca, ca.pem)
	p := newIDP(t)
	cert, key := ca.issue("127.0.0.1")
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	if err != nil {
		t.Fatal(err)
	}
	endpoint := httptest.NewUnstartedServer(p)
	endpoint.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	endpoint.Config.ErrorLog = log.New(io.Discard, "", 0)
	endpoint.StartTLS()
	defer endpoint.Close()
	a := newAPI(t, newTokens())
	for _, row := range []struct {
		tls  *TLS
		want string
	}{{&TLS{CA: f.ca}, "200"}, {nil, "unknown authority"}} {
		conf := oauth()
		conf.TokenURL = endpoint.URL + "/token"
		s := sourceWith(t, Options{URL: parse(t, a.URL), TLS: row.tls, Auth: &Auth{OAuth: conf}})
		if got := call(t, s, ""); !strings.Contains(got, row.want) {
			t.Errorf("%q, want %q", got, row.want)
		}
	}
}

// Through an egress a request is plain and names the server; what belongs to the
// server's own origin goes there too, and nothing else does.
func TestEgress(t *testing.T) {
	p := newIDP(t)
	var hosts []string
	a := newAPI(t, asked(""))
	inner := a.Config.Handler
	a.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hosts = append(hosts, r.Host+r.URL.Path)
		inner.ServeHTTP(w, r)
	})
	a.documents["/.well-known/oauth-protected-resource/mcp"] = fmt.Sprintf(`{"resource":"https://mcp.example.com/mcp","authorization_servers":[%q]}`, p.URL)
	conf := oauth()
	conf.Issuer = p.URL // the server itself may not name an address here
	s := sourceWith(t, Options{URL: parse(t, "https://mcp.example.com/mcp"), Egress: parse(t, a.URL), Auth: &Auth{OAuth: conf}})
	if got := call(t, s, ""); got != "200" {
		t.Error(got)
	}
	for _, host := range hosts {
		if !strings.HasPrefix(host, "mcp.example.com/") {
			t.Errorf("%q", hosts)
		}
	}
	if len(hosts) != 3 || len(p.requests()) != 1 {
		t.Errorf("%q, %d token requests", hosts, len(p.requests()))
	}
}
