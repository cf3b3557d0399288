package main

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"path"
	"strconv"
	"strings"
)

// statements counts the statements of which a test has executed some.
type statements struct {
	Total   int `json:"total"`
	Covered int `json:"covered"`
}

// percent is how many of a hundred are covered, with one decimal; nil: there are none.
func (s statements) percent() *float64 {
	if s.Total == 0 {
		return nil
	}
	percent := math.Round(1000*float64(s.Covered)/float64(s.Total)) / 10
	return &percent
}

// percentage says how much is covered; nil: there is nothing to cover.
func percentage(percent *float64) string {
	if percent == nil {
		return "–"
	}
	return fmt.Sprintf("%.1f %%", *percent)
}

// readProfile counts the statements of a coverage profile by package. A block that
// several test binaries have counted is one block.
func readProfile(profile io.Reader) (map[string]statements, error) {
	type block struct {
		place string
		size  int
	}
	blocks := map[block]bool{}
	scanner := bufio.NewScanner(profile)
	for scanner.Scan() {
		line := scanner.Text()
		if strings.HasPrefix(line, "mode: ") {
			continue
		}
		// example.com/m/store.go:12.30,14.2 3 1
		var b block
		var hits int
		if _, err := fmt.Sscanf(line, "%s %d %d", &b.place, &b.size, &hits); err != nil {
			return nil, fmt.Errorf("the coverage profile has the line %q: %w", shorten(line, 200), err)
		}
		blocks[b] = blocks[b] || hits > 0
	}
	packages := map[string]statements{}
	for b, covered := range blocks {
		file := b.place[:max(strings.LastIndex(b.place, ":"), 0)]
		s := packages[path.Dir(file)]
		s.Total += b.size
		if covered {
			s.Covered += b.size
		}
		packages[path.Dir(file)] = s
	}
	return packages, scanner.Err()
}

// total is what go tool cover says of all functions of a profile together.
func (a *auditor) total(profile string, counted statements) (*float64, error) {
	last := ""
	_, ok, err := a.stream(func(stdout io.Reader) error {
		scanner := bufio.NewScanner(stdout)
		for scanner.Scan() {
			last = scanner.Text()
		}
		return scanner.Err()
	}, "tool", "cover", "-func="+profile)
	if err != nil || !ok || counted.Total == 0 || last == "" {
		return counted.percent(), err
	}
	words := strings.Fields(last)
	percent, err := strconv.ParseFloat(strings.TrimSuffix(words[len(words)-1], "%"), 64)
	if err != nil {
		return nil, fmt.Errorf("go tool cover ends with %q, and not with the total: %w", last, err)
	}
	return &percent, nil
}
