package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/ops/sessionstatus"
)

// recorded is a session in the states in which one was seen: two personas work, their work is merged,
// a reviewer sends it back, and both work again.
type recorded struct {
	clock time.Time
	v     sessionstatus.Session
	w     *lookout
}

func newRecorded() *recorded {
	r := &recorded{v: sessionstatus.Session{Status: session.Status{Session: "s", Team: "crew", Status: session.Running, Phases: []session.PhaseStatus{
		{Name: "build", Status: session.Pending, Assignments: []session.AssignmentStatus{{Persona: "a", AssignmentSummary: session.NoWork()}, {Persona: "b", AssignmentSummary: session.NoWork()}}},
		{Name: "review", Status: session.Pending, Assignments: []session.AssignmentStatus{{Persona: "critic", AssignmentSummary: session.NoWork()}}},
	}}}}
	r.w = &lookout{session: "s", now: func() time.Time { return r.clock }}
	return r
}

func (r *recorded) at(second int) time.Time { return time.Unix(1_000_000+int64(second), 0) }

func (r *recorded) phase(i int, state session.State) { r.v.Phases[i].Status = state }

// work is what the record of a persona of build has.
func (r *recorded) work(persona int, state session.State, pass, round int, attempts ...control.Attempt) {
	a := &r.v.Phases[0].Assignments[persona]
	id := spec.AssignmentID{Phase: "build", Persona: a.Persona}
	a.Status, a.Rounds, a.Failures = state, pass-1+round, nil
	p := control.AssignmentProgress{AssignmentID: id, Pass: pass, Round: round, Finished: state.Done(), Attempts: attempts}
	for _, at := range attempts {
		if at.Status == session.Failed {
			a.Failures = append(a.Failures, session.AttemptFailure{Category: failures.TestFailure, Message: "red"})
		}
	}
	var others []control.AssignmentProgress
	for _, o := range r.w.progress.Work {
		if o.AssignmentID != id {
			others = append(others, o)
		}
	}
	r.w.progress.Work = append(others, p)
}

func (r *recorded) attempt(state session.State, pass, round, attempt, from, to int) control.Attempt {
	ended := r.at(to)
	return control.Attempt{AttemptRef: control.AttemptRef{Pass: pass, Round: round, Attempt: attempt}, Status: state, StartedAt: r.at(from), EndedAt: &ended}
}

// run shows the states to an observer, from the one with a number on, and returns its lines after each
// with the seconds of their times.
func (r *recorded) run(t *testing.T, from int) (shown [][]string) {
	t.Helper()
	var out bytes.Buffer
	a := newApp(Env{Stdout: &out, Stderr: &out, Now: func() time.Time { return r.clock }})
	lines := newLineObserver(a.console, r.w)
	failed1, failed2 := r.attempt(session.Failed, 1, 1, 1, 1, 5), r.attempt(session.Failed, 2, 1, 1, 21, 25)
	done, done1, done2 := r.attempt(session.Completed, 1, 1, 1, 1, 8), r.attempt(session.Completed, 1, 2, 1, 6, 9), r.attempt(session.Completed, 2, 2, 1, 26, 28)
	for i, step := range []func(){
		func() { r.clock = r.at(0) },
		func() {
			r.clock = r.at(10)
			r.phase(0, session.Running)
			r.work(0, session.Completed, 1, 1, done)
			r.work(1, session.Completed, 1, 2, failed1, done1)
		},
		func() { r.clock = r.at(12); r.phase(0, session.Completed) },
		func() {
			r.clock = r.at(20)
			r.phase(0, session.Running)
			r.w.progress.Reworks = []session.Rework{{To: "build", From: spec.AssignmentID{Phase: "review", Persona: "critic"}, Open: []string{"build", "review"}, At: r.at(19)}}
			r.work(0, session.Running, 1, 1, done)
			r.work(1, session.Running, 1, 2, failed1, done1)
		},
		func() {
			r.clock = r.at(27)
			r.work(1, session.Running, 2, 2, failed1, done1, failed2)
		},
		func() {
			r.clock = r.at(30)
			r.work(1, session.Completed, 2, 2, failed1, done1, failed2, done2)
		},
	} {
		step()
		if i < from {
			continue
		}
		out.Reset()
		v := r.v
		v.Status = v.Clone()
		lines.update(t.Context(), v)
		texts := []string{}
		for line := range strings.Lines(strings.TrimSuffix(out.String(), "\n")) {
			line = strings.TrimSuffix(line, "\n")
			texts = append(texts, line[min(6, len(line)):])
		}
		shown = append(shown, texts)
	}
	return shown
}

// Lines name the pass of the work that they are about.
func TestLinesNameTheirPass(t *testing.T) {
	t.Parallel()
	require.Equal(t, [][]string{
		{"40  session s of team crew: running"},
		{
			"50  build: started", "50  build/a: completed", "50  build/b: attempt 1 failed: test_failure: red",
			"50  build/b: completed", "50  build: merging and checking its work",
		},
		{"52  build: completed, 0 tokens so far"},
		{"00  build (pass 2): started"},
		{"07  build/b: attempt 2 failed: test_failure: red"},
		{"10  build/b (pass 2): completed"},
	}, newRecorded().run(t, 0))
}
