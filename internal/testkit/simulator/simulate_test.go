package simulator

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"iter"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/spec"
)

var (
	seeds  = flag.String("simulate.seeds", "", "how many seeds to run, or for how long (60s)")
	first  = flag.Uint64("simulate.from", 1, "the first seed")
	single = flag.Int64("simulate.seed", -1, "run this seed alone, and tell everything")
	told   = flag.Bool("simulate.trace", false, "tell every call of a port")
	keep   = flag.Bool("simulate.keep", false, "keep the shrunk plan of a failing seed in testdata/failing")
	plans  = flag.String("simulate.plans", "", "run only plans of this profile")
	count  = flag.Bool("simulate.count", false, "print only which seed fails first, and how")
)

// TestSimulate runs sessions by seed until a promise is broken.
func TestSimulate(t *testing.T) {
	if *single >= 0 {
		plan := newPlan(uint64(*single))
		r := simulate(t, plan)
		t.Log(r.text(plan))
		if len(r.Broken) > 0 {
			t.Fail()
		}
		return
	}
	started, ran := time.Now(), 0
	for seed := range chosen(t, 40) {
		plan := newPlan(seed)
		r := simulate(t, plan)
		ran++
		if len(r.Broken) == 0 {
			continue
		}
		if *count {
			fmt.Printf("found after %d seeds, at %d: %s\n", ran, seed, kind(r.Broken[0]))
			return
		}
		t.Fatal(explain(t, plan, r))
	}
	took := time.Since(started)
	t.Logf("%d sessions in %s, %.0f a minute", ran, took.Round(time.Millisecond), float64(ran)/took.Minutes())
}

// chosen are the seeds that the flags choose, or so many.
func chosen(t *testing.T, n int) iter.Seq[uint64] {
	until := time.Now().Add(24 * time.Hour)
	if *seeds != "" {
		if _, err := fmt.Sscanf(*seeds, "%d", &n); err != nil || strings.ContainsAny(*seeds, "hms") {
			d, err := time.ParseDuration(*seeds)
			require.NoError(t, err)
			n, until = 1<<40, time.Now().Add(d)
		}
	}
	return func(yield func(uint64) bool) {
		for seed := *first; seed < *first+uint64(n) && time.Now().Before(until); seed++ {
			if (*plans == "" || profileOf(seed) == *plans) && !yield(seed) {
				return
			}
		}
	}
}

var particular = regexp.MustCompile(`(plan|build|test)/[a-z0-9]+|checkpoint_[a-z]+|\b[0-9a-f]{64}\b|\b[0-9][0-9.]*(h|m|s|ms)?([0-9.]+(m|s))*\b|\ba[01]\b`)

// kind is a violation without what is particular to the seed.
func kind(broken string) string { return particular.ReplaceAllString(broken, "…") }

// explain shrinks a failing plan and says how to run it again.
func explain(t *testing.T, plan Plan, r result) string {
	small, last := shrink(t, plan, r)
	text := last.text(small) + fmt.Sprintf("\nseed %d breaks a promise; run it again with\n  go test ./internal/testkit/simulator "+
		"-run TestSimulate -args -simulate.seed %d\n", plan.Seed, plan.Seed)
	if *keep {
		text += "kept as " + keepPlan(t, small) + "\n"
	}
	return text
}

func keepPlan(t *testing.T, plan Plan) string {
	data, err := json.MarshalIndent(plan, "", "  ")
	require.NoError(t, err)
	path := filepath.Join("testdata", "failing", fmt.Sprintf("%d.json", plan.Seed))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err == nil {
		err = os.WriteFile(path, append(data, '\n'), 0o644)
		require.NoError(t, err)
	}
	return path
}

// TestKeptPlans runs the plans of seeds that once broke a promise.
func TestKeptPlans(t *testing.T) {
	paths, _ := filepath.Glob("testdata/failing/*.json")
	for _, path := range paths {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		var plan Plan
		require.NoError(t, json.Unmarshal(data, &plan))
		if r := simulate(t, plan); len(r.Broken) > 0 {
			t.Errorf("%s: %s", path, r.text(plan))
		}
	}
}

// shrink leaves out of a failing plan what it fails without.
func shrink(t *testing.T, plan Plan, r result) (Plan, result) {
	promise, _, _ := strings.Cut(r.Broken[0], ":")
	fails := func(p Plan) (result, bool) {
		got := simulate(t, p)
		return got, slices.ContainsFunc(got.Broken, func(b string) bool { return strings.HasPrefix(b, promise+":") })
	}
	for smaller := true; smaller; {
		smaller = false
		for _, try := range plan.smaller() {
			if got, still := fails(try); still {
				plan, r, smaller = try, got, true
				break
			}
		}
	}
	return plan, r
}

