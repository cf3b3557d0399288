package session

import (
	"slices"
	"time"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// RequestKind is what a person is needed for.
type RequestKind string

// The kinds of requests. Each has a row in the table of requests below.
const (
	// ForHelp: an assignment's rounds are used up, or work conflicts.
	ForHelp RequestKind = "help"
	// ForBudget: a budget is used up.
	ForBudget RequestKind = "budget"
	// ForOutage: an assignment waits for its provider or its machine, and continues by itself. No
	// answer is required.
	ForOutage RequestKind = "outage"
	// ForApproval: a phase is done, and its dependent phases wait for a decision.
	ForApproval RequestKind = "approval"
)

// KindRule is a kind's row of the table of requests.
type KindRule struct {
	Kind RequestKind
	// Need describes what the request needs, as a sentence that begins with its subject.
	Need string
	// Actions are the answers that requests of the kind can take. One request may take fewer.
	Actions []Action
	// OfPhase: the request is about a finished phase. It has no persona, no failure and no
	// time limit.
	OfPhase bool
	// NoticeOnly: the session continues by itself; no answer is required.
	NoticeOnly bool
	// Retry is the effect of a retry; empty: requests of the kind do not take one.
	Retry string
}

// requestKinds has one row for each kind.
var requestKinds = []KindRule{
	{Kind: ForHelp, Need: "needs help", Retry: "tries again", Actions: []Action{AnswerRetry, AnswerSkip, AnswerSupply, AnswerAbort}},
	{
		Kind: ForBudget, Need: "needs a larger budget", Retry: "tries again with the remaining budget",
		Actions: []Action{AnswerRetry, AnswerSkip, AnswerSupply, AnswerAbort},
	},
	{
		Kind: ForOutage, Need: "waits for its provider", Retry: "tries now, without waiting",
		Actions: []Action{AnswerRetry, AnswerSkip, AnswerSupply, AnswerAbort}, NoticeOnly: true,
	},
	{Kind: ForApproval, Need: "needs approval", Actions: []Action{AnswerApprove, AnswerReject}, OfPhase: true},
}

// RequestKinds lists every kind.
func RequestKinds() []RequestKind {
	all := make([]RequestKind, len(requestKinds))
	for i, rule := range requestKinds {
		all[i] = rule.Kind
	}
	return all
}

// Rule is the kind's row of the table. An unknown kind is a request for help.
func (k RequestKind) Rule() KindRule {
	return requestKinds[max(0, slices.Index(RequestKinds(), k))]
}

// OfPhase reports whether requests of the kind are about a finished phase.
func (k RequestKind) OfPhase() bool { return k.Rule().OfPhase }

// NoticeOnly reports whether requests of the kind require no answer.
func (k RequestKind) NoticeOnly() bool { return k.Rule().NoticeOnly }

// Request is a question of a session to a person, of any kind: what happened, what was
// tried, and which answers it takes.
type Request struct {
	// ID identifies the request in its answer. It changes after a reset, and in every run.
	ID   string      `json:"id"`
	Kind RequestKind `json:"kind,omitempty"`
	// Phase and Persona are those of the work that the request is about; an approval has no
	// persona.
	Phase    string            `json:"phase"`
	Persona  string            `json:"persona"`
	Category failures.Category `json:"category"`
	Message  string            `json:"message"`
	// Suggestion is what may have to be corrected first, by category.
	Suggestion string `json:"suggestion,omitempty"`
	// Command is the shortest way to continue.
	Command string `json:"command,omitempty"`
	// Actions are the permitted answers, the most common first.
	Actions []Action `json:"actions,omitempty"`
	// SkipEffect is what [AnswerSkip] does, if that is not to continue without the work that the request is about.
	SkipEffect string `json:"skip_effect,omitempty"`
	// Raise is the budget that a request is about; nil: none can be raised.
	Raise *BudgetRaise `json:"raise,omitempty" sql:"budget_raise"`
	// Attempts reports every failed attempt, oldest first.
	Attempts []AttemptFailure `json:"attempts"`
	// Quorum defines whose approvals it needs; nil: one person's, any who may approve.
	Quorum *Quorum `json:"quorum,omitempty"`
	// Usage is what the assignment, or for an approval the phase, has cost so far.
	Usage cost.Usage `json:"usage,omitzero" sql:"-"`
	// Since is when the request was created; Until is when the session stops waiting; zero: never.
	Since time.Time `json:"since,omitzero" sql:"opened_at"`
	Until time.Time `json:"until,omitzero" sql:"until_at"`
	// Ticket is the ticket that was created for it.
	Ticket *Ticket `json:"ticket,omitempty"`
}

// Takes reports whether the request can be answered with an action.
func (h Request) Takes(a Action) bool {
	return slices.Contains(h.Actions, a) && slices.Contains(h.Kind.Rule().Actions, a)
}

// Need describes in words what the request needs. A request without answers needs nothing: its team
// asks no person, and the work has failed.
func (h Request) Need() string {
	switch {
	case len(h.Actions) == 0:
		return "failed"
	case h.Kind == ForOutage:
		return "waits for its " + h.Category.Awaited()
	}
	return h.Kind.Rule().Need
}

// Fingerprint identifies the failure that the request is about, across sessions of a team; empty
// for a request about a finished phase, which has no failure.
func (h Request) Fingerprint(team string) string {
	if h.Kind.OfPhase() {
		return ""
	}
	return Fingerprint(team, spec.AssignmentID{Phase: h.Phase, Persona: h.Persona}, h.Category, h.Message)
}

// Answer is a person's answer to a request. It travels through histories.
type Answer struct {
	// Request is the request's id.
	Request string `json:"request"`
	Action  Action `json:"action"`
	// Note is for the agents that work next: at most MaxNote bytes.
	Note string `json:"note,omitempty"`
	// By is the name that the person gives.
	By string `json:"by,omitempty"`
	// Person is the verified person, PersonID identifies the same person under another name, and
	// Group is the group that the request needs and the person is a member of. The sender of the
	// answer verifies them; answers to requests without a quorum do not need them.
	Person   string `json:"person,omitempty"`
	PersonID string `json:"person_id,omitempty"`
	Group    string `json:"group,omitempty"`
	// Files is the manifest of the supplied files. They are added to the input or, if Whole is set,
	// replace it.
	Files spec.Digest `json:"files,omitempty"`
	Whole bool        `json:"whole,omitempty"`
	// The session sets Phase, Persona, Since and At, the first three from the request. Since is
	// when the request was created.
	Phase   string    `json:"phase,omitempty"`
	Persona string    `json:"persona,omitempty"`
	Since   time.Time `json:"since,omitzero"`
	At      time.Time `json:"at,omitzero"`
	// CountsAsDone: the assignment counts as done from now on, without work of its own.
	CountsAsDone bool `json:"counts_as_done,omitempty"`
	// Left is how many more persons have to approve before the session continues.
	Left int `json:"left,omitempty"`
	// Work identifies what an approval is for (see [Checkpoint.WorkOf]), or all the work that is
	// accepted although parts of it conflict.
	Work spec.Digest `json:"work,omitempty"`
}

// MaxNote and MaxReasons limit a person's note, and the reasons of an agent that sends work back,
// in bytes, because both are part of a history.
const (
	MaxNote    = 4 * 1024
	MaxReasons = 12 * 1024
)

// Rework is work that was sent back, by a later phase or by a person. The work is undone, and it
// and its dependent phases run again.
type Rework struct {
	// To is the phase whose work was sent back.
	To string `json:"to"`
	// From is the assignment that sent it back; the zero value: a person, named by By.
	From spec.AssignmentID `json:"from,omitzero"`
	By   string            `json:"by,omitempty"`
	// Reasons describe what is wrong with it.
	Reasons []string `json:"reasons"`
	// Count is how often From has sent work back, this time included; Of is how often it may.
	// Both are zero for a person.
	Count int       `json:"count,omitempty"`
	Of    int       `json:"of,omitempty"`
	At    time.Time `json:"at"`
	// Open lists the phases that have not been done again.
	Open []string `json:"open,omitempty"`
	// Undone is the work as it was before, for the record. Histories do not have it.
	Undone []CheckpointAssignment `json:"undone,omitempty"`
}

// All is all the work in the checkpoint, undone work included.
func (c Checkpoint) All() []CheckpointAssignment {
	all := slices.Concat(c.Assignments, c.Partial)
	for _, r := range c.Reworks {
		all = append(all, r.Undone...)
	}
	return all
}

// WorkOf identifies the work of a phase in the checkpoint, as a whole.
func (c Checkpoint) WorkOf(phase string) spec.Digest { return WorkOf(phase, c.Assignments) }

// WorkOf identifies the work of a phase as a whole, or of all phases if none is named: the digest
// differs after any change.
func WorkOf(phase string, done []CheckpointAssignment) spec.Digest {
	var deltas []spec.Digest
	for _, a := range done {
		if phase != "" && a.Phase != phase {
			continue
		}
		deltas = append(deltas, a.Delta)
		for _, w := range a.Integrated {
			deltas = append(deltas, w.Delta)
		}
	}
	return spec.DigestOfJSON(deltas)
}

// Reworking is the rework for which a phase has to be done again; nil: none.
func (c Checkpoint) Reworking(phase string) *Rework {
	for _, r := range slices.Backward(c.Reworks) {
		if slices.Contains(r.Open, phase) {
			return &r
		}
	}
	return nil
}

// Undone is an assignment's work as it was before it was last sent back.
func (c Checkpoint) Undone(id spec.AssignmentID) (CheckpointAssignment, bool) {
	for _, r := range slices.Backward(c.Reworks) {
		if i := slices.IndexFunc(r.Undone, func(a CheckpointAssignment) bool { return a.AssignmentID == id }); i >= 0 {
			return r.Undone[i], true
		}
	}
	return CheckpointAssignment{}, false
}

// TimesDone counts how often the work of a phase was done, from 1.
func (c Checkpoint) TimesDone(phase string) int {
	times := 1
	for _, r := range c.Reworks {
		if slices.ContainsFunc(r.Undone, func(a CheckpointAssignment) bool { return a.Phase == phase }) {
			times++
		}
	}
	return times
}

// Review reports whether the work of a phase was sent back and is not done again yet, or whether it is done and persons have
// approved it.
func (c Checkpoint) Review(phase string) (sentBack, approved bool) {
	done := slices.ContainsFunc(c.Assignments, func(a CheckpointAssignment) bool { return a.Phase == phase })
	var since time.Time
	if r := c.SentBackLast(phase); r != nil {
		since, sentBack = r.At, !done
	}
	for _, a := range c.Answers {
		if a.Phase == phase && a.Action == AnswerApprove && a.At.After(since) {
			approved = done && a.Left == 0
		}
	}
	return sentBack, approved
}

// SentBackLast is the last rework that undid work of a phase; nil: none did.
func (c Checkpoint) SentBackLast(phase string) *Rework {
	for _, r := range slices.Backward(c.Reworks) {
		if slices.ContainsFunc(r.Undone, func(a CheckpointAssignment) bool { return a.Phase == phase }) {
			return &r
		}
	}
	return nil
}

// Outline is the rework without the work that it undid, small enough for a history.
func (r Rework) Outline() Rework {
	r.Undone = nil
	return r
}
