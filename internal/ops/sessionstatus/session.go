package sessionstatus

import (
	"encoding/json"
	"time"

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
	// Live has the attempts at work, from Temporal.
	Live Live `json:"live,omitempty"`
}

// Live has attempts at work by their assignments. As JSON it is an object by PHASE/PERSONA.
type Live map[spec.AssignmentID]Attempt

// MarshalJSON implements [json.Marshaler].
func (l Live) MarshalJSON() ([]byte, error) {
	all := map[string]Attempt{}
	for id, at := range l {
		all[id.String()] = at
	}
	return json.Marshal(all)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (l *Live) UnmarshalJSON(data []byte) error {
	var all map[string]Attempt
	if err := json.Unmarshal(data, &all); err != nil {
		return err
	}
	*l = Live{}
	for name, at := range all {
		id, err := spec.ParseAssignmentID(name)
		if err != nil {
			return err
		}
		(*l)[id] = at
	}
	return nil
}

// Attempt is an attempt at work: its start time, and its number in its round, which is zero until a
// heartbeat has reported it.
type Attempt struct {
	Number int       `json:"number"`
	Since  time.Time `json:"since"`
}
