package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
)

// startEnvoy runs a real Envoy with what `envoy-config` prints.
func startEnvoy(t *testing.T, configFile, admin string) {
	t.Helper()
	envoy := os.Getenv("ENVOY_BIN")
	if envoy == "" {
		envoy = filepath.Join("..", "..", ".tools", "envoy", "1.40.0", "bin", "envoy")
	}
	if _, err := os.Stat(envoy); err != nil {
		t.Fatalf("no Envoy at %s: run make tools", envoy)
	}
	code, bootstrap, stderr := command(t, "envoy-config", "--config", configFile)
	if code != 0 {
		t.Fatal(stderr)
	}
	file := filepath.Join(t.TempDir(), "envoy.yaml")
	put(t, file, bootstrap)
	var log bytes.Buffer
	cmd := exec.Command(envoy, "-c", file, "--concurrency", "1", "--disable-hot-restart", "--log-level", "warning")
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill() //nolint:errcheck // usually still running
		cmd.Wait()         //nolint:errcheck // killed
		if t.Failed() {
			t.Logf("Envoy printed:\n%s", &log)
		}
	})
	eventually(t, "Envoy is ready", func() bool { return statusOf("http://"+admin+"/ready") == http.StatusOK })
}

// addresses are free on loopback.
func addresses(t *testing.T, n int) []string {
	t.Helper()
	var all []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		all = append(all, l.Addr().String())
	}
	return all
}

// A loop listener that has the filter, as a wrong llm.loop_url makes it, gives a
// clear error and no loop.
func TestWrongLoopURL(t *testing.T) {
	base, requests := provider(t, "calc__add", `{"a":5,"b":7}`)
	a := addresses(t, 5)
	path := writeConfig(t, fmt.Sprintf(`
listen: {ext_proc: %q, admin: "127.0.0.1:0"}
llm: {loop_url: "http://%s", base_url: %q}
servers: {calc: %s}
envoy: {main: %q, loop: %q, mcp_egress: %q, admin: %q}
`, a[0], a[1], base, stdioServer(), a[1], a[2], a[3], a[4]))
	start(t, path)
	startEnvoy(t, path, a[4])
	code, body := ask(t, &service{http: "http://" + a[1]})
	if code != http.StatusLoopDetected || gjson.Get(body, "error.code").String() != "loop_detected" || !strings.Contains(body, "llm.loop_url") {
		t.Errorf("%d %s", code, body)
	}
	if requests.Load() != 1 {
		t.Errorf("%d requests at the provider, want 1", requests.Load())
	}
}

// With mTLS, Envoy's certificate is taken and a caller without one is not; the
// health of the gRPC server follows the service's life.
func TestMutualTLS(t *testing.T) {
	base, _ := provider(t, "calc__add", `{"a":5,"b":7}`)
	a := addresses(t, 5)
	ca, cert, key := certificate(t)
	path := writeConfig(t, fmt.Sprintf(`
listen: {ext_proc: %q, admin: "127.0.0.1:0", tls: {cert: %q, key: %q, client_ca: %q}}
llm: {loop_url: "http://%s", base_url: %q}
servers: {calc: %s}
envoy: {main: %q, mcp_egress: %q, admin: %q, service_tls: {cert: %q, key: %q, ca: %q}}
`, a[0], cert, key, ca, a[2], base, stdioServer(), a[1], a[3], a[4], cert, key, ca))
	s := start(t, path)
	startEnvoy(t, path, a[4])
	if code, body := ask(t, &service{http: "http://" + a[1]}); code != 200 || gjson.Get(body, "choices.0.message.content").String() != "12" {
		t.Errorf("%d %s", code, body)
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(ca)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	known := credentials.NewTLS(&tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}})
	for _, name := range []string{"", "envoy.service.ext_proc.v3.ExternalProcessor"} {
		if got, err := checkHealth(t, s.extProc, known, name); got != healthv1.HealthCheckResponse_SERVING {
			t.Errorf("health of %q: %v, %v", name, got, err)
		}
	}
	for name, creds := range map[string]credentials.TransportCredentials{
		"without a certificate": credentials.NewTLS(&tls.Config{RootCAs: roots}),
		"in plain text":         insecure.NewCredentials(),
	} {
		if _, err := checkHealth(t, s.extProc, creds, ""); err == nil {
			t.Errorf("served %s", name)
		}
	}
}

