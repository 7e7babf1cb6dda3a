package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/e2e/rig"
)

// report is everything that a run found.
type report struct {
	Environment map[string]string `json:"environment"`
	Results     []*result         `json:"results"`
	Open        []*openResult     `json:"open_turns,omitempty"`
	Growth      []growth          `json:"growth"`
	Budgets     []budget          `json:"budgets"`
}

// result is one row: for each way and each round the median, the 99th percentile and the throughput.
type result struct {
	Section     string             `json:"section"`
	Name        string             `json:"name"`
	Connections int                `json:"connections"`
	Ways        []string           `json:"ways"`
	Figures     map[string]*figure `json:"figures"`
}

// figure is one way of a row. Times are in milliseconds, medians over the rounds.
type figure struct {
	P50        float64 `json:"p50_ms"`
	P99        float64 `json:"p99_ms"`
	First      float64 `json:"first_byte_ms"`
	ChunkP50   float64 `json:"chunk_p50_ms,omitempty"`
	ChunkP99   float64 `json:"chunk_p99_ms,omitempty"`
	Silence    float64 `json:"longest_silence_ms,omitempty"` // between two chunks
	Throughput float64 `json:"per_second"`
	Turns      int     `json:"turns"`

	rounds []*measured
}

func newResult(r row) *result {
	all := &result{Name: r.Name, Connections: r.Connections, Figures: map[string]*figure{}}
	for _, s := range r.series {
		all.Ways = append(all.Ways, s.name)
		all.Figures[s.name] = &figure{}
	}
	return all
}

// add takes one round of a way. What stands in the end is the median of the rounds' own figures: a round in which the
// machine was busy with something else does not move it.
func (r *result) add(way int, m *measured) {
	f := r.Figures[r.Ways[way]]
	f.rounds = append(f.rounds, m)
	f.Turns += len(m.totals)
	over := func(value func(*measured) float64) float64 {
		var values []float64
		for _, m := range f.rounds {
			values = append(values, value(m))
		}
		return median(values)
	}
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	f.P50 = over(func(m *measured) float64 { return ms(quantile(m.totals, 0.5)) })
	f.P99 = over(func(m *measured) float64 { return ms(quantile(m.totals, 0.99)) })
	f.First = over(func(m *measured) float64 { return ms(quantile(m.firsts, 0.5)) })
	f.ChunkP50 = over(func(m *measured) float64 { return ms(quantile(m.chunks, 0.5)) })
	f.ChunkP99 = over(func(m *measured) float64 { return ms(quantile(m.chunks, 0.99)) })
	f.Silence = over(func(m *measured) float64 { return ms(m.quiet) })
	f.Throughput = over((*measured).throughput)
}

func (r *result) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-40s", r.Name)
	for _, way := range r.Ways {
		f := r.Figures[way]
		fmt.Fprintf(&b, " | %s %.2f/%.2f ms %.0f/s", way, f.P50, f.P99, f.Throughput)
	}
	return b.String()
}

func newReport(tools *rig.Tools) *report {
	commit, _ := exec.Command("git", "-C", tools.Root(), "rev-parse", "--short", "HEAD").Output() // "" outside a clone
	cpu := "unknown"
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if found := regexp.MustCompile(`model name\s*:\s*(.*)`).FindSubmatch(info); found != nil {
			cpu = string(found[1])
		}
	}
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return &report{Environment: map[string]string{
		"commit": strings.TrimSpace(string(commit)), "go": runtime.Version(), "envoy": tools.DefaultEnvoy(), "cpu": cpu,
		"cores": fmt.Sprint(runtime.NumCPU()), "kernel": strings.TrimSpace(string(kernel)), "date": time.Now().UTC().Format(time.DateOnly),
	}}
}

func (r *report) add(section string, one *result) {
	one.Section = section
	r.Results = append(r.Results, one)
}

