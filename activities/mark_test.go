package activities_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// boundaries are those of the session's store.
func (p *past) boundaries() *activities.Boundaries {
	return &activities.Boundaries{Files: p.store.Content, Sessions: p.store, State: p.db(), Clock: time.Now}
}

// sendBack sends a phase's work back, with what builds on it.
func (p *past) sendBack(to string, open []string, left ...session.CheckpointAssignment) {
	p.t.Helper()
	var out activities.Reworked
	execute(p.t, p.boundaries().Rework, activities.ReworkInput{
		Boundary: p.boundary(), Left: left, Rework: session.Rework{To: to, By: "ada", Reasons: []string{"no"}, Open: open},
	}, &out)
	p.head = out.Head
}

// says keeps what a person has said.
func (p *past) says(a session.Answer) {
	p.t.Helper()
	var out activities.Marked
	execute(p.t, p.boundaries().Mark, activities.MarkInput{Boundary: p.boundary(), Answer: &a}, &out)
	p.head = out.Head
}

func (p *past) checkpoint() session.Checkpoint {
	p.t.Helper()
	c, err := p.store.Checkpoint(p.t.Context(), p.head)
	require.NoError(p.t, err)
	return c
}

// TestNotesOutliveTheRun: who continues is told what a person said last, also
// where finished work was sent back before, and where only the merged tree is to be fixed.
func TestNotesOutliveTheRun(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	in := p.phase("root", p.workspace, "pair")
	pair := p.phase("pair", in["pair"])
	require.Empty(t, pair)
	p.sendBack("pair", []string{"pair"})
	p.says(session.Answer{Request: "1", Phase: "pair", Persona: "p", Action: session.AnswerRetry, Note: "use the other port"})
	p.says(session.Answer{Request: "2", Phase: "pair", Persona: "p", Action: session.AnswerRetry})
	require.Equal(t, map[string]string{"pair/p": "use the other port"}, p.admit(session.Course{}).Notes)

	p = newPast(t)
	in = p.phase("root", p.workspace, "pair")
	p.work(spec.AssignmentID{Phase: "pair", Persona: "q"}, in["pair"])
	p.says(session.Answer{Request: "1", Phase: "pair", Persona: "q", Action: session.AnswerRetry, Note: "take both"})
	a := p.admit(session.Course{})
	require.Len(t, a.Partial, 1)
	require.Equal(t, map[string]string{"pair/q": "take both"}, a.Notes)
}

// TestUndoneWorkIsKeptOnce sends back a phase half of which was restored.
func TestUndoneWorkIsKeptOnce(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	in := p.phase("root", p.workspace, "pair")
	restored := p.work(spec.AssignmentID{Phase: "pair", Persona: "p"}, in["pair"])
	require.Len(t, p.admit(session.Course{}).Partial, 1)
	rest := p.work(spec.AssignmentID{Phase: "pair", Persona: "q"}, in["pair"])
	p.sendBack("root", []string{"root", "pair"}, restored.CheckpointAssignment, rest.CheckpointAssignment)
	var undone []string
	for _, a := range p.checkpoint().Reworks[0].Undone {
		undone = append(undone, a.String())
	}
	require.ElementsMatch(t, []string{"root/p", "pair/p", "pair/q"}, undone)
}

// TestForkPaysForNothingThatItsOriginHasUndone: the record of a fork adds up to what
// the fork has cost.
func TestForkPaysForNothingThatItsOriginHasUndone(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	in := p.phase("root", p.workspace, "pair")
	w := p.work(spec.AssignmentID{Phase: "pair", Persona: "p"}, in["pair"])
	w.Usage = cost.Usage{InputTokens: 7}
	p.sendBack("pair", []string{"pair"}, w.CheckpointAssignment)
	require.Equal(t, int64(17), p.checkpoint().Usage.Tokens())
	var a activities.Admission
	admitAs(t, "fork", admissions(p.store, p.db()).Admit, activities.AdmitInput{
		Start: session.Start{
			Store: p.store.ID(), Team: p.blob(p.encoded()), Requirement: p.blob([]byte(p.requirement)), Workspace: p.workspace,
			Run: 1, Base: p.head, Origin: &session.Origin{Session: "origin", Checkpoint: p.head},
		},
	}, &a)
	require.Empty(t, a.Problems)
	p.head = a.Status.Checkpoint
	require.Zero(t, p.checkpoint().Usage)
	require.Len(t, p.checkpoint().Reworks[0].Undone, 1)
}
