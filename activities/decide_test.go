package activities

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/cas"
)

// TestWhatARoundDoesInAnOutage has a team with a patience of 30 minutes, and a slot that is
// kept for a minute.
func TestWhatARoundDoesInAnOutage(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(minutes float64) time.Time { return now.Add(time.Duration(minutes * float64(time.Minute))) }
	outage := func(since, patience, until float64, noticed bool) session.Outage {
		return session.Outage{Since: at(since), PatienceFrom: at(patience), Until: at(until), Noticed: noticed}
	}
	for name, c := range map[string]struct {
		outage session.Outage
		order  OutageStance
		step   outageStep
		left   time.Duration
	}{
		"a short wait keeps the slot":                 {outage(0, 0, 0.5, false), "", keepSlot, 30 * time.Second},
		"the wait is over":                            {outage(-1, -1, 0, false), "", tryAgain, 0},
		"the outage lasts":                            {outage(-2, -2, 0.5, false), "", giveSlotBack, 30 * time.Second},
		"patience ends before the wait":               {outage(-29, -29, 5, false), "", giveSlotBack, time.Minute},
		"patience is over":                            {outage(-30, -30, 5, false), "", notifyOrFail, 0},
		"the session has noticed that it is over":     {outage(-1, -1, 5, false), OutageOver, notifyOrFail, 0},
		"people are notified":                         {outage(-60, -60, 5, true), OutageNoticed, giveSlotBack, 5 * time.Minute},
		"people are notified, and the wait is over":   {outage(-60, -60, 0, true), OutageNoticed, tryAgain, 0},
		"patience begins when the provider's time is": {outage(-60, 10, 10, false), "", giveSlotBack, 10 * time.Minute},
	} {
		patience := textfmt.Duration(30 * time.Minute)
		r := &round{Rounds: &Rounds{HoldSlot: time.Minute}, in: RoundInput{Outage: c.order}}
		r.session.team.Retry = spec.Retry{Patience: &patience}
		step, left := r.nextInOutage(c.outage, now)
		require.Equal(t, c.step, step, name)
		require.Equal(t, c.left, left, name)
	}
}

