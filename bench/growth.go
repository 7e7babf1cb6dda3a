package main

import "fmt"

// growth is what the service takes more as one thing grows, between two rows that differ in nothing else.
type growth struct {
	With string  `json:"with"`
	Unit string  `json:"unit"`
	From int     `json:"from"`
	To   int     `json:"to"`
	Per  int     `json:"per"`
	Low  float64 `json:"low_ms"`
	High float64 `json:"high_ms"`
}

func (g growth) slope() float64 { return (g.High - g.Low) * float64(g.Per) / float64(g.To-g.From) }

func (r *report) grow() {
	add := func(g growth, section, low, other, high string) {
		from, to := r.find(section, low, viaService), r.find(other, high, viaService)
		if from != nil && to != nil {
			g.Low, g.High = from.P50, to.P50
			r.Growth = append(r.Growth, g)
		}
	}
	const turns = "turns"
	base := "no tool call, whole, history " + size(kilobyte)
	for _, to := range []int{100 * kilobyte, 1000 * kilobyte} {
		add(growth{With: "history, bytes", Unit: "KB", From: kilobyte, To: to, Per: kilobyte}, turns, base, turns, "no tool call, whole, history "+size(to))
	}
	for _, to := range []int{3, 10} {
		add(growth{With: "rounds", Unit: "round", From: 1, To: to, Per: 1}, turns, "1 rounds, whole", turns, fmt.Sprintf("%d rounds, whole", to))
	}
	for _, to := range []int{100, 1000} {
		add(growth{With: "tools in the catalog", Unit: "tool", From: 5, To: to, Per: 1}, turns, base, fmt.Sprintf("catalog of %d", to), "no tool call")
	}
	for _, to := range sessionCounts[1:] {
		add(growth{With: "sessions in Redis, 1 round", Unit: "1,000 sessions", From: 0, To: to, Per: 1000}, "sessions", "0 sessions in the store",
			"sessions", fmt.Sprintf("%d sessions in the store", to))
	}
}
