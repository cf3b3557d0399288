package sessionstatus

import (
	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// Session is the known state of a session at one moment: what `status -o json`, the API and MCP return.
type Session struct {
	session.Status
	// Notes lists, a sentence each, facts that a person needs besides the status: for example that
	// no worker serves the session, or that its history is missing.
	Notes []string `json:"notes"`
	// RunID is the run that the status is about.
	RunID string `json:"run_id"`
	// firstRun is the first of the runs that continue each other as new, up to RunID.
	firstRun string
	// Requirement is the beginning of the requirement.
	Requirement string `json:"requirement"`
	// stored: it is from the session's status document.
	stored bool
	// Faults lists the reasons why a session was not admitted.
	Faults []string `json:"faults,omitempty"`
	// Warnings are the budget warnings of a running session, the highest of each budget.
	Warnings []budget.Warning `json:"warnings,omitempty"`
	// Revision is the status document's.
	Revision int64 `json:"revision"`
	// Course is the part of the team's work that the session does, if it is known.
	Course session.Course `json:"course,omitzero"`
	// Limit and Spent are the session's budget, if it has one.
	Limit spec.Cap    `json:"limit,omitzero"`
	Spent cost.Amount `json:"spent,omitzero"`
	// Interventions are what people, and agents that send work back, did to its course, oldest first:
	// the newest 100. [Reader.Look] leaves them out.
	Interventions []Intervention `json:"interventions"`
	// Checks names the checks that the team's work has to pass, each once. [Reader.Look] leaves them out.
	Checks []string `json:"checks,omitempty"`
}
