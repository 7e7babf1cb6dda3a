package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/tidwall/gjson"
)

// askCommand is what `helm test` runs: a real completion through Envoy, with no
// other program in the image.
type askCommand struct {
	URL      string        `required:"" placeholder:"URL" help:"The base URL that applications use, such as http://127.0.0.1:10000/v1."`
	Host     string        `placeholder:"HOST" help:"The Host header, for routes that are for a hostname (default: of the URL)."`
	Model    string        `required:"" placeholder:"MODEL" help:"The provider's model."`
	KeyEnv   string        `placeholder:"NAME" help:"The environment variable with the provider's key."`
	Wait     time.Duration `default:"0s" placeholder:"TIME" help:"How long to try again while there is no connection, or a 503."`
	Timeout  time.Duration `default:"5m" placeholder:"TIME" help:"How long an answer may take (default: ${default})."`
	Question string        `arg:"" help:"What to ask."`
}

// errNotThrough is a completion that the service has not touched.
var errNotThrough = errors.New("the answer came, but not through mcp-via-llm: the filter is off on this route, or no tools were offered; see /debug/servers of the service")

func (c *askCommand) Run(out output) error {
	body, err := c.ask()
	if err != nil {
		return err
	}
	answer := gjson.GetBytes(body, "choices.0.message.content").String()
	if answer == "" {
		return fmt.Errorf("the completion has no text: %s", body)
	}
	extension := gjson.GetBytes(body, "extensions.mcp_via_llm")
	fmt.Fprintln(out.stdout, answer)
	if !extension.Exists() {
		return fmt.Errorf("%w\n200 OK: %.4000s", errNotThrough, bytes.TrimSpace(body))
	}
	fmt.Fprintf(out.stdout, "(rounds: %d, MCP tools called: %s)\n", extension.Get("iterations").Int(), extension.Get("mcp_tools_called").Raw)
	if away := extension.Get("servers_unavailable").Array(); len(away) > 0 {
		fmt.Fprintf(out.stderr, "MCP servers that are not available: %v\n", away)
	}
	return nil
}

// ask sends the question until there is an answer, for at most c.Wait.
func (c *askCommand) ask() ([]byte, error) {
	deadline := time.Now().Add(c.Wait)
	for {
		status, body, err := c.send()
		if err == nil && status == http.StatusOK {
			return body, nil
		}
		if err == nil {
			err = c.refusal(status, body)
		}
		if status != 0 && status != http.StatusServiceUnavailable || time.Now().After(deadline) {
			return nil, err
		}
		time.Sleep(time.Second)
	}
}

// refusal tells of an answer that is none; Envoy's own often have no body.
func (c *askCommand) refusal(status int, body []byte) error {
	said := cmp.Or(string(bytes.TrimSpace(body)), "(no body)")
	if status == http.StatusNotFound {
		said += "; where the route is for a hostname, --host must name it (test.host in the chart)"
	}
	return fmt.Errorf("%s answered %d %s: %s", c.URL, status, http.StatusText(status), said)
}

// send gives status 0 where there was no answer.
func (c *askCommand) send() (int, []byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), c.Timeout)
	defer cancel()
	body, err := json.Marshal(map[string]any{"model": c.Model, "messages": []any{map[string]string{"role": "user", "content": c.Question}}})
	if err != nil {
		return 0, nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(c.URL, "/")+"/chat/completions", bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	request.Host = cmp.Or(c.Host, request.Host)
	request.Header.Set("Content-Type", "application/json")
	if c.KeyEnv != "" {
		request.Header.Set("Authorization", "Bearer "+os.Getenv(c.KeyEnv))
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, 32<<20))
	return response.StatusCode, answer, err
}
