package activities_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/secrets"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/sandbox/workdir"
)

// suppliedBy is the round of a desk in which ada's files stand for the work.
func suppliedBy(d *desk, files map[string]string) activities.RoundInput {
	in := d.roundInput()
	in.Supplied, in.SuppliedBy = d.manifest(files), "ada"
	d.agents.run = func(context.Context, session.Job) (session.Outcome, error) {
		panic("no agent works where a person has supplied the work")
	}
	d.breakers = forbidden{}
	return in
}

// forbidden is a breaker that nobody may ask.
type forbidden struct{ activities.Breakers }

func TestSuppliedFilesStandForTheWork(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.input = d.manifest(map[string]string{"old.md": "old", "a.txt": "1"})
	d.agents.continuable = true
	in := suppliedBy(d, map[string]string{"a.txt": "2", "docs/b.md": "b"})
	result, err := d.roundOf(in)
	require.NoError(t, err)
	require.Equal(t, "supplied by ada: a.txt, docs/b.md", result.Summary)
	require.Nil(t, result.Basis, "it rests on nothing that can change")
	require.Equal(t, d.input, result.Input)
	require.Equal(t, 2, result.Files)
	require.Zero(t, result.Attempts)
	require.Zero(t, result.Total)
	require.Equal(t, d.manifest(map[string]string{"old.md": "old", "a.txt": "2", "docs/b.md": "b"}), result.Output)
	require.False(t, d.agents.continuable, "a conversation about other files is over")

	again, err := d.roundOf(in)
	require.NoError(t, err)
	require.Equal(t, result, again, "it is in the record like any result")
	record := d.record()
	require.True(t, record.Rounds[0].Supplied)
	require.Equal(t, session.Supplied, record.Status().Status)
	require.Zero(t, record.Status().Attempts)
	require.Empty(t, d.calls())
}

func TestASuppliedTreeRemovesWhatItLacks(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.input = d.manifest(map[string]string{"old.md": "old", "a.txt": "1"})
	in := suppliedBy(d, map[string]string{"a.txt": "2"})
	in.SuppliedWhole = true
	result, err := d.roundOf(in)
	require.NoError(t, err)
	require.Equal(t, in.Supplied, result.Output)
	require.Equal(t, 2, result.Files, "one is changed, and one removed")
}

// TestAHostThatCannotRunACheckRefusesNoFiles: it is tried again.
func TestAHostThatCannotRunACheckRefusesNoFiles(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.team.Phases[0].Checks = []string{"good"}
	d.admit()
	tries := 0
	d.agents.check = func(session.CheckJob) error {
		if tries++; tries == 1 {
			return failures.Failf(failures.ResourceError, "cannot start: resource temporarily unavailable")
		}
		return nil
	}
	result, err := d.roundOf(suppliedBy(d, map[string]string{"a.txt": "x"}))
	require.NoError(t, err)
	require.Equal(t, 1, result.Files)
	require.Equal(t, 2, tries)
}

// TestCachesAreFilledByChecksOfTheSessionsInput, before the first check of changed files and never by that.
func TestCachesAreFilledByChecksOfTheSessionsInput(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.team.Phases[0].Checks = []string{"good"}
	d.admit()
	d.workDirs = workdir.New(workdir.Options{
		Root: workdir.DefaultRoot(d.store.Dir()),
		Acquire: func(_ context.Context, tree spec.Digest, _ ...spec.Digest) ([]string, func(), error) {
			return []string{string(tree)}, func() {}, nil
		},
	})
	var trees, inputs []spec.Digest
	d.agents.fills = func() bool { return true }
	d.agents.check = func(job session.CheckJob) error {
		trees, inputs = append(trees, job.Lower()), append(inputs, job.Input)
		if job.Input != "" {
			return failures.Failf(failures.TestFailure, "the input has no a.txt")
		}
		return nil
	}
	in := suppliedBy(d, map[string]string{"a.txt": "x"})
	result, err := d.roundOf(in)
	require.NoError(t, err)
	require.Equal(t, []spec.Digest{d.input, result.Output}, trees)
	require.Equal(t, []spec.Digest{d.input, ""}, inputs)
}

