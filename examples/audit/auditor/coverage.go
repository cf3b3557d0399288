package main

import (
	"bufio"
	"fmt"
	"io"
	"path"
	"strings"
)

// statements counts the statements of which a test has executed some.
type statements struct {
	Total   int `json:"total"`
	Covered int `json:"covered"`
}

// percent is how many of a hundred are covered; false: there are none.
func (s statements) percent() (float64, bool) {
	if s.Total == 0 {
		return 0, false
	}
	return 100 * float64(s.Covered) / float64(s.Total), true
}

func (s statements) String() string {
	if p, ok := s.percent(); ok {
		return fmt.Sprintf("%.1f %%", p)
	}
	return "–"
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
