package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// byHand makes the exchanges of a turn one after the other, as a client would that had its tools itself: the floor of
// any loop. base says where the LLM is asked.
func byHand(client *http.Client, base string, session *mcp.ClientSession, p plan) operation {
	return func(ctx context.Context) (sample, error) {
		body := p.request(nonces.Add(1))
		start := time.Now()
		var s sample
		for round := 0; ; round++ {
			wanted := echoTool
			if round == p.Rounds {
				wanted = final
			}
			var err error
			if s, err = exchange(ctx, client, base, body, wanted); err != nil {
				return s, err
			}
			if round == p.Rounds {
				break
			}
			if err := callEcho(ctx, session, round, p.SlowMS); err != nil {
				return s, err
			}
			body = withResult(body, round)
		}
		s.total = time.Since(start)
		return s, nil
	}
}

func callEcho(ctx context.Context, session *mcp.ClientSession, round, ms int) error {
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "echo", Arguments: echoArguments{Text: fmt.Sprintf("round %d", round), MS: ms}})
	if err == nil && result.IsError {
		err = fmt.Errorf("the tool failed")
	}
	return err
}

// onlyTool is the MCP part of a round.
func onlyTool(session *mcp.ClientSession) operation {
	return func(ctx context.Context) (sample, error) {
		start := time.Now()
		err := callEcho(ctx, session, 0, 0)
		return sample{total: time.Since(start)}, err
	}
}

// withResult puts a call and its result at the end of the messages.
func withResult(body []byte, round int) []byte {
	at := len(body) - len("]}")
	added := fmt.Sprintf(`,{"role":"assistant","content":null,"tool_calls":[{"id":"r%d","type":"function","function":{"name":%q,"arguments":"{\"text\":\"round %d\",\"ms\":0}"}}]},`+
		`{"role":"tool","tool_call_id":"r%d","content":"round %d"}`, round, echoTool, round, round, round)
	return append(append(append(make([]byte, 0, len(body)+len(added)), body[:at]...), added...), body[at:]...)
}

func connectMCP(ctx context.Context, endpoint string, connections int) (*mcp.ClientSession, error) {
	client := mcp.NewClient(&mcp.Implementation{Name: "floor", Version: "1"}, nil)
	return client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: endpoint, HTTPClient: newClient(connections), DisableStandaloneSSE: true}, nil)
}
