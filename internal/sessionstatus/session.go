package sessionstatus

import (
	"time"

	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

// Session is what is known of a session at one moment.
type Session struct {
	session.Status
	// Notes says, a sentence each, what a person should know about the session
	// besides its status: that nobody serves it, that its history is gone.
	Notes []string
	// RunID is the run that all of it is about.
	RunID string
	// firstRun is the first of the runs that continue each other as new, up to RunID.
	firstRun string
	// Requirement is its first words.
	Requirement string
	// stored: it is from the session's status document.
	stored bool
	// Faults says why a session was not admitted.
	Faults []string
	// Warnings are those of budgets of a running session, the greatest of each.
	Warnings []budget.Warning
	// Revision is the status document's.
	Revision int64
	// Course is the part of the team's work that the session does, as far as that is known.
	Course session.Course
	// Limit and Spent are the session's budget, where there is one.
	Limit spec.Cap
	Spent cost.Amount
	// Live has the attempts at work, as Temporal knows them.
	Live map[spec.AssignmentID]Attempt
}

// Attempt is an attempt at work: its number in its round, zero where no heartbeat
// has told it yet, and when it began.
type Attempt struct {
	Number int
	Since  time.Time
}
