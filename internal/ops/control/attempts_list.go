package control

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/ops/sessionstatus"
)

// RunningAttempt is an attempt at work.
type RunningAttempt struct {
	spec.AssignmentID
	// Attempt is its number in its round; zero: not known yet.
	Attempt  int        `json:"attempt"`
	Agent    string     `json:"agent,omitempty"`
	Since    time.Time  `json:"since"`
	Progress string     `json:"progress,omitempty"`
	Usage    cost.Usage `json:"usage"`
}

// AttemptList is the attempts of a session.
type AttemptList struct {
	Session string `json:"session"`
	// Attempts have finished, in the order of the team file, the oldest first.
	Attempts []Attempt `json:"attempts"`
	// Running are at work.
	Running []RunningAttempt `json:"running"`
	Damage
	// Next is the position from which [Attempts.Follow] yields the events after the list.
	Next string `json:"next"`
}

// Select is a PHASE, a PHASE/PERSONA, or empty for everything.
type Select string

// Matches reports whether an assignment is selected.
func (s Select) Matches(id spec.AssignmentID) bool {
	phase, persona, _ := strings.Cut(string(s), "/")
	return (phase == "" || phase == id.Phase) && (persona == "" || persona == id.Persona)
}

// AttemptFilter selects attempts of a session.
type AttemptFilter struct {
	Session    string `path:"session" maxLength:"200" doc:"the session's id"`
	Assignment Select `query:"assignment" maxLength:"210" doc:"PHASE or PHASE/PERSONA; empty: all"`
}

// List lists the selected attempts. It needs the store; without Temporal, it lists no attempts at
// work.
func (a Attempts) List(ctx context.Context, in AttemptFilter) (AttemptList, error) {
	doc := AttemptList{Session: in.Session, Running: []RunningAttempt{}}
	_, key, err := a.inStore(ctx, in.Session)
	if err != nil {
		return doc, err
	}
	e, err := a.execution(ctx, key)
	if err != nil {
		return doc, err
	}
	if doc.Attempts, doc.Damage.Damage, err = a.finished(ctx, key, e, in.Assignment); err != nil {
		return doc, err
	}
	places := map[spec.AssignmentID]place{}
	for _, done := range doc.Attempts {
		places[done.AssignmentID] = place{ended: places[done.AssignmentID].ended + 1}
	}
	doc.Next = positionOf(assignmentsOf(e), places)
	w, err := a.reader(in.Session)
	if err != nil || w.Conn == nil {
		return doc, err
	}
	v, err := w.Look(ctx)
	if err != nil {
		return doc, asNotFound(in.Session, err)
	}
	doc.Running = runningOf(v, in.Assignment)
	return doc, nil
}

// execution is the session's status as of its newest boundary; zero if there is none, or it cannot be read.
func (a Attempts) execution(ctx context.Context, key session.Key) (session.Execution, error) {
	e, err := a.Store.State.Execution(ctx, key)
	if errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrCorrupt) {
		return session.Execution{}, nil
	}
	return e, err
}

// finished lists the selected finished attempts, in the order of the team file, those of an assignment oldest first.
func (a Attempts) finished(ctx context.Context, key session.Key, e session.Execution, selected Select) (all []Attempt,
	damage string, err error,
) {
	records, err := a.Store.State.Records(ctx, key)
	if err != nil {
		damage = err.Error()
	}
	if records, err = selectRecords(records, e, selected); err != nil {
		return nil, damage, err
	}
	all = []Attempt{}
	for _, record := range records {
		all = append(all, AttemptsOf(record)...)
	}
	return all, damage, nil
}

func runningOf(v sessionstatus.Session, selected Select) []RunningAttempt {
	all := []RunningAttempt{}
	for _, p := range v.Phases {
		for _, as := range p.Assignments {
			id := spec.AssignmentID{Phase: p.Name, Persona: as.Persona}
			if at, live := v.Live[id]; live && selected.Matches(id) {
				all = append(all, RunningAttempt{
					AssignmentID: id, Attempt: at.Number, Agent: as.Agent, Since: at.Since, Progress: textfmt.Shorten(as.Progress, maxLine),
					Usage: as.Usage,
				})
			}
		}
	}
	return all
}

// selectRecords sorts records in the order of the team file, and selects those of a phase or an assignment. An
// existing assignment without a record is not an error.
func selectRecords(records []session.Record, e session.Execution, selected Select) ([]session.Record, error) {
	rank := map[spec.AssignmentID]int{}
	var all []string
	isKnown := selected == ""
	for i, id := range assignmentsOf(e) {
		rank[id] = i
		all = append(all, id.String())
		isKnown = isKnown || selected.Matches(id)
	}
	records = slices.DeleteFunc(records, func(r session.Record) bool { return !selected.Matches(r.Assignment) })
	slices.SortStableFunc(records, func(x, y session.Record) int { return rank[x.Assignment] - rank[y.Assignment] })
	if len(records) == 0 && !isKnown {
		return nil, invalidf("assignment", "%s not found in the session; it has %s",
			textfmt.Shorten(string(selected), 80), strings.Join(all, ", "))
	}
	return records, nil
}