func TestSuppliedFilesAreHeldToTheContract(t *testing.T) {
	t.Parallel()
	const secret = "swordfish-0123456789"
	for name, test := range map[string]struct {
		files    map[string]string
		change   func(d *desk, in *activities.RoundInput)
		category failures.Category
		message  string
	}{
		"something is missing": {
			map[string]string{"a.md": "x"}, nil, failures.ContractViolation, "*.txt was neither created nor changed",
		},
		"nothing differs": {
			map[string]string{"was.txt": "x"},
			func(d *desk, in *activities.RoundInput) { in.Input = in.Supplied },
			failures.ContractViolation, "none of the supplied files differs from the input of build/dev",
		},
		"a check fails": {
			map[string]string{"a.txt": "x"}, func(d *desk, _ *activities.RoundInput) {
				d.agents.check = func(session.CheckJob) error {
					return &failures.Failure{Category: failures.TestFailure, Message: "check good failed", Output: "line 3"}
				}
			}, failures.TestFailure, "check good failed",
		},
		"a secret": {
			map[string]string{"a.txt": "key = " + secret},
			func(d *desk, _ *activities.RoundInput) {
				d.agents.secrets = secrets.New([]secrets.Secret{{Name: "KEY", Value: secret}})
			},
			failures.InvalidOutput, "a.txt",
		},
		"it is not in the store": {
			map[string]string{"a.txt": "x"},
			func(_ *desk, in *activities.RoundInput) { in.Supplied = spec.Digest(strings.Repeat("ab", 32)) },
			failures.ResourceError, "the store does not have the supplied files, manifest abababab",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.team.Phases[0].Checks = []string{"good"}
			d.admit()
			d.agents.check = func(session.CheckJob) error { return nil }
			in := suppliedBy(d, test.files)
			if test.change != nil {
				test.change(d, &in)
			}
			for range 2 { // the second time after a kill
				_, err := d.roundOf(in)
				app := requireType(t, err, session.UnrecoverableError)
				require.True(t, app.NonRetryable())
				var report activities.RoundFailure
				require.NoError(t, app.Details(&report))
				require.Equal(t, test.category, report.Failure.Category)
				require.Contains(t, report.Failure.Message, test.message)
				require.NotContains(t, report.Failure.Message, secret)
				require.False(t, report.Failure.RetryRound(), "only a person can mend it")
				require.Empty(t, report.Attempts)
			}
			record := d.record()
			require.Len(t, record.Rounds, 1)
			require.True(t, record.Rounds[0].GaveUp)
			require.Zero(t, record.Status().Attempts)
		})
	}
}

func TestAgentIsNotTakenForThePersonWhoSuppliedBeforeIt(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	in := suppliedBy(d, map[string]string{"a.md": "x"})
	_, err := d.roundOf(in)
	requireType(t, err, session.UnrecoverableError)
	d.earlier++
	d.breakers, d.agents.run = nil, func(ctx context.Context, job session.Job) (session.Outcome, error) {
		require.Empty(t, here(t, job), "a person's files that were refused are not where it starts from")
		return leave("a.txt", "x")(ctx, job)
	}
	in.Supplied, in.Ordered, in.Because = "", 1, session.BecauseRetried
	_, err = d.roundOf(in)
	require.NoError(t, err)
	require.Nil(t, d.agents.runs[0].Feedback, "nor is it told of them")
}

func TestSupplyForTheMergedTreeIsVerifiedAtTheMerge(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	in := suppliedBy(d, map[string]string{})
	in.Integrating = true
	result, err := d.roundOf(in)
	require.NoError(t, err)
	require.Equal(t, d.input, result.Output)
	require.Equal(t, "supplied by ada: no changed file", result.Summary)
}

func TestSuppliedRoundThatTakesItsWorkerDownIsGivenUp(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	in := suppliedBy(d, map[string]string{"a.txt": "x"})
	d.putRound(session.RoundRecord{Order: session.Order{Pass: 1}, Round: 1, Activity: "1", RoundLog: session.RoundLog{Lost: 5}})
	_, err := d.roundOf(in)
	require.ErrorContains(t, err, "worker_lost: the worker was lost 5 times in a row")
	requireType(t, err, session.UnrecoverableError)
}
