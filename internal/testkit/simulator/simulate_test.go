package simulator

import (
	"encoding/json"
	"flag"
	"fmt"
	"iter"
	"maps"
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
