package tui

import (
	"context"
	"time"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// Session is what is drawn of a session. Text of any origin may be in it: it is
// made harmless when it is drawn.
type Session struct {
	ID, Team string
	State    session.State
	// Run counts the session's runs, from 1.
	Run int
	// Requirement is its first words.
	Requirement string
	// Started and Closed bound the present run; zero where that is not known, or
	// not so yet.
	Started, Closed time.Time
	// Usage is the session's so far.
	Usage cost.Usage
	// Limit is the session's budget, and Spent what is spent of it. Zero fields of
	// Limit do not limit.
	Limit spec.Cap
	Spent cost.Amount
	// Phases are in the team file's order.
	Phases []Phase
	// Requests are what a person is needed for. Budgets are those that can be raised
	// although nobody has asked for it.
	Requests, Budgets []Request
	// Reason is a sentence on why the session failed or what it waits for.
	Reason string
	// Notes are sentences on what a person should know besides.
	Notes []string
}

// Phase is a phase in the drawing.
type Phase struct {
	Name  string
	State session.State
	// Needs names the phases that it builds on.
	Needs []string
	// SentBack: its work was sent back at least once.
	SentBack bool
	// Left: the session does not run it.
	Left bool
	// Delivers says how the pull request stands by which the phase delivers; empty: there is none.
	Delivers    string
	Assignments []Assignment
}

// Assignment is an assignment in the drawing.
type Assignment struct {
	Persona string
	State   session.State
	// Agent works in the place of the persona's own; empty: nobody does.
	Agent string
	// Pass counts how often the assignment was begun afresh, from 1; zero before the
	// first. Round is the present one of the pass, and Attempt the present one of the
	// round, or the last; they count in the same way.
	Pass, Round, Attempt int
	// Worked is the time at work in all attempts.
	Worked time.Duration
	Usage  cost.Usage
	// Progress is the agent's last word while it works; Summary what it says of
	// its work once that is done.
	Progress, Summary string
	// Failures are the failed attempts, oldest first.
	Failures []session.AttemptFailure
	// LostWorkers counts the workers that died during the assignment.
	LostWorkers int
	// Awaits is the breaker that it waits for; nil: none.
	Awaits *session.BreakerWait
}

// Request is something that a person is needed for.
type Request struct {
	// Title says who needs what, and why.
	Title string
	// Until is when the session gives up waiting; zero: never.
	Until time.Time
	// Commands are what can be typed, what goes continues first.
	Commands []Command
	// ID is what the session knows the request by, Of whose work it is about, and Name
	// what it is about in words.
	ID   string
	Of   spec.AssignmentID
	Name string
	// Takes are the actions that answer it. Some have a key.
	Takes []session.Action
	// Amounts says what a budget is raised by, like tokens; Budget is the one.
	Amounts string
	Budget  session.BudgetRaise
}

// Command is a command to type, and what it does.
type Command struct{ Text, Does string }

// Source takes a person's answers.
type Source interface {
	// Answer sends an answer to the session, and returns what it does in words. An error
	// is a refusal, of the session's or before it.
	Answer(ctx context.Context, a Answer) (string, error)
}

// elapsed is how long the session has lasted.
func (s Session) elapsed(now time.Time) time.Duration {
	switch {
	case s.Started.IsZero():
		return 0
	case !s.Closed.IsZero():
		return s.Closed.Sub(s.Started)
	}
	return max(now.Sub(s.Started), 0)
}

// assignments lists the assignments in the order of the drawing.
func (s Session) assignments() []spec.AssignmentID {
	var all []spec.AssignmentID
	for _, layer := range layers(s.Phases) {
		for _, p := range layer {
			for _, a := range p.Assignments {
				all = append(all, spec.AssignmentID{Phase: p.Name, Persona: a.Persona})
			}
		}
	}
	return all
}

// assignment finds an assignment; nil: the session has no such.
func (s Session) assignment(id spec.AssignmentID) *Assignment {
	for i := range s.Phases {
		for j := range s.Phases[i].Assignments {
			if s.Phases[i].Name == id.Phase && s.Phases[i].Assignments[j].Persona == id.Persona {
				return &s.Phases[i].Assignments[j]
			}
		}
	}
	return nil
}

// busiest is the assignment that a person most likely wants to see: the first
// that needs help, else the first at work, else the first that waits; otherwise
// the last that is done, and at the beginning the first.
func (s Session) busiest() spec.AssignmentID {
	rank := func(st session.State) int {
		switch st {
		case session.HelpIsNeeded, session.Failed:
			return 4
		case session.Running:
			return 3
		case session.Waiting:
			return 2
		default:
			if st.Done() {
				return 1
			}
			return 0
		}
	}
	var best spec.AssignmentID
	highest := -1
	for _, id := range s.assignments() {
		r := rank(s.assignment(id).State)
		if r > highest || r == 1 && highest == 1 {
			best, highest = id, r
		}
	}
	return best
}
