package control_test

import (
	"context"
	"crypto/sha256"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/sandbox/workdir"
	"github.com/maestro-hive/maestro/internal/store/state"
	"github.com/maestro-hive/maestro/internal/store/state/statetest"
)

// bench is a shelf with a session whose assignment build/dev is at work.
type bench struct {
	*shelf
	control.Attempts
	key session.Key
	dev spec.AssignmentID
}

func newBench(t *testing.T) *bench {
	t.Helper()
	s := newShelf(t)
	return &bench{
		shelf: s, Attempts: control.Attempts{Base: s.Base}, key: session.Key{Namespace: "default", Session: "s"},
		dev: spec.AssignmentID{Phase: "build", Persona: "dev"},
	}
}

// is sets the session's state.
func (s *bench) is(state session.State) {
	s.t.Helper()
	statetest.Put(s.t, s.shelf.Store.State, s.key, func(e *session.Execution) {
		e.Team, e.Status.Status = "crew", state
		e.Phases = []session.PhaseStatus{{Name: "build", Status: session.Running, Assignments: []session.AssignmentStatus{
			{Persona: "dev", AssignmentSummary: session.AssignmentSummary{Status: session.Running}},
		}}}
	})
}

// fails ends an attempt with a transcript.
func (s *bench) fails(attempt int, transcript string) {
	s.t.Helper()
	log, err := s.shelf.Store.Content.PutBlob(s.ctx, []byte(transcript))
	require.NoError(s.t, err)
	of := state.Assignment{Key: s.key, AssignmentID: s.dev}
	round := session.RoundRecord{Round: 1}
	r, err := s.shelf.Store.State.Record(s.ctx, of)
	require.NoError(s.t, err)
	if len(r.Rounds) > 0 {
		round = r.Rounds[0]
	}
	now := time.Now().UTC()
	round.Attempts = append(round.Attempts, session.AttemptReport{
		Attempt: attempt, Failure: failures.Failure{Category: failures.TestFailure, Message: "it is red", Output: "want 1"}, Log: log,
		StartedAt: now, EndedAt: now,
	})
	statetest.PutRounds(s.t, s.shelf.Store.State, of, round)
}

// prints appends to the live log.
func (s *bench) prints(text string) {
	s.t.Helper()
	dirs, err := workdir.New(workdir.Options{Root: workdir.DefaultRoot(s.shelf.Store.Dir())}).Make(s.key, s.dev)
	require.NoError(s.t, err)
	f, err := os.OpenFile(dirs.LiveLog, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(s.t, err)
	_, err = f.WriteString(text)
	require.NoError(s.t, err)
	require.NoError(s.t, f.Close())
	now := time.Now() // the clock of files is some milliseconds late
	require.NoError(s.t, os.Chtimes(dirs.LiveLog, now, now))
}

// following follows from a position, and calls take with each event until that is enough.
func (s *bench) following(from string, enough func(control.Event) bool) (last string, texts []string) {
	s.t.Helper()
	for e, err := range s.Follow(s.ctx, control.FollowInput{AttemptFilter: control.AttemptFilter{Session: "s"}, From: from}) {
		require.NoError(s.t, err)
		last, texts = e.ID, append(texts, string(e.Kind)+" "+e.Text+string(e.Status))
		if enough(e) {
			return last, texts
		}
	}
	return last, texts
}

func TestATranscriptIsReadInPieces(t *testing.T) {
	t.Parallel()
	s := newBench(t)
	s.is(session.Running)
	long := strings.Repeat("-- a line of the transcript, with an é\n", 10<<20/40)
	s.fails(1, long)
	id := control.AttemptRef{AssignmentID: s.dev, Round: 1, Attempt: 1}.Input("s")
	var read strings.Builder
	for at := int64(0); ; {
		part, err := s.Range(s.ctx, control.RangeInput{AttemptInput: id, From: at, Limit: 1 << 20})
		require.NoError(t, err)
		require.Equal(t, int64(len(long)), part.Size)
		read.WriteString(part.Text)
		if at = part.To; at == part.Size {
			break
		}
	}
	require.Equal(t, digestOf(long), digestOf(read.String()), "the parts are the whole")
	end, err := s.Range(s.ctx, control.RangeInput{AttemptInput: id, From: -1000, Limit: 4096})
	require.NoError(t, err)
	require.Equal(t, end.Size, end.To)
	require.True(t, strings.HasPrefix(end.Text, "-- a line"), "a part begins with a line")
	_, err = s.Range(s.ctx, control.RangeInput{AttemptInput: control.AttemptRef{
		AssignmentID: s.dev, Round: 7,
		Attempt: 1,
	}.Input("s"), Limit: 10})
	var failed *control.Error
	require.ErrorAs(t, err, &failed)
	require.Equal(t, control.NotFound, failed.Kind)
	_, err = s.Range(context.Background(), control.RangeInput{AttemptInput: id, Limit: 10})
	require.ErrorIs(t, err, access.ErrNotSignedIn)

	s.fails(2, "")
	second, err := s.Read(s.ctx, control.AttemptRef{AssignmentID: s.dev, Pass: 1, Round: 1, Attempt: 2}.Input("s"))
	require.NoError(t, err)
	require.Equal(t, "want 1", second.Feedback.Output, "it was told how the first one failed")
}

// TestAWaitingAttemptIsShown: what it has printed before it began to wait for a budget.
func TestAWaitingAttemptIsShown(t *testing.T) {
	t.Parallel()
	s := newBench(t)
	s.is(session.HelpIsNeeded)
	statetest.Put(t, s.shelf.Store.State, s.key, func(e *session.Execution) {
		e.Phases[0].Assignments[0].Status = session.HelpIsNeeded
	})
	s.prints("one\n")
	_, texts := s.following("", func(e control.Event) bool { return e.Kind == control.AttemptPrinted })
	require.Contains(t, texts, "output one\n")
}

// TestAReaderGoesOnWhereItWas after it, or what it reads from, was restarted.
func TestAReaderGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	s := newBench(t)
	s.is(session.Running)
	s.fails(1, "first\n")
	s.prints("one\ntwo\nthr")
	at, texts := s.following("", func(e control.Event) bool { return e.Kind == control.AttemptPrinted })
	require.Equal(t, []string{"attempt ", "output one\ntwo\n"}, texts)
	s.prints("ee\n")
	at, texts = s.following(at, func(e control.Event) bool { return e.Kind == control.SessionIs })
	require.Equal(t, []string{"output three\n", "session running"}, texts)
	s.fails(2, "one\ntwo\nthree\nfour\n")
	s.is(session.Completed)
	_, texts = s.following(at, func(control.Event) bool { return false })
	require.Equal(t, []string{"attempt ", "session completed"}, texts, "it ends with the session")
	_, texts = s.following(control.FollowNew, func(control.Event) bool { return false })
	require.Equal(t, []string{"session completed"}, texts)
	for _, err := range s.Follow(s.ctx, control.FollowInput{AttemptFilter: control.AttemptFilter{Session: "s"}, From: "nonsense"}) {
		require.ErrorContains(t, err, "not a position")
	}
}

// digestOf stands for a text that is too long to be printed.
func digestOf(text string) [sha256.Size]byte { return sha256.Sum256([]byte(text)) }
