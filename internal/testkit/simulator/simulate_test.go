package simulator

import (
	"encoding/json"
	"flag"
	"fmt"
	"iter"
	"os"
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
	ignore = flag.String("simulate.ignore", "", "a regular expression of violations that do not count")
	plans  = flag.String("simulate.plans", "", "run only plans of this profile")
	count  = flag.Bool("simulate.count", false, "print only which seed fails first, and how")
	goOn   = flag.Bool("simulate.all", false, "go on after a failing seed")
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
	started, ran, failed := time.Now(), 0, 0
	kinds := map[string][]uint64{}
	for seed := range chosen(t, 40) {
		plan := newPlan(seed)
		r := simulate(t, plan)
		r.Broken = slices.DeleteFunc(r.Broken, func(b string) bool {
			return *ignore != "" &&
				regexp.MustCompile(*ignore).MatchString(b)
		})
		ran++
		if len(r.Broken) == 0 {
			continue
		}
		failed++
		for _, b := range r.Broken {
			if k := kind(b); !slices.Contains(kinds[k], seed) {
				kinds[k] = append(kinds[k], seed)
			}
		}
		if *count {
			fmt.Printf("found after %d seeds, at %d: %s\n", ran, seed, kind(r.Broken[0]))
			return
		}
		if *goOn {
			t.Logf("seed %d: %s", seed, strings.Join(r.Broken, "; "))
		} else {
			t.Error(explain(t, plan, r))
			break
		}
	}
	took := time.Since(started)
	t.Logf("%d sessions in %s, %.0f a minute; %d failed", ran, took.Round(time.Millisecond), float64(ran)/took.Minutes(), failed)
	for _, b := range sortedByCount(kinds) {
		t.Logf("%4d seeds, first %d: %s", len(kinds[b]), kinds[b][0], b)
	}
	if failed > 0 {
		t.Fail()
	}
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

func sortedByCount(kinds map[string][]uint64) (out []string) {
	for b := range kinds {
		out = append(out, b)
	}
	slices.SortFunc(out, func(a, b string) int {
		if c := len(kinds[b]) - len(kinds[a]); c != 0 {
			return c
		}
		return strings.Compare(a, b)
	})
	return out
}

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
	for i := range p.Faults {
		q := p
		q.Faults = slices.Delete(slices.Clone(p.Faults), i, i+1)
		out = append(out, q)
	}
	for i := range p.Windows {
		q := p
		q.Windows = slices.Delete(slices.Clone(p.Windows), i, i+1)
		out = append(out, q)
	}
	for i := range p.Limited {
		q := p
		q.Limited = slices.Delete(slices.Clone(p.Limited), i, i+1)
		out = append(out, q)
	}
	for i := range p.Visits {
		q := p
		q.Visits = slices.Delete(slices.Clone(p.Visits), i, i+1)
		out = append(out, q)
	}
	for _, id := range p.assignments() {
		if p.Bad[id] > 0 {
			q := p
			q.Bad = map[string]int{}
			for other, n := range p.Bad {
				if other != id {
					q.Bad[other] = n
				}
			}
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
