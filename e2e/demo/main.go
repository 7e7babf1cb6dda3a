// Demo shows the whole at work: it starts Envoy, the service and an MCP server, asks a question as curl and as an
// OpenAI SDK, and prints what happened inside. Without -llm the model is a scripted one, so no key is needed. The
// environment variable ASK holds another question.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/e2e/rig"
)

const startLimit = 2 * time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var o options
	flag.StringVar(&o.llm, "llm", "", "base `URL` of an OpenAI-compatible LLM, such as http://127.0.0.1:11434/v1; empty: a scripted one")
	flag.StringVar(&o.model, "model", "", "the model's `name`; empty: the only one that the LLM lists")
	flag.StringVar(&o.keyEnv, "key-env", "", "`name` of the environment variable that holds the LLM's key")
	flag.StringVar(&o.config, "config", "", "a configuration `file` with your own servers and clients")
	flag.BoolVar(&o.keep, "keep", false, "leave everything running until interrupted")
	flag.Parse()
	o.ask = cmp.Or(os.Getenv("ASK"), "What is 5 plus 7?")
	if err := run(ctx, o); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	dir, err := os.MkdirTemp("", "mcp-via-llm-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := o.complete(ctx); err != nil {
		return err
	}
	start, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	settings, err := o.rig(dir)
	if err != nil {
		return err
	}
	began := time.Now()
	r, err := rig.Start(start, settings)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	o.introduce(r, time.Since(began))
	if err := o.askAll(ctx, r); err != nil {
		return fmt.Errorf("%w\n%s", err, r.Logs())
	}
	if !o.keep {
		fmt.Println("\nStopped everything again. KEEP=1 leaves it running; LLM=http://host/v1 asks a real model.")
		return nil
	}
	return watch(ctx, r)
}

// introduce says what runs where.
func (o options) introduce(r *rig.Rig, took time.Duration) {
	model := "a scripted stand-in that can add only by a tool"
	if o.llm != "" {
		model = o.model + " at " + o.llm
	}
	fmt.Printf("\nRunning, after %v:\n", took.Round(time.Millisecond))
	fmt.Printf("  Envoy    %s   what applications call\n", r.URL)
	fmt.Printf("  service  %s   its admin page\n", r.Admin)
	fmt.Printf("  LLM      %s\n", model)
	fmt.Printf("  config   %s\n", o.configName())
}

// askAll asks the question in four ways, each an ordinary request that knows nothing of MCP.
func (o options) askAll(ctx context.Context, r *rig.Rig) error {
	ways := []struct {
		title string
		ask   func(context.Context, *rig.Rig, bool) error
		live  bool
	}{
		{"A plain curl", o.curl, false},
		{"A plain curl, streamed", o.curl, true},
		{"The official OpenAI SDK for Go", o.sdk, false},
		{"The official OpenAI SDK for Go, streamed", o.sdk, true},
	}
	for _, way := range ways {
		headline(way.title)
		if err := way.ask(ctx, r, way.live); err != nil {
			return err
		}
	}
	turns, err := turns(ctx, r)
	if err != nil {
		return err
	}
	headline("What happened inside (" + r.Admin + "/debug/turns)")
	for _, turn := range turns {
		printTurn(os.Stdout, turn)
	}
	return nil
}

func headline(title string) { fmt.Printf("\n%s\n%s\n", title, strings.Repeat("-", len(title))) }

// watch prints each turn as it ends, until ctx does.
func watch(ctx context.Context, r *rig.Rig) error {
	fmt.Printf("\nEverything keeps running: point any OpenAI client at %s/v1 . Ctrl-C ends it. Turns appear here:\n", r.URL)
	known, err := turns(ctx, r)
	if err != nil {
		return err
	}
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			fmt.Println("\nStopping.")
			return nil
		case <-r.Envoy.Done():
			return fmt.Errorf("Envoy ended by itself:\n%s", r.Envoy.Log())
		case <-r.Service.Done():
			return fmt.Errorf("the service ended by itself:\n%s", r.Service.Log())
		case <-tick.C:
		}
		all, err := turns(ctx, r)
		if err != nil {
			continue // busy, or just ending: the next tick tells
		}
		for _, turn := range newer(all, known) {
			printTurn(os.Stdout, turn)
		}
		known = all
	}
}
