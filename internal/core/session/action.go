package session

import (
	"slices"
	"strings"
)

// Action is what an answer does.
type Action string

// The actions. Each has a row in the table of actions below.
const (
	// AnswerRetry: start new rounds; the agent gets the note.
	AnswerRetry Action = "retry"
	// AnswerSkip: continue without the assignment's work.
	AnswerSkip Action = "skip"
	// AnswerSupply: use the supplied files as the work, checked like an agent's.
	AnswerSupply Action = "supply"
	// AnswerAbort: end the session.
	AnswerAbort Action = "abort"
	// AnswerApprove: start the dependent phases.
	AnswerApprove Action = "approve"
	// AnswerReject: repeat the phase; its agents get the note.
	AnswerReject Action = "reject"
)

// ActionRule is an action's row of the table of actions. The session, and everything that shows
// requests to people, use the same rows.
type ActionRule struct {
	Action Action
	// Label names the action, as on a button.
	Label string
	// Effect describes what the action does; [Action.Effect] describes it by kind.
	Effect string
	// Note is the prompt for the note.
	Note string
	// NeedsNote: the note is required. It says what is wrong.
	NeedsNote bool
	// NeedsFiles: the answer has files.
	NeedsFiles bool
	// Key selects the action in a live view; empty: no key does.
	Key string
}

// actions has one row for each action.
var actions = []ActionRule{
	{Action: AnswerApprove, Label: "Approve", Effect: "starts the dependent phases", Note: "note (optional)", Key: "a"},
	{
		Action: AnswerReject, Label: "Reject", Effect: "has it done again with your note", Note: "what is wrong", NeedsNote: true,
		Key: "x",
	},
	{Action: AnswerRetry, Label: "Retry", Effect: "tries again", Note: "note for the agent", Key: "r"},
	{Action: AnswerSkip, Label: "Skip", Effect: "continues without this work", Note: "note (optional)"},
	{
		Action: AnswerSupply, Label: "Supply files", Effect: "uses your files, checked like an agent's", Note: "note (optional)",
		NeedsFiles: true,
	},
	{Action: AnswerAbort, Label: "Abort", Effect: "ends the session", Note: "note (optional)"},
}

// ActionRules lists the rows of all actions.
func ActionRules() []ActionRule { return slices.Clone(actions) }

// Rule is the action's row of the table; the zero row for an unknown action.
func (a Action) Rule() ActionRule {
	if i := slices.IndexFunc(actions, func(r ActionRule) bool { return r.Action == a }); i >= 0 {
		return actions[i]
	}
	return ActionRule{}
}

// Effect describes what the action does to a request of a kind.
func (a Action) Effect(k RequestKind) string {
	if retry := k.Rule().Retry; a == AnswerRetry && retry != "" {
		return retry
	}
	return a.Rule().Effect
}

// LacksNote reports whether an answer needs a note and has none.
func (a Action) LacksNote(note string) bool {
	return a.Rule().NeedsNote && strings.TrimSpace(note) == ""
}

// OfPhase reports whether the action answers a request about a finished phase.
func (a Action) OfPhase() bool { return slices.Contains(ForApproval.Rule().Actions, a) }

// Choice is an answer that a person can choose.
type Choice struct {
	Action     Action `json:"action"`
	Label      string `json:"label"`
	Effect     string `json:"effect"`
	NeedsNote  bool   `json:"needs_note"`
	NeedsFiles bool   `json:"needs_files"`
}

// Choices lists the answers that the request takes, the most common first.
func (h Request) Choices() []Choice {
	all := []Choice{}
	for _, a := range h.Actions {
		if rule := a.Rule(); h.Takes(a) {
			effect := a.Effect(h.Kind)
			if a == AnswerSkip && h.SkipEffect != "" {
				effect = h.SkipEffect
			}
			all = append(all, Choice{a, rule.Label, effect, rule.NeedsNote, rule.NeedsFiles})
		}
	}
	return all
}
