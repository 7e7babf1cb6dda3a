package mcp

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// heard is one message that a scripted server got.
type heard struct {
	key    string // what the script answers by: "POST initialize", "GET", "POST answer" for a response
	id     string // raw JSON
	body   string
	header http.Header
}

func (m heard) get(path string) gjson.Result { return gjson.Get(m.body, path) }

// script is an HTTP server that a test writes. What the test does not answer, it
// answers as a small server of 2025-11-25 with sessions and the tools run and pure.
type script struct {
	*front
	version string

	mu  sync.Mutex
	got []heard
	on  map[string]func(w http.ResponseWriter, r *http.Request, m heard)
}

func newScript(t *testing.T) *script {
	s := &script{version: legacyVersion, on: map[string]func(http.ResponseWriter, *http.Request, heard){}}
	s.front = serve(t, s)
	return s
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	m := heard{key: r.Method, id: gjson.GetBytes(body, "id").Raw, body: string(body), header: r.Header}
	if r.Method == http.MethodPost {
		method := gjson.GetBytes(body, "method").String()
		if method == "" {
			method = "answer"
		}
		m.key += " " + method
	}
	s.mu.Lock()
	s.got = append(s.got, m)
	do := s.on[m.key]
	s.mu.Unlock()
	if do == nil {
		do = s.small
	}
	do(w, r, m)
}

// answer sets what to do with a kind of message.
func (s *script) answer(key string, do func(w http.ResponseWriter, r *http.Request, m heard)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on[key] = do
}

func (s *script) small(w http.ResponseWriter, _ *http.Request, m heard) {
	switch m.key {
	case "POST initialize":
		w.Header().Set(headerSession, "s-1")
		result(w, m, `{"protocolVersion":"`+s.version+`","capabilities":{"tools":{}},"serverInfo":{"name":"o","version":"1"}}`)
	case "POST tools/list":
		result(w, m, `{"tools":[{"name":"run","inputSchema":{"type":"object"}},{"name":"pure","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]}`)
	case "POST tools/call":
		result(w, m, `{"content":[{"type":"text","text":"done"}]}`)
	case "POST ping":
		result(w, m, `{}`)
	case "GET", "DELETE":
		w.WriteHeader(http.StatusMethodNotAllowed)
	default:
		if m.id == "" || m.key == "POST answer" {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"method not found"}}`, m.id)
	}
}

func result(w http.ResponseWriter, m heard, result string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.id, result)
}

// event sends one event of a stream.
func event(w http.ResponseWriter, data string) {
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "data: %s\n\n", data)
	w.(http.Flusher).Flush()
}

// all are the messages of a kind so far.
func (s *script) all(key string) []heard {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.got), func(m heard) bool { return m.key != key })
}

// await gives the first message of a kind, when it is there.
func (s *script) await(t *testing.T, key string) heard {
	t.Helper()
	var all []heard
	eventually(t, key, func() bool { all = s.all(key); return len(all) > 0 })
	return all[0]
}

// modern makes the script a server of 2026-07-28, without initialize.
func (s *script) modern() *script {
	s.answer("POST server/discover", func(w http.ResponseWriter, _ *http.Request, m heard) {
		result(w, m, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":1000}`)
	})
	s.answer("POST initialize", func(w http.ResponseWriter, _ *http.Request, m heard) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"initialize was removed"}}`, m.id)
	})
	return s
}

// Variables of a scripted stdio server, see runLines.
const (
	linesScript = "LINES_SCRIPT"
	linesSeen   = "LINES_SEEN"
)

// lines configures a stdio server that answers by a script: for each method the
// lines that it prints, in which ID stands for the request's id, and NAME-ID for that of
// the last call of the tool NAME. A key may be a method and a tool's name, or a space
// and the id that an answer is for. seen gives what it read so far.
func lines(t *testing.T, name string, script map[string][]string) (cfg Server, seen func() []heard) {
	t.Helper()
	file := t.TempDir() + "/seen"
	text, err := json.Marshal(script)
	if err != nil {
		t.Fatal(err)
	}
	return stdioConfig(name, "lines", linesScript+"="+string(text), linesSeen+"="+file), func() (all []heard) {
		data, _ := os.ReadFile(file)
		for line := range strings.Lines(string(data)) {
			all = append(all, heard{key: gjson.Get(line, "method").String(), id: gjson.Get(line, "id").Raw, body: line})
		}
		return all
	}
}

// runLines is the main function of a scripted stdio server. The line "exit" ends it,
// "giant" prints an answer over the size limit.
func runLines() {
	var script map[string][]string
	if err := json.Unmarshal([]byte(os.Getenv(linesScript)), &script); err != nil {
		panic(err)
	}
	seen, err := os.OpenFile(os.Getenv(linesSeen), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	in := bufio.NewScanner(os.Stdin)
	ids := []string{}
	for in.Scan() {
		line := in.Text()
		fmt.Fprintln(seen, line)
		method, id := gjson.Get(line, "method").String(), gjson.Get(line, "id").Raw
		of := id
		if name := gjson.Get(line, "params.name").String(); name != "" {
			of, ids = name, append([]string{name + "-ID", id}, ids...)
		}
		answer, ok := script[method+" "+of]
		if !ok {
			answer, ok = script[method]
		}
		switch {
		case ok:
		case method == "initialize":
			answer = []string{`{"jsonrpc":"2.0","id":ID,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"l","version":"1"}}}`}
		case method == "tools/list":
			answer = []string{`{"jsonrpc":"2.0","id":ID,"result":{"tools":[{"name":"run","inputSchema":{"type":"object"}},{"name":"other","inputSchema":{"type":"object"}}]}}`}
		case method == "tools/call":
			answer = []string{`{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"done"}]}}`}
		case id != "" && method != "":
			answer = []string{`{"jsonrpc":"2.0","id":ID,"error":{"code":-32601,"message":"method not found"}}`}
		}
		for _, text := range answer {
			switch text {
			case "exit":
				os.Exit(3)
			case "pause":
				time.Sleep(100 * time.Millisecond)
				continue
			case "giant":
				fmt.Print(`{"result":{"content":[{"type":"text","text":"`)
				block := strings.Repeat("x", 1<<20)
				for range maxMessage>>20 + 10 {
					fmt.Print(block)
				}
				text = `"}]},"jsonrpc":"2.0","id":ID}`
			}
			fmt.Println(strings.NewReplacer(append(ids, "ID", id)...).Replace(text))
		}
	}
}
