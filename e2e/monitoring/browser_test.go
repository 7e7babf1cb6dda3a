package monitoring_test

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// browser is a headless Chromium, driven by browser.mjs.
type browser struct {
	t       *testing.T
	in      io.Writer
	answers *bufio.Reader
}

func openBrowser(t *testing.T) *browser {
	t.Helper()
	chromium, modules := tools.Browser()
	cmd := exec.Command("node", "browser.mjs", modules, chromium)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var log strings.Builder
	cmd.Stderr = &log
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close() // it closes the browser and ends
		if err := cmd.Wait(); err != nil {
			t.Errorf("the browser's driver: %v\n%s", err, &log)
		}
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) //nolint:errcheck // fails if nothing is left, as it should be
	})
	b := &browser{t, in, bufio.NewReader(out)}
	var version string
	b.answer(&version)
	t.Log(version)
	return b
}

// do gives a command, and reads its answer into value, which may be nil.
func (b *browser) do(value any, command string, arguments map[string]any) {
	b.t.Helper()
	line := map[string]any{"do": command}
	for name, v := range arguments {
		line[name] = v
	}
	raw, err := json.Marshal(line)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.in.Write(append(raw, '\n')); err != nil {
		b.t.Fatal(err)
	}
	b.answer(value)
}

func (b *browser) answer(value any) {
	b.t.Helper()
	line, err := b.answers.ReadBytes('\n')
	if err != nil {
		b.t.Fatalf("the browser's driver ended: %v", err)
	}
	var answer struct {
		Value json.RawMessage
		Error string
	}
	if err := json.Unmarshal(line, &answer); err != nil {
		b.t.Fatalf("%v: %s", err, line)
	}
	if answer.Error != "" {
		b.t.Fatal(answer.Error)
	}
	if value == nil {
		return
	}
	if err := json.Unmarshal(answer.Value, value); err != nil {
		b.t.Fatalf("%v: %s", err, answer.Value)
	}
}

func (b *browser) open(url string) (status int) {
	b.t.Helper()
	b.do(&status, "open", map[string]any{"url": url})
	return status
}

// wait waits until an expression of JavaScript is true.
func (b *browser) wait(expression string) {
	b.t.Helper()
	b.do(nil, "wait", map[string]any{"expression": expression})
}

// eval gives the value of an expression.
func (b *browser) eval(value any, expression string) {
	b.t.Helper()
	b.do(value, "eval", map[string]any{"expression": expression})
}

func (b *browser) emulate(width int, dark, script bool) {
	b.t.Helper()
	b.do(nil, "emulate", map[string]any{"width": width, "height": 900, "dark": dark, "script": script})
}

// shoot takes a picture of the whole page, to be looked at: it is in .tools/screenshots.
func (b *browser) shoot(name string) {
	b.t.Helper()
	dir := filepath.Join(tools.Root(), ".tools", "screenshots")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		b.t.Fatal(err)
	}
	path := filepath.Join(dir, name+".png")
	b.do(nil, "shot", map[string]any{"path": path})
	if info, err := os.Stat(path); err != nil || info.Size() < 1000 {
		b.t.Errorf("no picture: %v", err)
	}
}

// accessible has axe-core look at the page.
func (b *browser) accessible(what string) {
	b.t.Helper()
	var result struct {
		Passes     int
		Violations []struct {
			ID, Impact, Help string
			Nodes            []string
		}
	}
	b.do(&result, "axe", nil)
	if result.Passes < 10 {
		b.t.Errorf("%s: axe checked only %d rules", what, result.Passes)
	}
	for _, v := range result.Violations {
		b.t.Errorf("%s: %s (%s): %s\n%s", what, v.ID, v.Impact, v.Help, strings.Join(v.Nodes, "\n"))
	}
}
