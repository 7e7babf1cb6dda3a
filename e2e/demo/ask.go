package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/mcp-via-llm/mcp-via-llm/e2e/rig"
)

// chat is a request as one would type it.
type chat struct {
	Model    string    `json:"model"`
	Messages []message `json:"messages"`
	Stream   bool      `json:"stream,omitempty"`
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// curl prints a command and runs exactly it.
func (o options) curl(ctx context.Context, r *rig.Rig, stream bool) error {
	if _, err := exec.LookPath("curl"); err != nil {
		fmt.Println("curl is not installed here, so this part is left out.")
		return nil
	}
	flags := "-sS"
	if stream {
		flags = "-sSN"
	}
	data, err := json.Marshal(chat{o.model, []message{{"user", o.ask}}, stream})
	if err != nil {
		return err
	}
	command := fmt.Sprintf("curl %s %s/v1/chat/completions -H 'content-type: application/json'", flags, r.URL)
	if o.keyEnv != "" {
		command += fmt.Sprintf(` -H "authorization: Bearer $%s"`, o.keyEnv)
	}
	command += " -d " + quote(string(data))
	fmt.Printf("$ %s\n\n", command)
	run := exec.CommandContext(ctx, "sh", "-c", command)
	run.Stdout, run.Stderr = os.Stdout, os.Stderr
	if err := run.Run(); err != nil {
		return fmt.Errorf("curl: %w", err)
	}
	fmt.Println()
	return nil
}

// quote makes one word of s for a POSIX shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// sdk asks with the SDK, which is told nothing but another base URL.
func (o options) sdk(ctx context.Context, r *rig.Rig, stream bool) error {
	key := "none"
	if o.keyEnv != "" {
		key = os.Getenv(o.keyEnv)
	}
	client := openai.NewClient(option.WithBaseURL(r.URL+"/v1"), option.WithAPIKey(key))
	request := openai.ChatCompletionNewParams{
		Model:    o.model,
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(o.ask)},
	}
	fmt.Printf("client := openai.NewClient(option.WithBaseURL(%q))\n\n", r.URL+"/v1")
	if !stream {
		answer, err := client.Chat.Completions.New(ctx, request)
		if err != nil {
			return err
		}
		return printAnswer(answer)
	}
	chunks := client.Chat.Completions.NewStreaming(ctx, request)
	defer chunks.Close()
	var whole openai.ChatCompletionAccumulator
	for chunks.Next() {
		if !whole.AddChunk(chunks.Current()) {
			return errors.New("the SDK's accumulator refuses a chunk")
		}
	}
	if err := chunks.Err(); err != nil {
		return err
	}
	return printAnswer(&whole.ChatCompletion)
}

func printAnswer(answer *openai.ChatCompletion) error {
	if len(answer.Choices) == 0 {
		return errors.New("the answer has no choice")
	}
	choice := answer.Choices[0]
	fmt.Printf("%s   (finish_reason %s, %d tool calls to handle)\n", choice.Message.Content, choice.FinishReason, len(choice.Message.ToolCalls))
	return nil
}
