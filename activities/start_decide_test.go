package activities

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

func TestStartIsDecidedByTheFailureBefore(t *testing.T) {
	t.Parallel()
	after := func(c failures.Category) session.RoundLog {
		return session.RoundLog{Attempts: []session.AttemptReport{{
			Attempt: 1, Agent: "a", Files: "left",
			Failure: failures.Failure{Category: c},
		}}}
	}
	same, old, otherwise := session.Basis{Input: "input", Agent: "another"}, session.Basis{Input: "old"},
		session.Basis{Input: "input", Instructions: "others"}
	earlier := func(basis session.Basis, log session.RoundLog) []session.RoundRecord {
		log.Basis = &basis
		return []session.RoundRecord{{
			Order: session.Order{Pass: 1, Run: 1, AnswersFrom: 1}, Round: 1, RoundLog: log,
			GaveUp: len(log.Attempts) > 0,
		}}
	}
	// the work failed by its own fault, and the session was resumed
	anew := session.RoundRecord{Order: session.Order{AnswersFrom: 2}}
	for _, test := range []struct {
		name  string
		facts startFacts
		files spec.Digest
		from  failures.Start
	}{
		{"the first attempt", startFacts{}, "input", failures.FromInput},
		{
			"after a failing check: the files",
			startFacts{round: session.RoundRecord{RoundLog: after(failures.TestFailure)}},
			"left",
			failures.FromFiles,
		},
		{
			"after an error of the provider, without a conversation",
			startFacts{round: session.RoundRecord{RoundLog: after(failures.APIError)}},
			"input", failures.FromInput,
		},
		{"after one with a conversation in the directory", startFacts{
			round:        session.RoundRecord{RoundLog: after(failures.APIError)},
			conversation: spec.InDirectory, continuable: true,
		}, "left", failures.FromConversation},
		{"on the work that was sent back", startFacts{former: "former"}, "former", failures.FromFiles},
		{"cut off in the first attempt", startFacts{
			round:        session.RoundRecord{RoundLog: session.RoundLog{ContinuableAttempt: 1}},
			conversation: spec.InDirectory, continuable: true,
		}, "input", failures.FromConversation},
		{
			"in an outage, with the files that were stored",
			startFacts{outage: &session.Outage{FilesInPlace: true, Files: "stored"}},
			"stored", failures.FromFiles,
		},
		{
			"cut off, with a conversation in the store",
			startFacts{
				round: session.RoundRecord{RoundLog: session.RoundLog{ContinuableAttempt: 1}}, conversation: spec.InDirectory,
				continuable: true, stored: &session.Conversation{Files: "stored"},
			},
			"stored", failures.FromConversation,
		},
		{
			"after a failing check, with a conversation in the store",
			startFacts{
				round: session.RoundRecord{RoundLog: after(failures.TestFailure)}, conversation: spec.InDirectory,
				continuable: true, stored: &session.Conversation{Files: "left"},
			},
			"left", failures.FromConversation,
		},
		{
			"after a failing check in an earlier run",
			startFacts{rounds: earlier(same, after(failures.TestFailure)), round: anew},
			"left",
			failures.FromFiles,
		},
		{"after one on another input, whose files would undo its changes", startFacts{
			rounds: earlier(old, after(failures.TestFailure)),
			round:  anew,
		}, "input", failures.FromInput},
		{"cut off in an earlier run", startFacts{
			rounds:       earlier(same, session.RoundLog{ContinuableAttempt: 1}),
			conversation: spec.InDirectory, continuable: true,
		}, "input", failures.FromConversation},
		{"cut off on another input", startFacts{
			rounds:       earlier(old, session.RoundLog{ContinuableAttempt: 1}),
			conversation: spec.InDirectory, continuable: true,
		}, "input", failures.FromInput},
		{
			"after a failing check with other instructions, of which its conversation knows nothing",
			startFacts{
				rounds: earlier(otherwise, after(failures.TestFailure)), round: anew, conversation: spec.InDirectory,
				continuable: true,
			},
			"left", failures.FromFiles,
		},
		{"cut off with other instructions", startFacts{
			rounds:       earlier(otherwise, session.RoundLog{ContinuableAttempt: 1}),
			conversation: spec.InDirectory, continuable: true,
		}, "input", failures.FromInput},
		{
			"in an outage, with the files as they are",
			startFacts{outage: &session.Outage{FilesInPlace: true}},
			"input",
			failures.FromFiles,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := test.facts
			f.in.Input, f.in.Round, f.agent, f.firstRun, f.basis = "input", 1, "a", 2, session.Basis{Input: "input"}
			f.round.Order, f.round.Round = session.Order{Pass: 2, Run: 2, AnswersFrom: max(f.round.AnswersFrom, 1)}, 1
			f.intact = func(spec.Digest) bool { return true }
			s := f.decide()
			require.Equal(t, test.files, s.files)
			require.Equal(t, test.from, s.from())
		})
	}
}

func TestFilesThatAreLostAreNotKept(t *testing.T) {
	t.Parallel()
	f := startFacts{in: RoundInput{Input: "input", Round: 1}, intact: func(spec.Digest) bool { return false }}
	f.round.Attempts = []session.AttemptReport{{
		Attempt: 1, Files: "left",
		Failure: failures.Failure{Category: failures.TestFailure},
	}}
	s := f.decide()
	require.Equal(t, spec.Digest("input"), s.files)
	require.Equal(t, failures.FromInput, s.from())
	require.NotNil(t, s.failure)
}
