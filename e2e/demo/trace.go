package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/e2e/rig"
	"github.com/mcp-via-llm/mcp-via-llm/loop"
)

// turns asks the service what happened in its latest turns, and returns them in order of their starts.
func turns(ctx context.Context, r *rig.Rig) ([]loop.Report, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.Admin+"/debug/turns", nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s/debug/turns: status %d", r.Admin, response.StatusCode)
	}
	var all []loop.Report
	if err := json.NewDecoder(response.Body).Decode(&all); err != nil {
		return nil, fmt.Errorf("%s/debug/turns: %w", r.Admin, err)
	}
	slices.SortFunc(all, func(a, b loop.Report) int { return a.Start.Compare(b.Start) })
	return all, nil
}

// newer returns the turns of all that are not among known.
func newer(all, known []loop.Report) []loop.Report {
	var added []loop.Report
	for _, turn := range all {
		same := func(k loop.Report) bool { return k.ID == turn.ID && k.Start.Equal(turn.Start) }
		if !slices.ContainsFunc(known, same) {
			added = append(added, turn)
		}
	}
	return added
}

// printTurn prints one turn: its segments and calls, in order of their starts.
func printTurn(w io.Writer, turn loop.Report) {
	form := "whole"
	if turn.Stream {
		form = "streamed"
	}
	fmt.Fprintf(w, "turn  client %s, model %s, %s: status %d, %s, %s\n", turn.Client, turn.Model, form, turn.Status,
		cmp.Or(turn.StopReason, "passed through"), ms(turn.Duration))
	type line struct {
		at   time.Duration
		text string
	}
	var lines []line
	for i, s := range turn.Segments {
		text := fmt.Sprintf("segment %d  request %d B, status %d, first byte after %s, whole after %s: %s", i+1, s.Bytes, s.Status, ms(s.First), ms(s.Duration), s.Finish)
		if s.Tools > 0 {
			text += fmt.Sprintf(" (%d)", s.Tools)
		}
		if s.Error != "" {
			text += ", " + s.Error
		}
		lines = append(lines, line{s.Offset, text})
	}
	for _, c := range turn.Calls {
		lines = append(lines, line{c.Offset, fmt.Sprintf("  call     %s: %s, %d B after %s", c.Name, c.Outcome, c.Bytes, ms(c.Duration))})
	}
	slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(a.at, b.at) })
	for _, l := range lines {
		fmt.Fprintf(w, "  %9s  %s\n", ms(l.at), l.text)
	}
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond)) }
