package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

// microCommand runs the Go benchmarks of the parts, and writes how each grows with its input.
type microCommand struct {
	Count  int    `help:"runs; the median stands" default:"5"`
	Report string `help:"Markdown file for the tables; they replace what is between their markers" default:"docs/performance.md"`
}

// benchmark is one line of go test -bench: what each run said, by its unit.
type benchmark struct {
	name   string
	values map[string][]float64
}

func (c *microCommand) Run() error {
	command := exec.Command("go", "test", "-run", "^$", "-bench", ".", "-benchmem", "-benchtime", "200ms", "-count", strconv.Itoa(c.Count),
		"./sse", "./chat", "./loop", "./sessions", "./telemetry", "./cmd/mcp-via-llm")
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", command, err, out)
	}
	tables := microTables(readBenchmarks(out))
	fmt.Print(tables)
	return replaceIn(c.Report, "micro", tables)
}

var (
	benchmarkLine = regexp.MustCompile(`^Benchmark(\S+?)-\d+\s+\d+\s+(.*)$`)
	packageLine   = regexp.MustCompile(`^pkg: .*/(\S+)$`)
)

func readBenchmarks(out []byte) (all []*benchmark) {
	found := map[string]*benchmark{}
	where := ""
	for line := range bytes.Lines(out) {
		if m := packageLine.FindSubmatch(bytes.TrimSpace(line)); m != nil {
			where = string(m[1])
		}
		m := benchmarkLine.FindSubmatch(bytes.TrimSpace(line))
		if m == nil {
			continue
		}
		name := where + " " + strings.ReplaceAll(string(m[1]), "_", " ")
		b := found[name]
		if b == nil {
			b = &benchmark{name, map[string][]float64{}}
			found[name] = b
			all = append(all, b)
		}
		fields := strings.Fields(string(m[2]))
		for i := 0; i+1 < len(fields); i += 2 {
			if v, err := strconv.ParseFloat(fields[i], 64); err == nil {
				b.values[fields[i+1]] = append(b.values[fields[i+1]], v)
			}
		}
	}
	return all
}

func (b *benchmark) median(unit string) float64 { return median(b.values[unit]) }

// microTables has the benchmarks that read bytes in one table, by which one sees whether they are linear, and the
// others in a second.
func microTables(all []*benchmark) string {
	var sized, rest strings.Builder
	for _, b := range all {
		if b.values["MB/s"] != nil {
			input := b.median("ns/op") * b.median("MB/s") / 1000
			fmt.Fprintf(&sized, "| %s | %.2f | %.2f | %.0f |\n", b.name, b.median("ns/op")/input, b.median("B/op")/input, b.median("allocs/op"))
			continue
		}
		more := ""
		for unit := range b.values {
			if !strings.HasSuffix(unit, "/op") {
				more = fmt.Sprintf("%.2f %s", b.median(unit), strings.ReplaceAll(unit, "-", " "))
			}
		}
		fmt.Fprintf(&rest, "| %s | %.1f | %.1f | %.0f | %s |\n", b.name, b.median("ns/op")/1000, b.median("B/op")/1000, b.median("allocs/op"), more)
	}
	return "\n| part, size of the input | ns a byte | bytes allocated a byte | allocations |\n| --- | ---: | ---: | ---: |\n" + sized.String() +
		"\n| part | µs | KB allocated | allocations | ratio |\n| --- | ---: | ---: | ---: | ---: |\n" + rest.String() + "\n"
}
