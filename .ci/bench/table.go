package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// measure is a line of the table.
type measure struct {
	name string
	of   func(b batch) float64
	// own: bare has none of it, so there is no ratio.
	own bool
}

func measures() []measure {
	each := func(b batch, total float64) float64 { return total / float64(b.sessions) }
	return []measure{
		{name: "sessions a second", of: func(b batch) float64 { return float64(b.sessions) / b.wall.Seconds() }},
		{name: "latency, median, ms", of: func(b batch) float64 { return b.percentile(0.5) }},
		{name: "latency, 99th percentile, ms", of: func(b batch) float64 { return b.percentile(0.99) }},
		{name: "events of history", of: func(b batch) float64 { return float64(b.events) }},
		{name: "history, kB", of: func(b batch) float64 { return float64(b.history) / 1000 }},
		{name: "worker's processor time, ms", of: func(b batch) float64 { return each(b, milliseconds(b.worker)) }},
		{name: "server's processor time, ms", of: func(b batch) float64 { return each(b, milliseconds(b.server)) }},
		{name: "PostgreSQL's processor time, ms", own: true, of: func(b batch) float64 { return each(b, milliseconds(b.postgres)) }},
		{name: "all, ms", of: func(b batch) float64 { return each(b, milliseconds(b.worker+b.server+b.postgres)) }},
		{name: "Temporal's database, kB", of: func(b batch) float64 { return each(b, float64(b.temporal)/1000) }},
		{name: "store on disk, kB", own: true, of: func(b batch) float64 { return each(b, float64(b.left.bytes)/1000) }},
		{name: "store, files", own: true, of: func(b batch) float64 { return each(b, float64(b.left.files)) }},
	}
}

// printTable prints medians, and beside them their ratios to the first kind's:
// the median of the ratios within each turn, and the least and greatest of them.
func printTable(kinds []string, taken map[string][]batch) {
	head, rule := "| a session |", "|---|"
	for i, name := range kinds {
		head, rule = head+" "+name+" |", rule+"---|"
		if i > 0 {
			head, rule = head+" ratio (least to greatest) |", rule+"---|"
		}
	}
	fmt.Println(head + "\n" + rule)
	for _, m := range measures() {
		cells := []string{m.name}
		for i, name := range kinds {
			if m.own && name == bareKind {
				cells = append(cells, "-")
				continue
			}
			cells = append(cells, number(median(valuesOf(taken[name], m))))
			if i > 0 {
				cells = append(cells, ratio(taken[kinds[0]], taken[name], m))
			}
		}
		printRow(cells)
	}
}

func valuesOf(batches []batch, m measure) []float64 {
	out := make([]float64, len(batches))
	for i, b := range batches {
		out[i] = m.of(b)
	}
	return out
}

func ratio(base, other []batch, m measure) string {
	if m.own {
		return "-"
	}
	ratios := valuesOf(other, m)
	for i, b := range base {
		ratios[i] /= m.of(b)
	}
	return fmt.Sprintf("**%.2f** (%.2f to %.2f)", median(ratios), slices.Min(ratios), slices.Max(ratios))
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	if n := len(sorted); n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[len(sorted)/2]
}

// number writes a figure with three digits that count.
func number(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// printHead writes the head of a Markdown table.
func printHead(cells ...string) {
	printRow(cells)
	printRow(slices.Repeat([]string{"---"}, len(cells)))
}

// printRow writes a line of a Markdown table.
func printRow(cells []string) { fmt.Println("| " + strings.Join(cells, " | ") + " |") }