// smaller lists the plan with one thing left out each.
func (p Plan) smaller() (out []Plan) {
	out = append(out, without(p, p.Faults, func(q *Plan, rest []Fault) { q.Faults = rest })...)
	out = append(out, without(p, p.Windows, func(q *Plan, rest []Window) { q.Windows = rest })...)
	out = append(out, without(p, p.Limited, func(q *Plan, rest []Limited) { q.Limited = rest })...)
	out = append(out, without(p, p.Visits, func(q *Plan, rest []Visit) { q.Visits = rest })...)
	for _, id := range p.assignments() {
		if p.Bad[id] > 0 {
			q := p
			q.Bad = maps.Clone(p.Bad)
			delete(q.Bad, id)
			out = append(out, q)
		}
	}
	if n := len(p.Team.Phases); n > 1 {
		q := p
		q.Team.Phases = slices.Clone(p.Team.Phases[:n-1])
		q.Team.Personas = map[string]spec.Persona{}
		for _, phase := range q.Team.Phases {
			for _, name := range phase.Personas {
				q.Team.Personas[name] = p.Team.Personas[name]
			}
		}
		out = append(out, q)
	}
	if p.Lost > 0 {
		q := p
		q.Lost = 0
		out = append(out, q)
	}
	if p.Continue > 0 {
		q := p
		q.Continue = 0
		out = append(out, q)
	}
	return out
}

// without lists the plan with one element of a list left out each.
func without[T any](p Plan, list []T, set func(*Plan, []T)) (out []Plan) {
	for i := range list {
		q := p
		set(&q, slices.Delete(slices.Clone(list), i, i+1))
		out = append(out, q)
	}
	return out
}

var (
	putBack = flag.Bool("simulate.faults", false, "put faults back that were mended, one at a time, and look whether a seed "+
		"finds them")
	putBackOnly = flag.String("simulate.fault", "", "put back only the faults whose name contains this")
)

// mendedFault is a fault that was fixed, as the change of the source that puts it back.
type mendedFault struct {
	Name string `json:"name"`
	What string `json:"what"`
	// Plans is the profile whose plans look for it; empty: all plans do.
	Plans string `json:"plans"`
	Edits []struct {
		File string `json:"file"`
		Old  string `json:"old"`
		New  string `json:"new"`
	} `json:"edits"`
}

// TestFaultsAreFound puts each fault of testdata/faults.json back, builds this package
// with it, and prints how many seeds it takes to find it. The source is not touched.
func TestFaultsAreFound(t *testing.T) {
	data, err := os.ReadFile("testdata/faults.json")
	require.NoError(t, err)
	var faults []mendedFault
	require.NoError(t, json.Unmarshal(data, &faults))
	for _, f := range faults {
		overlay := f.overlay(t) // each has to apply, whether or not it is looked for
		if !*putBack || !strings.Contains(f.Name, *putBackOnly) {
			continue
		}
		found := find(t, overlay, f.Plans)
		fmt.Printf("| %s | %s | %s | %s |\n", f.Name, f.What, cmp.Or(f.Plans, "all"), found)
		if !strings.HasPrefix(found, "found") {
			t.Errorf("%s was not found", f.Name)
		}
	}
}

// overlay writes the changed files, and says which they stand for.
func (f mendedFault) overlay(t *testing.T) string {
	dir := t.TempDir()
	replace := map[string]string{}
	for i, e := range f.Edits {
		path, err := filepath.Abs(filepath.Join("..", "..", "..", e.File))
		require.NoError(t, err)
		from := path
		if changed, ok := replace[path]; ok {
			from = changed
		}
		source, err := os.ReadFile(from)
		require.NoError(t, err)
		if n := strings.Count(string(source), e.Old); n != 1 {
			t.Errorf("%s: %q occurs %d times in %s; bring testdata/faults.json up to date", f.Name, e.Old, n, e.File)
		}
		changed := filepath.Join(dir, fmt.Sprintf("%d.go", i))
		require.NoError(t, os.WriteFile(changed, []byte(strings.Replace(string(source), e.Old, e.New, 1)), 0o600))
		replace[path] = changed
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	path := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	return path
}

// find runs seeds with a fault until one fails.
func find(t *testing.T, overlay, profile string) string {
	program := filepath.Join(t.TempDir(), "simulator.test")
	if out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay", overlay, "-o", program,
		".").CombinedOutput(); err != nil {
		return fmt.Sprintf("does not build: %s", out)
	}
	n := *seeds
	if n == "" {
		n = "500"
	}
	out, _ := exec.CommandContext(t.Context(), program, "-test.run", "^TestSimulate$", "-simulate.count", "-simulate.seeds", n,
		"-simulate.plans", profile).CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "found") {
			return strings.TrimSpace(line)
		}
	}
	return "not found: " + strings.TrimSpace(string(out))
}

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
