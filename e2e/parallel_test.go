package e2e

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/mcp-via-llm/mcp-via-llm/e2e/llm"
	"github.com/mcp-via-llm/mcp-via-llm/e2e/rig"
)

// ragged gives its text in pieces of random sizes: the body then goes out in chunks of those sizes.
type ragged struct {
	rest string
	rand *rand.Rand
}

func (r *ragged) Read(p []byte) (int, error) {
	if r.rest == "" {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), 1+r.rand.IntN(40_000))], r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// TestParallelTurns runs many turns at once, streamed and not, over HTTP/1.1 and HTTP/2, with bodies of all sizes in
// ragged writes: each gets the answer to its own question.
func TestParallelTurns(t *testing.T) {
	const workers, each = 8, 25
	on(t, all(), func(t *testing.T, v variant) {
		r := start(t, v, setup{config: addConfig(""), brain: llm.Calculator})
		var h2 http.Protocols
		h2.SetUnencryptedHTTP2(true)
		clients := []*http.Client{plainClient, {Transport: &http.Transport{Protocols: &h2, DisableCompression: true}}}
		var running sync.WaitGroup
		for worker := range workers {
			running.Go(func() {
				random := rand.New(rand.NewPCG(uint64(worker), 7))
				for n := range each {
					if err := sum(t.Context(), clients[worker%2], r, random, worker*1000+n); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		running.Wait()
		if n := len(r.LLM.Requests()); n != 2*workers*each {
			t.Errorf("the LLM got %d requests, want %d", n, 2*workers*each)
		}
	})
}

// sum asks for a + 1, with padding before the question.
func sum(ctx context.Context, client *http.Client, r *rig.Rig, random *rand.Rand, a int) error {
	ctx, cancel := context.WithTimeout(ctx, turnLimit)
	defer cancel()
	padding := strings.Repeat("x", 1<<random.IntN(20))
	body := fmt.Sprintf(`{"model":"m","stream":%v,"messages":[{"role":"system","content":"%s"},{"role":"user","content":"What is %d plus 1?"}]}`,
		random.IntN(2) == 0, padding, a)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL+"/v1/chat/completions", &ragged{body, random})
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	// Streamed text comes word by word.
	whole, streamed := fmt.Sprintf(`"%d plus 1 is %d."`, a, a+1), fmt.Sprintf(`"content":"%d."`, a+1)
	if text := string(data); response.StatusCode != 200 || !strings.Contains(text, whole) && !strings.Contains(text, streamed) {
		return fmt.Errorf("%d plus 1, %d bytes of body: status %d, %.500s", a, len(body), response.StatusCode, text)
	}
	return nil
}
