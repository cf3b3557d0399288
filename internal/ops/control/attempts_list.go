package control

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// AttemptList is the attempts of a session.
type AttemptList struct {
	Session string `json:"session"`
	// Attempts are in the order of the team file, the oldest first. Those in progress are running or waiting.
	Attempts []Attempt `json:"attempts"`
	Damage
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
	// EndedAfter leaves out attempts that ended before.
	EndedAfter time.Time `query:"ended_after" doc:"only attempts that ended later, and those in progress"`
}

// List lists the selected attempts.
func (a Attempts) List(ctx context.Context, in AttemptFilter) (AttemptList, error) {
	doc := AttemptList{Session: in.Session, Attempts: []Attempt{}}
	_, key, err := a.InStore(ctx, in.Session)
	if err != nil {
		return doc, err
	}
	e, err := a.execution(ctx, key)
	if err != nil {
		return doc, err
	}
	records, err := a.Store.State.Records(ctx, key)
	if err != nil {
		doc.Damage.Damage = err.Error()
	}
	if records, err = selectRecords(records, e, in.Assignment); err != nil {
		return doc, err
	}
	for _, record := range records {
		for _, at := range AttemptsOf(record) {
			if at.Ended().After(in.EndedAfter) {
				doc.Attempts = append(doc.Attempts, at)
			}
		}
		if at, ok := begun(record); ok && !e.Status.Status.Closed() {
			doc.Attempts = append(doc.Attempts, at)
		}
	}
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

// assignmentsOf lists the assignments of a session, in the order of the team file.
func assignmentsOf(e session.Execution) (all []spec.AssignmentID) {
	for _, p := range e.Phases {
		for _, as := range p.Assignments {
			all = append(all, spec.AssignmentID{Phase: p.Name, Persona: as.Persona})
		}
	}
	return all
}