// TestWhatABreakerLearnsFromARound is nothing where the round is no evidence and has no lease to
// give back.
func TestWhatABreakerLearnsFromARound(t *testing.T) {
	t.Parallel()
	ordinary, probe := &session.BreakerPermit{Generation: 2}, &session.BreakerPermit{Generation: 2, Holder: "me"}
	const fails, works = failures.CountsAsFailure, failures.CountsAsSuccess
	for name, c := range map[string]struct {
		permit   *session.BreakerPermit
		category failures.Category
		final    bool
		wait     time.Duration
		want     failures.Weight
	}{
		"a request above every limit":  {permit: probe, category: failures.RateLimited, final: true, want: failures.Neutral},
		"a limit of a minute":          {permit: ordinary, category: failures.RateLimited, wait: time.Minute, want: fails},
		"a limit of a day":             {permit: ordinary, category: failures.RateLimited, wait: 9 * time.Hour},
		"a probe that meets one":       {permit: probe, category: failures.RateLimited, wait: 9 * time.Hour, want: failures.Neutral},
		"a long outage":                {permit: ordinary, category: failures.APIError, wait: 9 * time.Hour, want: fails},
		"a final failure of the agent": {permit: ordinary, category: failures.Unknown, final: true, want: fails},
		"an answer":                    {permit: ordinary, want: works},
		"a wrong answer is an answer":  {permit: ordinary, category: failures.TestFailure, want: works},
		"a failure of the provider":    {permit: ordinary, category: failures.APIError, want: fails},
		"a failure of a person's":      {permit: ordinary, category: failures.TokenBudget},
		"a probe gives its lease back": {permit: probe, category: failures.TokenBudget, want: failures.Neutral},
		"a probe that failed":          {permit: probe, category: failures.Timeout, want: fails},
		"a round that has not begun":   {category: failures.APIError},
	} {
		b := &agentBreaker{settings: spec.Breaker{Name: "agent"}}
		var failure *failures.Failure
		if c.category != "" {
			failure = &failures.Failure{Category: c.category, Message: "why", Final: c.final, RetryAfter: textfmt.Duration(c.wait)}
		}
		report := b.outcome("id", c.permit, failure)
		if c.want == "" {
			require.Nil(t, report, name)
			continue
		}
		require.NotNil(t, report, name)
		require.Equal(t, c.want, report.Outcome, name)
		require.Equal(t, *c.permit, report.BreakerPermit, name)
		require.Equal(t, c.category, report.Category, name)
		require.Equal(t, c.wait, report.RetryAfter.Std(), name)
	}
}

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
	failed := session.RoundRecord{RoundLog: after(failures.TestFailure)}
	limited := session.RoundRecord{RoundLog: after(failures.APIError)}
	cutOff := session.RoundLog{ContinuableAttempt: 1}
	for _, test := range []struct {
		name  string
		facts startFacts
		// talks: there is a conversation in the directory, which can continue.
		talks bool
		files spec.Digest
		from  failures.Start
	}{
		{"the first attempt", startFacts{}, false, "input", failures.FromInput},
		{"after a failing check: the files", startFacts{round: failed}, false, "left", failures.FromFiles},
		{
			"after an error of the provider, without a conversation",
			startFacts{round: limited},
			false, "input",
			failures.FromInput,
		},
		{"after one with a conversation in the directory", startFacts{round: limited}, true, "left", failures.FromConversation},
		{"on the work that was sent back", startFacts{former: "former"}, false, "former", failures.FromFiles},
		{
			"cut off in the first attempt",
			startFacts{round: session.RoundRecord{RoundLog: cutOff}},
			true, "input",
			failures.FromConversation,
		},
		{
			"in an outage, with the files that were stored",
			startFacts{outage: &session.Outage{FilesInPlace: true, Files: "stored"}},
			false, "stored", failures.FromFiles,
		},
		{
			"in an outage, with the files as they are",
			startFacts{outage: &session.Outage{FilesInPlace: true}},
			false, "input",
			failures.FromFiles,
		},
		{
			"cut off, with a conversation in the store",
			startFacts{round: session.RoundRecord{RoundLog: cutOff}, stored: &session.Conversation{Files: "stored"}},
			true,
			"stored", failures.FromConversation,
		},
		{
			"after a failing check, with a conversation in the store",
			startFacts{round: failed, stored: &session.Conversation{Files: "left"}},
			true, "left", failures.FromConversation,
		},
		{
			"after a failing check in an earlier run",
			startFacts{rounds: earlier(same, after(failures.TestFailure)), round: anew},
			false, "left", failures.FromFiles,
		},
		{
			"after one on another input, whose files would undo its changes",
			startFacts{rounds: earlier(old, after(failures.TestFailure)), round: anew},
			false, "input", failures.FromInput,
		},
		{"cut off in an earlier run", startFacts{rounds: earlier(same, cutOff)}, true, "input", failures.FromConversation},
		{"cut off on another input", startFacts{rounds: earlier(old, cutOff)}, true, "input", failures.FromInput},
		{
			"after a failing check with other instructions, of which its conversation knows nothing",
			startFacts{rounds: earlier(otherwise, after(failures.TestFailure)), round: anew},
			true, "left", failures.FromFiles,
		},
		{"cut off with other instructions", startFacts{rounds: earlier(otherwise, cutOff)}, true, "input", failures.FromInput},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := test.facts
			if test.talks {
				f.conversation, f.continuable = spec.InDirectory, true
			}
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

// TestAPhaseAddsToACheckpointWhatMergingAllWouldGive draws teams, and work that edits, removes
// and disagrees.
func TestAPhaseAddsToACheckpointWhatMergingAllWouldGive(t *testing.T) {
	t.Parallel()
	st, err := store.Create(t.TempDir(), store.Options{Clock: time.Now})
	require.NoError(t, err)
	workspace, err := st.Content.PutManifest(t.Context(), cas.Manifest{"a": entry(0), "d/x": entry(0)})
	require.NoError(t, err)
	conflicting := 0
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 0))
		team := drawTeam(r)
		base := mergeBase{st.Content, team, workspace, map[string]string{"given": "yes"}}
		done := map[spec.AssignmentID]session.CheckpointAssignment{}
		var c session.Checkpoint
		_, err := base.fill(t.Context(), &c, done)
		require.NoError(t, err)
		for _, phase := range team.Topological() {
			p, _ := team.Phase(phase)
			for _, persona := range p.Personas {
				delta, err := st.Content.PutDelta(t.Context(), drawDelta(r))
				require.NoError(t, err)
				a := session.CheckpointAssignment{AssignmentID: spec.AssignmentID{Phase: phase, Persona: persona}}
				a.Usage = cost.Usage{InputTokens: 1}
				a.Work = session.Work{Delta: delta, Decisions: map[string]string{fmt.Sprint("d", r.IntN(3)): fmt.Sprint(r.IntN(2))}}
				done[a.AssignmentID] = a
			}
			decided, _ := session.MergeDecisions(base.given, session.Steps(team, append(team.Ancestors(phase), phase), done))
			require.Equal(t, decided, base.decisions(c, phase, done), "seed %d, before %s", seed, phase)
			var all session.Checkpoint
			expected, err := base.fill(t.Context(), &all, done)
			require.NoError(t, err)
			conflicts, err := base.extend(t.Context(), &c, phase, done)
			require.NoError(t, err)
			require.Equal(t, all, c, "seed %d, after %s", seed, phase)
			require.Equal(t, expected, conflicts, "seed %d, after %s", seed, phase)
			conflicting += min(len(conflicts), 1)
		}
	}
	require.Greater(t, conflicting, 50)
}

func entry(content int) cas.Entry {
	return cas.Entry{SHA256: spec.DigestOf([]byte{byte(content)}), Size: 1}
}

// drawTeam draws phases that build on some of those before them.
func drawTeam(r *rand.Rand) spec.Team {
	team := spec.Team{Version: 1, Name: "t", Personas: map[string]spec.Persona{"one": {Agent: "a"}, "two": {Agent: "a"}}}
	for i := range 2 + r.IntN(4) {
		p := spec.Phase{Name: fmt.Sprint("p", i), Personas: []string{"one", "two"}[:1+r.IntN(2)], Needs: []string{}}
		if r.IntN(2) == 0 {
			p.Order = spec.OrderSequence
		}
		for before := range i {
			if r.IntN(3) > 0 {
				p.Needs = append(p.Needs, fmt.Sprint("p", before))
			}
		}
		team.Phases = append(team.Phases, p)
	}
	return team.Resolved()
}

func drawDelta(r *rand.Rand) cas.Delta {
	d := cas.Delta{}
	for _, paths := range [][]string{{"a"}, {"b"}, {"d", "d/x", "d/y/z"}} {
		if path := paths[r.IntN(len(paths))]; r.IntN(2) == 0 {
			d[path] = cas.Change{Entry: entry(r.IntN(3))}
			if r.IntN(3) == 0 {
				d[path] = cas.Change{Deleted: true}
			}
		}
	}
	return d
}