// find gives a figure; nil if that was not measured.
func (r *report) find(section, row, way string) *figure {
	for _, one := range r.Results {
		if one.Section == section && one.Name == row {
			return one.Figures[way]
		}
	}
	return nil
}

// readReport reads the figures that write has stored.
func readReport(file string) (*report, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	r := new(report)
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return r, nil
}

// write stores the figures, and puts them into the page.
func (r *report) write(figures, page string) error {
	data, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(figures, append(data, '\n'), 0o644); err != nil {
		return err
	}
	return replaceIn(page, "figures", r.markdown())
}

// replaceIn puts a text between the two markers of a page that have the name.
func replaceIn(page, name, text string) error {
	old, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	begin, end := "<!-- "+name+" -->\n", "<!-- end of "+name+" -->"
	before, rest, ok := strings.Cut(string(old), begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return fmt.Errorf("%s has no line %q with a line %q after it", page, begin, end)
	}
	return os.WriteFile(page, []byte(before+begin+text+end+after), 0o644)
}

func (r *report) markdown() string {
	var b strings.Builder
	e := r.Environment
	fmt.Fprintf(&b, "\n%s, %s cores, Linux %s, Envoy %s, %s, commit %s, %s.\n", e["cpu"], e["cores"], e["kernel"], e["envoy"], e["go"], e["commit"], e["date"])
	if len(r.Budgets) > 0 {
		b.WriteString("\n| Budget | Limit | Measured | | Without work of its own |\n| --- | ---: | ---: | --- | ---: |\n")
		for _, one := range r.Budgets {
			bare := ""
			if one.Bare != 0 {
				bare = fmt.Sprintf("%.2f", one.Bare)
			}
			fmt.Fprintf(&b, "| %s | %.2f | %.2f | %s | %s |\n", one.Name, one.Limit, one.Value, one.verdict(), bare)
		}
	}
	section := ""
	for _, one := range r.Results {
		if one.Section != section {
			section = one.Section
			fmt.Fprintf(&b, "\n**%s**\n\n| | way | p50 ms | p99 ms | first byte ms | chunk p50 / p99 ms | longest silence ms | turns a second |\n| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n", title(section))
		}
		for i, way := range one.Ways {
			name := ""
			if i == 0 {
				name = one.Name
				if one.Connections > 1 {
					name += fmt.Sprintf(", %d connections", one.Connections)
				}
			}
			f := one.Figures[way]
			chunk, silence := "", ""
			if f.ChunkP50 > 0 {
				chunk, silence = fmt.Sprintf("%.2f / %.2f", f.ChunkP50, f.ChunkP99), fmt.Sprintf("%.2f", f.Silence)
			}
			fmt.Fprintf(&b, "| %s | %s | %.2f | %.2f | %.2f | %s | %s | %.0f |\n", name, way, f.P50, f.P99, f.First, chunk, silence, f.Throughput)
		}
	}
	for _, o := range r.Open {
		fmt.Fprintf(&b, "\n**%d open turns**, streamed, wait for a slow tool at once: the service holds %.1f KB for each (a filter that only copies: %.1f KB), "+
			"uses %.1f %% of a core meanwhile, and sends its keep-alives with a jitter of %.0f ms (p99); the longest silence was %.1f s; %d turns failed.\n",
			o.Turns, o.KilobytesEach, o.CopyEach, 100*o.CPU, o.Jitter, o.Silence/1000, o.Failed)
	}
	if len(r.Growth) > 0 {
		b.WriteString("\n**Growth**: what a turn without tool calls, or as named, takes more\n\n| with | from | to | p50 ms | slope |\n| --- | ---: | ---: | ---: | --- |\n")
		for _, g := range r.Growth {
			fmt.Fprintf(&b, "| %s | %d | %d | %.2f to %.2f | %.3g ms for each %s |\n", g.With, g.From, g.To, g.Low, g.High, g.slope(), g.Unit)
		}
	}
	b.WriteByte('\n')
	return b.String()
}

func title(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