// Through the egress listener an HTTP MCP server is found by the authority of its
// URL, which it sees as the host.
func TestMCPEgress(t *testing.T) {
	base, _ := provider(t, "web__add", `{"a":5,"b":7}`)
	seen := make(chan http.Header, 1)
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return toolServer() }, nil)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := r.Header.Clone()
		header.Set("Host", r.Host)
		select {
		case seen <- header:
		default:
		}
		handler.ServeHTTP(w, r)
	}))
	defer web.Close()
	beside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Request-Id") != "" {
			t.Error("a server that is dialled directly is reached through Envoy")
		}
		handler.ServeHTTP(w, r)
	}))
	defer beside.Close()
	a := addresses(t, 5)
	path := writeConfig(t, fmt.Sprintf(`
listen: {ext_proc: %q, admin: "127.0.0.1:0"}
llm: {loop_url: "http://%s", base_url: %q}
servers: {web: {url: "%s/mcp", optional: false}, beside: {url: "%s/mcp", optional: false, egress: false}}
envoy: {main: %q, mcp_egress: %q, use_mcp_egress: true, admin: %q}
`, a[0], a[2], base, web.URL, beside.URL, a[1], a[3], a[4]))
	if code, bootstrap, errs := command(t, "envoy-config", "--config", path); code != 0 || strings.Contains(bootstrap, strings.TrimPrefix(beside.URL, "http://")) {
		t.Errorf("Envoy is told of a server that is not behind it: %d %s%s", code, bootstrap, errs)
	}
	if code, _, errs := command(t, "tools", "--config", path); code != 1 || !strings.Contains(errs, `server "web" is not available`) || strings.Contains(errs, `"beside" is not`) {
		t.Errorf("without Envoy: %d %s", code, errs)
	}
	startEnvoy(t, path, a[4])
	if code, table, errs := command(t, "tools", "--config", path); code != 0 || !strings.Contains(table, "web__add") || !strings.Contains(table, "beside__add") {
		t.Errorf("with Envoy: %d %s%s", code, table, errs)
	}
	s := start(t, path)
	if code, body := ask(t, &service{http: "http://" + a[1]}); code != 200 || gjson.Get(body, "choices.0.message.content").String() != "12" {
		t.Errorf("%d %s", code, body)
	}
	if header := <-seen; "http://"+header.Get("Host") != web.URL || header.Get("X-Request-Id") == "" {
		t.Errorf("the server saw %v, want its own host and Envoy's request id", header)
	}
	s.stop(t) // while the server still takes the end of the session
}

// What a client tells the service reaches it through Envoy, and the provider on no
// way: not by the route with the filter, nor by another, nor past a service that is
// down. The provider of the rig looks for the headers.
func TestHeadersForTheServiceAlone(t *testing.T) {
	base, requests := provider(t, "twin__add", `{"a":5,"b":7}`)
	a := addresses(t, 5)
	path := writeConfig(t, fmt.Sprintf(`
listen: {ext_proc: %q, admin: "127.0.0.1:0"}
llm: {loop_url: "http://%s", base_url: %q}
servers: {calc: %s, twin: %s}
envoy: {main: %q, mcp_egress: %q, admin: %q, failure_mode_allow: true}
`, a[0], a[2], base, stdioServer(), stdioServer(), a[1], a[3], a[4]))
	s := start(t, path)
	startEnvoy(t, path, a[4])
	front := &service{http: "http://" + a[1]}
	content := func(headers ...string) string {
		code, body := ask(t, front, headers...)
		if code != http.StatusOK {
			t.Errorf("%q: %d %s", headers, code, body)
		}
		return gjson.Get(body, "choices.0.message.content").String()
	}
	if got := content("x-mcp-servers: twin", "x-mcp-session: s"); got != "12" {
		t.Errorf("with the server: %q", got)
	}
	if got := content("x-mcp-servers: calc"); !strings.Contains(got, `no function "twin__add"`) {
		t.Errorf("narrowed to another server: %q", got)
	}
	if got := content("x-mcp-via-llm: off", "x-mcp-servers: twin"); got != "hi" {
		t.Errorf("switched off: %q", got)
	}
	for _, name := range []string{"x-mcp-via-llm", "x-mcp-servers", "x-mcp-session"} {
		request, err := http.NewRequest(http.MethodGet, front.http+"/v1/models", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set(name, "twin")
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
	}
	s.stop(t)
	before := requests.Load()
	if got := content("x-mcp-servers: twin", "x-mcp-session: s", "x-mcp-via-llm: on"); got != "hi" || requests.Load() != before+1 {
		t.Errorf("while the service is down: %q", got)
	}
}

func checkHealth(t *testing.T, address string, creds credentials.TransportCredentials, name string) (healthv1.HealthCheckResponse_ServingStatus, error) {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(creds))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	got, err := healthv1.NewHealthClient(conn).Check(t.Context(), &healthv1.HealthCheckRequest{Service: name})
	return got.GetStatus(), err
}

// certificate makes one for 127.0.0.1 that is its own CA, as files.
func certificate(t *testing.T) (ca, cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	put(t, cert, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	put(t, key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})))
	return cert, cert, key
}

// In static mode, with a base path other than /v1.
func TestStaticModeAndBasePath(t *testing.T) {
	base, requests := provider(t, "calc__add", `{"a":5,"b":7}`)
	a := addresses(t, 5)
	path := writeConfig(t, fmt.Sprintf(`
listen: {ext_proc: %q, admin: "127.0.0.1:0"}
llm: {loop_url: "http://%s", base_url: %q}
servers: {calc: %s}
envoy: {main: %q, mcp_egress: %q, admin: %q, mode: static}
`, a[0], a[2], base, stdioServer(), a[1], a[3], a[4]))
	start(t, path)
	startEnvoy(t, path, a[4])
	if code, body := ask(t, &service{http: "http://" + a[1]}); code != 200 || gjson.Get(body, "choices.0.message.content").String() != "12" || requests.Load() != 2 {
		t.Errorf("%d %s, %d requests", code, body, requests.Load())
	}
	response, err := client.Get("http://" + a[1] + "/v1/models")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, err := io.ReadAll(response.Body); err != nil || string(body) != `{"path":"/base/models"}` {
		t.Errorf("another path: %s, %v", body, err)
	}
}
