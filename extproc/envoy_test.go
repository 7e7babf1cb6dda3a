package extproc

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// matrix is what the adapter is shown to work with.
var matrix = []flavour{
	{"1.40.0", "override"},
	{"1.40.0", "override" + chunked}, // what Envoy Gateway makes
	{"1.40.0", "static"},
	{"1.40.0", "static-early"},
	{"1.39.3", "static"},
	{"1.38.3", "static"},
	{"1.37.0", "static"},
	{"1.37.0", "static-early"},
}

// TestEnvoy runs every scenario on every flavour of a real Envoy.
func TestEnvoy(t *testing.T) {
	scenarios := []struct {
		name string
		run  func(*testing.T, *rig)
	}{
		{"copying changes nothing", testCopyIdentical},
		{"a refused request passes untouched", testPass},
		{"mutated bodies arrive once", testMutatedBodies},
		{"30 MB both ways", testLargeBothWays},
		{"a body of unknown length streams", testStreamedRequest},
		{"request trailers", testRequestTrailers},
		{"response trailers", testResponseTrailers},
		{"a request without a body", testBareRequest},
		{"an upstream that answers early", testEarlyUpstream},
		{"messages are flushed one by one", testFlushed},
		{"the answer outlives the upstream and the route timeout", testLongAnswer},
		{"held headers, changed status", testChangedStatus},
		{"several values of a header", testSeveralValues},
		{"an upstream response without a body gets one", testBareResponse},
		{"an answer before the first round trip", testImmediateStreamed},
		{"an answer while the client still sends", testImmediateEarly},
		{"an answer while the upstream hangs", testAnswerWhilePending},
		{"headers long before the body", testEarlyHead},
		{"headers and never a body", testEarlyHeadOnly},
		{"a dead upstream", testDeadUpstream},
		{"Envoy's idle timeout", testIdleTimeout},
		{"routing headers stay", testRoutingHeaders},
		{"later round trips use the loop listener", testLoop},
		{"a looped request is recognised", testLooped},
		{"attributes and metadata", testInfo},
		{"the handler panics", testPanics},
		{"the client leaves", testDisconnect},
		{"the service is down", testServiceDown},
		{"the service shuts down", testShutdown},
		{"the service dies", testServiceDies}, // stops the rig's server: last
	}
	for _, f := range matrix {
		t.Run(f.String(), func(t *testing.T) {
			r := newRig(t, f, rigOptions{})
			for _, s := range scenarios {
				t.Run(s.name, func(t *testing.T) {
					r.on(copyHandler, upstreamOK)
					s.run(t, r)
				})
			}
			r.clean(t)
		})
	}
}

// seen is what an upstream saw of a request.
type seen struct {
	Method, Path, Host string
	Length             int64
	Header             http.Header
	Sum                string
	Size               int
	Trailer            http.Header
}

func observeRequest(r *http.Request) (seen, []byte) {
	body, err := io.ReadAll(r.Body)
	s := seen{r.Method, r.RequestURI, r.Host, r.ContentLength, r.Header.Clone(), sum(body), len(body), r.Trailer}
	if err != nil {
		s.Sum = err.Error()
	}
	delete(s.Header, "X-Request-Id")
	return s, body
}

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

// echoSeen answers with what it saw.
func echoSeen(w http.ResponseWriter, r *http.Request) {
	s, _ := observeRequest(r)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(s)
}

func (r *rig) do(t testing.TB, method, path string, body io.Reader, header http.Header) (*http.Response, []byte) {
	t.Helper()
	resp, b, err := r.try(r.client, method, path, body, header)
	if err != nil {
		t.Fatal(err)
	}
	return resp, b
}

// try is do for goroutines, which must not end the test.
func (r *rig) try(client *http.Client, method, path string, body io.Reader, header http.Header) (*http.Response, []byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, r.url(path), body)
	if err != nil {
		return nil, nil, err
	}
	for key, values := range header {
		req.Header[key] = values
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, nil, fmt.Errorf("%s after %d bytes: %w", resp.Status, len(b), err)
	}
	return resp, b, nil
}

func decodeSeen(t testing.TB, b []byte) seen {
	t.Helper()
	var s seen
	if err := json.Unmarshal(b, &s); err != nil {
		t.Fatalf("%v in %q", err, b)
	}
	return s
}

