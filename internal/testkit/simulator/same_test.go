package simulator

import (
	"regexp"
	"testing"
)

// random is what differs between two runs of a seed: directories, and the digests of
// what names the store.
var random = regexp.MustCompile(`maestro-simulator-[0-9]+|[0-9a-f]{32,64}|call [a-z2-7]{16}`)

// TestSameSeedSameStory runs seeds twice: each call of a port comes at the same time in
// the same process, with the same end.
func TestSameSeedSameStory(t *testing.T) {
	for seed := range chosen(t, len(profiles)) {
		plan := newPlan(seed)
		before, after := simulateTold(t, plan, true).Lines, simulateTold(t, plan, true).Lines
		for i := range max(len(before), len(after)) {
			if a, b := line(before, i), line(after, i); a != b {
				t.Errorf("seed %d: the runs differ in line %d:\n%s\n%s", seed, i, a, b)
				break
			}
		}
	}
}

// line is a line of a story without what is random in it.
func line(lines []string, i int) string {
	if i >= len(lines) {
		return "(the end)"
	}
	return random.ReplaceAllString(lines[i], "…")
}
