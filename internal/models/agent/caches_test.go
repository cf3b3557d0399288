package agent

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// cacheBench is a set with a cache and checks that run a script each.
func cacheBench(t *testing.T, isolation string, checks map[string]string) (*Set, *bench) {
	t.Helper()
	if isolation == IsolationRequired {
		inRooms(t)
	}
	b := newBench(t)
	cfg := Config{
		Isolation: isolation, Caches: map[string]Cache{"c": {Env: "CACHE"}}, Checks: map[string]CheckDefinition{},
		Agents: map[string]Definition{"x": {
			Kind: KindCommand,
			Argv: []string{"/bin/sh", "-c", "ls $CACHE; mkfifo $CACHE/way; echo bad > $CACHE/entry; touch done"}, Caches: []string{"c"},
		}},
	}
	for name, script := range checks {
		cfg.Checks[name] = CheckDefinition{Argv: []string{"/bin/sh", "-c", script}, Caches: []string{"c"}}
	}
	b.workRoot = filepath.Join(b.dir, "layers")
	return b.set(cfg), b
}

// checkIn runs a check in directories of its own, as each session has them, and returns what it printed.
func (b *bench) checkIn(s *Set, check, team string, input spec.Digest) string {
	b.t.Helper()
	job := newBench(b.t).checkJob(check)
	job.Team, job.Input = team, input
	out, err := s.Check(b.t.Context(), job)
	if err != nil {
		require.Equal(b.t, failures.TestFailure, failure(b.t, err).Category, err)
	}
	return string(out.Log)
}

// TestWhatAnAgentWritesIsInNoOtherCache has an agent, and code of one in a check, write into a cache.
func TestWhatAnAgentWritesIsInNoOtherCache(t *testing.T) {
	t.Parallel()
	for _, isolation := range []string{IsolationRequired, IsolationNone} {
		t.Run(isolation, func(t *testing.T) {
			t.Parallel()
			s, b := cacheBench(t, isolation, map[string]string{
				"poison": "echo bad > $CACHE/entry; mkfifo $CACHE/way",
				"look":   "ls $CACHE; echo looked",
			})
			job := b.job()
			job.Team = "ns.team"
			b.done(s, job)
			b.checkIn(s, "poison", "ns.team", "")
			require.Equal(t, "looked\n", b.checkIn(s, "look", "ns.team", ""))

			again := newBench(t).job()
			again.Team = "ns.team"
			require.NotContains(t, string(b.done(s, again).Log), "entry")
			require.Contains(t, string(b.done(s, job).Log), "entry", "an assignment keeps its own")
		})
	}
}

// TestChecksOfAnInputFillTheCache of one team, and nothing that runs on other files changes it.
func TestChecksOfAnInputFillTheCache(t *testing.T) {
	t.Parallel()
	const input, other = "input", "other"
	s, b := cacheBench(t, IsolationRequired, map[string]string{
		"build":  "cat $CACHE/entry; echo good > $CACHE/entry; mkdir $CACHE/d; exit 1",
		"poison": "cat $CACHE/entry; echo bad > $CACHE/entry; rmdir $CACHE/d", "empty": "true",
	})
	now := time.Now()
	s.o.Now = func() time.Time { return now }
	require.True(t, s.layers, s.noLayers)

	require.True(t, s.FillsCaches("build", "ns.team", input))
	b.checkIn(s, "build", "ns.team", input)
	require.False(t, s.FillsCaches("build", "ns.team", input))
	require.False(t, s.FillsCaches("build", "ns.team", other))
	for range 2 {
		require.Equal(t, "good\n", b.checkIn(s, "poison", "ns.team", ""))
	}
	job := b.job()
	job.Team = "ns.team"
	require.Contains(t, string(b.done(s, job).Log), "d\nentry\n", "agents use it, too")

	require.True(t, s.FillsCaches("build", "ns.others", input))
	require.NotContains(t, b.checkIn(s, "poison", "ns.others", ""), "good")

	require.True(t, s.FillsCaches("empty", "ns.team", input))
	b.checkIn(s, "empty", "ns.team", input)
	require.False(t, s.FillsCaches("empty", "ns.team", input))
	require.True(t, s.FillsCaches("empty", "ns.team", other), "it has left nothing")

	now = now.Add(25 * time.Hour)
	require.False(t, s.FillsCaches("build", "ns.team", input), "it would write the same")
}
