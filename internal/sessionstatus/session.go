package sessionstatus

import (
	"encoding/json"
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
	Notes []string `json:"notes"`
	// RunID is the run that all of it is about.
	RunID string `json:"run_id"`
	// firstRun is the first of the runs that continue each other as new, up to RunID.
	firstRun string
	// Requirement is its first words.
	Requirement string `json:"requirement"`
	// stored: it is from the session's status document.
	stored bool
	// Faults says why a session was not admitted.
	Faults []string `json:"faults,omitempty"`
	// Warnings are those of budgets of a running session, the greatest of each.
	Warnings []budget.Warning `json:"warnings,omitempty"`
	// Revision is the status document's.
	Revision int64 `json:"revision"`
	// Course is the part of the team's work that the session does, as far as that is known.
	Course session.Course `json:"course,omitzero"`
	// Limit and Spent are the session's budget, where there is one.
	Limit spec.Cap    `json:"limit,omitzero"`
	Spent cost.Amount `json:"spent,omitzero"`
	// Live has the attempts at work, as Temporal knows them.
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

// Attempt is an attempt at work: its number in its round, zero where no heartbeat
// has told it yet, and when it began.
type Attempt struct {
	Number int       `json:"number"`
	Since  time.Time `json:"since"`
}
