package sessionstatus

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// Intervention is a change of a session's course by a person, or by an agent that sends work back.
type Intervention struct {
	At time.Time `json:"at"`
	// By is the person, or the assignment that sent work back, as PHASE/PERSONA.
	By string `json:"by"`
	// Action is an answer's action, send_back or raise.
	Action session.Action `json:"action"`
	// Phase and Persona are what it is about; both are empty for a budget of the session or of its team's day.
	Phase   string `json:"phase,omitempty"`
	Persona string `json:"persona,omitempty"`
	// Text is the person's note, or the reasons of the agent.
	Text string `json:"text,omitempty"`
	// Budget is the budget that was raised, by its scope, and Added what was added to it.
	Budget string      `json:"budget,omitempty"`
	Added  cost.Amount `json:"added,omitzero"`
	// Left is how many more persons had to approve.
	Left int `json:"left,omitempty"`
}

// The actions of interventions that are no answers.
const (
	SendBack session.Action = "send_back"
	Raise    session.Action = "raise"
)

const (
	// maxInterventions bounds how many interventions a status has, the newest.
	maxInterventions = 100
	// maxInterventionText bounds the text of each, in bytes.
	maxInterventionText = 4 * 1024
)

// InterventionsOf lists the interventions of a checkpoint and of raises of budgets, oldest first.
func InterventionsOf(c session.Checkpoint, raises []budget.Raise) []Intervention {
	all := []Intervention{}
	for _, a := range c.Answers {
		all = append(all, Intervention{
			At: a.At, By: cmp.Or(a.By, a.Person), Action: a.Action, Phase: a.Phase, Persona: a.Persona,
			Text: a.Note, Left: a.Left,
		})
	}
	for _, r := range c.Reworks {
		if r.From != (spec.AssignmentID{}) { // a person's rejection is among the answers
			all = append(all, Intervention{
				At: r.At, By: r.From.String(), Action: SendBack, Phase: r.To,
				Text: strings.Join(r.Reasons, "; "),
			})
		}
	}
	for _, r := range raises {
		one := Intervention{At: r.When, By: r.By, Action: Raise, Text: r.Note, Budget: r.Scope, Added: r.Added}
		one.Phase, one.Persona = budget.Part(r.Scope)
		all = append(all, one)
	}
	slices.SortStableFunc(all, func(a, b Intervention) int { return a.At.Compare(b.At) })
	all = all[max(0, len(all)-maxInterventions):]
	for i := range all {
		all[i].Text = textfmt.Shorten(all[i].Text, maxInterventionText)
	}
	return all
}

// Subject names what the intervention is about.
func (i Intervention) Subject() string {
	if i.Action == Raise {
		return i.Budget
	}
	return session.Request{Phase: i.Phase, Persona: i.Persona}.Subject()
}