// testCopyIdentical compares, byte for byte, what goes through the filter with
// what goes through the loop listener, which has none.
func testCopyIdentical(t *testing.T, r *rig) {
	var mu sync.Mutex
	var requests []string
	r.on(copyHandler, func(w http.ResponseWriter, req *http.Request) {
		s, body := observeRequest(req)
		delete(s.Header, "X-Forwarded-Proto")
		mu.Lock()
		requests = append(requests, fmt.Sprintf("%+v %s", s, body))
		mu.Unlock()
		w.Header()["X-Odd"] = []string{"b ", "a", ""}
		w.Header()["Set-Cookie"] = []string{"a=1", "b=2"}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, "{\"big\":12345678901234567890, \"e\":\"\\u00e9\"}\n\x00\xff")
	})
	raw := "POST /v1/chat/completions?x=%2F&y HTTP/1.1\r\nHost: llm.example\r\nX-Multi: b\r\nX-Multi: a\r\n" +
		"Authorization: Bearer k\r\nCookie: a=1; b=2\r\nAccept-Encoding: gzip\r\nContent-Length: 13\r\n" +
		"Connection: close\r\n\r\n{\"a\": 1 ,\t2}\n"
	through, direct := rawRequest(t, r.addr("main"), raw), rawRequest(t, r.addr("loop"), raw)
	if !r.contentLength() {
		through, direct = body(through), body(direct)
	}
	if !r.contentLength() && r.filter() != "override" {
		// Envoy then removes content-length in full duplex, if that is the filter's own mode.
		requests[0] = strings.Replace(requests[0], "Length:-1", "Length:13", 1)
		requests[1] = strings.Replace(requests[1], "Content-Length:[13] ", "", 1)
	}
	if got, want := withoutDate(through), withoutDate(direct); got != want {
		t.Errorf("through the filter:\n%q\nwithout:\n%q", got, want)
	}
	if requests[0] != requests[1] {
		t.Errorf("the upstream saw\n%s\nwithout the filter\n%s", requests[0], requests[1])
	}
}

func body(raw string) string {
	resp, err := http.ReadResponse(newReader(raw), nil)
	if err != nil {
		return err.Error()
	}
	b, _ := io.ReadAll(resp.Body)
	return fmt.Sprint(resp.Status, resp.Header["X-Odd"], resp.Header["Set-Cookie"], string(b))
}

func withoutDate(raw string) string {
	var lines []string
	for line := range strings.Lines(raw) {
		if !strings.HasPrefix(line, "date:") && !strings.HasPrefix(line, "x-envoy-upstream-service-time:") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

func testPass(t *testing.T, r *rig) {
	r.on(func(http.ResponseWriter, *http.Request) { t.Error("the handler ran") }, echoSeen)
	for _, size := range []int{0, 5, 130 << 10, 3 << 20} {
		content := bytes.Repeat([]byte("x"), size)
		_, b := r.do(t, "POST", "/p", bytes.NewReader(content), http.Header{
			"X-Match": {"no"}, "X-Secret": {"s"}, "X-Mcp-Via-Llm-Hop": {"forged.00"}})
		s := decodeSeen(t, b)
		if s.Sum != sum(content) || len(s.Header["X-Secret"])+len(s.Header["X-Mcp-Via-Llm-Hop"]) != 0 || s.Header.Get("X-Match") != "no" {
			t.Errorf("%d bytes: upstream saw %+v", size, s)
		}
	}
	r.on(copyHandler, upstreamOK)
}

// testMutatedBodies: each body grows, arrives once, whole, with its length, by
// HTTP/1.1 and HTTP/2 on either side.
func testMutatedBodies(t *testing.T, r *rig) {
	r.on(func(w http.ResponseWriter, req *http.Request) {
		b, err := io.ReadAll(req.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		out := req.Clone(req.Context())
		out.Body = io.NopCloser(bytes.NewReader(append(b, "-mutated"...)))
		out.ContentLength = int64(len(b) + len("-mutated"))
		resp, err := Transport().RoundTrip(out)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer resp.Body.Close()
		copyResponse(w, resp)
	}, echoSeen)
	h2 := h2Client()
	defer h2.CloseIdleConnections()
	clients, paths := []*http.Client{r.client, h2}, []string{"/m", "/h2/m"}
	sizes := []int{10, 112, 4096, 16 << 10, 65535, 65536, 65537, 100_000, 300_000, 1 << 20, 1_500_000}
	var wg sync.WaitGroup
	limit := make(chan struct{}, 8)
	for i := range 4 * len(sizes) {
		wg.Go(func() {
			limit <- struct{}{}
			defer func() { <-limit }()
			rnd := rand.New(rand.NewPCG(1, uint64(i)))
			content := make([]byte, sizes[i%len(sizes)])
			for j := range content {
				content[j] = byte(rnd.Uint32())
			}
			_, b, err := r.try(clients[i/len(sizes)%2], "POST", paths[i/len(sizes)/2%2], &ragged{rest: content, rnd: rnd}, nil)
			var s seen
			if err == nil {
				err = json.Unmarshal(b, &s)
			}
			if err != nil {
				t.Error(err)
				return
			}
			want := append(content, "-mutated"...)
			if s.Sum != sum(want) || s.Size != len(want) {
				t.Errorf("body of %d: upstream saw %d bytes, %s", len(content), s.Size, s.Sum)
			}
			if r.contentLength() && s.Length != int64(len(want)) {
				t.Errorf("body of %d: content-length %d", len(content), s.Length)
			}
		})
	}
	wg.Wait()
}

// ragged is a body in writes of any size.
type ragged struct {
	rest []byte
	rnd  *rand.Rand
}

func (r *ragged) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), 1+r.rnd.IntN(40_000))], r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func testLargeBothWays(t *testing.T, r *rig) {
	r.on(copyHandler, func(w http.ResponseWriter, req *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		_, _ = io.Copy(w, req.Body)
	})
	content := bytes.Repeat([]byte("0123456789abcdef"), 30<<16)
	_, b := r.do(t, "POST", "/echo", bytes.NewReader(content), nil)
	if sum(b) != sum(content) {
		t.Errorf("%d bytes came back of %d", len(b), len(content))
	}
}
