package activities

import (
	"time"

	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// Name is the name of an activity on the wire.
type Name string

// The activities of a session.
const (
	// AdmitName decides whether a session may start; see [Admissions.Admit].
	AdmitName Name = "admit-session"
	// RoundName does one round of an assignment; see [Rounds.Run].
	RoundName Name = "run-round"
	// MergeName merges and verifies a phase of several personas; see [Merges.Merge].
	MergeName Name = "merge-phase"
	// AdvanceName writes the checkpoint after a phase; see [Boundaries.Advance].
	AdvanceName Name = "advance-session"
	// AwaitBreakerName waits for a breaker; see [BreakerWaits.Await].
	AwaitBreakerName Name = "await-breaker"
	// CloseName writes how the session ended; see [Boundaries.Close].
	CloseName Name = "close-session"
	// WriteStatusName writes the session's status, and answers of people; see [Boundaries.WriteStatus].
	WriteStatusName Name = "write-status"
	// ReworkName sends a phase's work back; see [Boundaries.Rework].
	ReworkName Name = "rework-session"
	// RaiseName adds to a budget; see [Boundaries.Raise].
	RaiseName Name = "raise-budget"
	// NotifyName notifies people outside; see [Notices.Notify].
	NotifyName Name = "notify"
	// AwaitBudgetName waits for a budget that is spent; see [BudgetWaits.Await].
	AwaitBudgetName Name = "await-budget"
	// StoreValueName stores what is too large for a payload; see [Boundaries.StoreValue].
	StoreValueName Name = "store-value"
	// ReadValueName reads a part of it; see [Boundaries.ReadValue].
	ReadValueName Name = "read-value"
)

// AdmitInput is the input of AdmitName.
type AdmitInput struct {
	// At is the workflow time of the admission.
	At time.Time `json:"at"`
	session.Start
	// OriginalRun is the run itself or, after a reset, the one that it follows.
	OriginalRun string `json:"original_run,omitempty"`
	// FirstRun is the first of the runs that continue each other as new.
	FirstRun string `json:"first_run,omitempty"`
	// Continues: the session continues as new from Base, and Status has its state.
	Continues bool `json:"continues,omitempty"`
	// Status is the session's status; only with Continues.
	Status session.Status `json:"status,omitzero"`
}

// Admission is the result: the problems, or everything that a session needs to begin.
type Admission struct {
	// Problems has a sentence for each reason why the session may not start.
	Problems []string `json:"problems,omitempty"`
	// Team is the resolved team without its prose.
	Team spec.Team `json:"team"`
	// Status is the session's first status, with the first checkpoint, and without decisions, which may become large. Of
	// a session that continues as new it has only the number of the run and the checkpoint.
	Status session.Status `json:"status"`
	// Todo names the phases to run, in topological order.
	Todo []string `json:"todo"`
	// Partial is the reused work in phases that have yet to run.
	Partial []RestoredWork `json:"partial,omitempty"`
	// Inputs and Conflicts are for the phases that depend on no phase that is to
	// run, as in [Advanced]; a finished phase has the conflicts of all work.
	Inputs    map[string]spec.Digest        `json:"inputs,omitempty"`
	Conflicts map[string][]session.Conflict `json:"conflicts,omitempty"`
	Merged    map[string]spec.Digest        `json:"merged,omitempty"`
	// Unapproved names the finished phases that have yet to be approved, and Approvals has the
	// approvals of their work so far, by phase.
	Unapproved []string                      `json:"unapproved,omitempty"`
	Approvals  map[string][]session.Approval `json:"approvals,omitempty"`
	// Reworks is the work that was sent back so far.
	Reworks []session.Rework `json:"reworks,omitempty"`
	// Notes is the last note of a person to each unfinished assignment.
	Notes map[string]string `json:"notes,omitempty"`
	// Fallbacks has the fallback of each agent, by agent.
	Fallbacks map[string]string `json:"fallbacks,omitempty"`
	// Webhook: a webhook is configured.
	Webhook bool `json:"webhook,omitempty"`
	// SearchAttributes reports whether the namespace has Maestro's search attributes.
	SearchAttributes bool `json:"search_attributes"`
	// Large has the admission if it is too large for a payload. Everything else is then empty.
	Large *LargeValue `json:"large,omitempty"`
}

// RestoredWork is an assignment's finished work and its output tree.
type RestoredWork struct {
	session.CheckpointAssignment
	Output spec.Digest `json:"output,omitempty"`
}

// OutageNews is the report of a running round to its session on an outage.
type OutageNews struct {
	spec.AssignmentID
	// Over: the outage has ended. Otherwise it lasts, and the round waits.
	Over bool `json:"over,omitempty"`
	// Since is when it began; Failure, the last one, is why the round waits.
	Since   time.Time              `json:"since,omitzero"`
	Failure session.AttemptFailure `json:"failure,omitzero"`
	session.RoundReport
}

// OutageStance tells a round in an outage how to continue. Without one it waits until the
// team's patience is over.
type OutageStance string

// The orders.
const (
	// OutageNoticed: people are notified, so it waits without a limit.
	OutageNoticed OutageStance = "noticed"
	// OutageOver: the team's patience is over.
	OutageOver OutageStance = "over"
	// OutageRetry: a person has requested a try now; the patience begins anew.
	OutageRetry OutageStance = "retry"
)

// RoundInput is the input of RoundName: one round of an assignment.
type RoundInput struct {
	spec.AssignmentID
	// Round counts from 1 in each order of the assignment's work.
	Round int `json:"round"`
	// Ordered counts how often the work was ordered again in this run, for a person or because it was sent back. Because is
	// why it was ordered the last time; empty: the session has begun. Forced: a person wants the phase to run anew.
	Ordered int             `json:"ordered,omitempty"`
	Because session.Because `json:"because,omitempty"`
	Forced  bool            `json:"forced,omitempty"`
	// Head is a checkpoint with the work of all phases that the phase depends on.
	Head spec.Digest `json:"head"`
	// Input is the manifest to start from.
	Input spec.Digest `json:"input"`
	// Beside is work of the same phase that is in Input but not in Head.
	Beside PhaseWork `json:"beside,omitzero"`
	// Feedback is the blob of a failure of the merge, which the round is to fix.
	Feedback spec.Digest `json:"feedback,omitempty"`
	// Settles: the phases that it depends on have conflicting work, and a person has decided that the round merges it.
	Settles bool `json:"settles,omitempty"`
	// Integrating: the round fixes the phase's merged tree. The phase's contract
	// is verified by the merge, not by the round.
	Integrating bool `json:"integrating,omitempty"`
	// Rounds is the maximum number of rounds of the assignment.
	Rounds int `json:"rounds"`
	// Agent replaces the persona's agent; empty: the persona's own agent works.
	Agent string `json:"agent,omitempty"`
	// Seq numbers the assignment's round activities in this workflow run. An activity is fenced
	// by one with a larger number.
	Seq int `json:"seq,omitempty"`
	// Outage tells a round that waits for its provider how to continue.
	Outage OutageStance `json:"outage,omitempty"`
	// OnExceeded is what the session does if a budget is exceeded.
	OnExceeded spec.OnExceeded `json:"on_exceeded,omitempty"`
	// Free permits an agent without a stated cost to work although a budget is
	// exceeded: it is the fallback of agents that are too expensive.
	Free bool `json:"free,omitempty"`
	// Lease is set if the round is a probe of its agent's breaker.
	Lease session.BreakerPermit `json:"lease,omitzero"`
	// Note is a person's note to the agent of the next attempt.
	Note string `json:"note,omitempty"`
	// Source is where the workspace came from, for a phase that delivers.
	Source *session.Source `json:"source,omitempty"`
	// Rework is set while the phase repeats work that was sent back.
	Rework *session.Rework `json:"rework,omitempty"`
	// SendBacksLeft is how often the phase may still send work back.
	SendBacksLeft int `json:"send_backs_left,omitempty"`
	// Supplied is the manifest of a person's files, which replace an agent's work;
	// empty: an agent works. SuppliedBy is the person. SuppliedWhole: it is the
	// whole tree, and files that it does not have are removed.
	Supplied      spec.Digest `json:"supplied,omitempty"`
	SuppliedBy    string      `json:"supplied_by,omitempty"`
	SuppliedWhole bool        `json:"supplied_whole,omitempty"`
}

// RoundFailure is the detail of the error of a failed round.
type RoundFailure struct {
	// Failure is that of the last attempt, without its output.
	Failure failures.Failure `json:"failure"`
	// Attempts lists every failed attempt of the round, oldest first.
	Attempts []session.AttemptFailure `json:"attempts"`
	session.RoundReport
}

// BudgetStop is the detail of a BudgetSpent error: the round can continue when the
// budget permits it.
type BudgetStop struct {
	// Scope names the exceeded budget; Message is a sentence on it.
	Scope   string `json:"scope"`
	Message string `json:"message"`
	// Date is the day of a team's daily budget; zero: it is another budget. Least is
	// what the next call needs.
	Date  string      `json:"date,omitempty"`
	Least cost.Amount `json:"least,omitzero"`
	// Unsettled: the spending includes calls with unknown cost, so that settling
	// them may free some of it.
	Unsettled bool `json:"unsettled,omitempty"`
	session.RoundReport
}

// Heartbeat is what a round reports to Temporal while it works.
type Heartbeat struct {
	// Attempt is the number of the running attempt.
	Attempt int `json:"attempt"`
	// Progress is the last line of progress of the agent or of a wait.
	Progress string `json:"progress,omitempty"`
	// Waits: the attempt waits for what others have, like the rest of a budget, and is not at work.
	Waits bool `json:"waits,omitempty"`
	// Agent is the agent of the attempt, and Spent its cost so far, including the
	// known cost of calls in flight.
	Agent string     `json:"agent,omitempty"`
	Spent cost.Usage `json:"spent,omitzero"`
}

// MergeInput is the input of MergeName: the work of a phase to merge and verify.
type MergeInput struct {
	Phase string `json:"phase"`
	// Integrator is the persona whose directory and lock the merge uses.
	Integrator  string      `json:"integrator"`
	Head        spec.Digest `json:"head"`
	Input       spec.Digest `json:"input"`
	Assignments PhaseWork   `json:"assignments"`
	// Outage tells a merge that waits for its host how to continue.
	Outage OutageStance `json:"outage,omitempty"`
}

// MergeResult is the merged tree and the failure of its verification.
type MergeResult struct {
	// Tree is the manifest of the merged tree. At a conflict it has the version of the
	// later persona.
	Tree spec.Digest `json:"tree"`
	// Kept is the delta of files that checks may leave; empty if there are none.
	Kept spec.Digest `json:"kept,omitempty"`
	// Dropped lists versions in conflicts that the tree does not have.
	Dropped []string `json:"dropped,omitempty"`
	// Failure is nil if the merge has no conflict and fulfils the contract. Its output
	// is in the blob Feedback.
	Failure  *failures.Failure `json:"failure,omitempty"`
	Feedback spec.Digest       `json:"feedback,omitempty"`
}

// Boundary is the common input of the steps between phases.
type Boundary struct {
	// At is the workflow time of the step. Every execution of the step writes the same
	// documents, and a late one does not replace later documents of the session.
	At time.Time `json:"at"`
	// Status is the session's status after the step, without the step's results. Its checkpoint
	// is the newest before the step.
	Status session.Status `json:"status"`
	// FirstRun is the first of the runs that continue each other as new.
	FirstRun string `json:"first_run,omitempty"`
}

// AdvanceInput is the input of AdvanceName: the checkpoint after a phase.
type AdvanceInput struct {
	Boundary
	Phase       string                         `json:"phase"`
	Assignments []session.CheckpointAssignment `json:"assignments"`
	// Unlocks names the phases that may start once this one is recorded.
	Unlocks []string `json:"unlocks"`
	// NoneLeft: no phase is left to run.
	NoneLeft bool `json:"none_left,omitempty"`
	// Completes: the session is complete. No phase is left and no request is open.
	Completes bool `json:"completes,omitempty"`
	// AwaitsApproval: the session waits for a person's answer after this phase.
	AwaitsApproval bool `json:"awaits_approval,omitempty"`
}

// Advanced is the new checkpoint and the inputs of the next phases.
type Advanced struct {
	Head spec.Digest `json:"head"`
	// Inputs has the input manifest of each ready phase without a conflict.
	Inputs map[string]spec.Digest `json:"inputs,omitempty"`
	// Conflicts has the conflicts in the input of the other ready phases; for the
	// last phase, those that are unresolved at the end. Merged has the merged tree
	// of these, with the later version of each conflict.
	Conflicts map[string][]session.Conflict `json:"conflicts,omitempty"`
	Merged    map[string]spec.Digest        `json:"merged,omitempty"`
	// Files is a short list of the phase's files, if the phase awaits an approval.
	Files string `json:"files,omitempty"`
}

// WriteStatusInput is the input of WriteStatusName: a session waits, or continues.
type WriteStatusInput struct {
	Boundary
	// Answer is the answer with which it continues. It is stored in a checkpoint. nil: it waits,
	// or continues without an answer.
	Answer *session.Answer `json:"answer,omitempty"`
}

// WrittenStatus is the session's newest checkpoint after an answer was stored.
type WrittenStatus struct {
	Head spec.Digest `json:"head,omitempty"`
	// Nothing is the blob of a delta that changes nothing.
	Nothing spec.Digest `json:"nothing,omitempty"`
}

// ReworkInput is the input of ReworkName: the work of a phase is sent back.
type ReworkInput struct {
	Boundary
	// Rework has the phase, the sender and the reasons; Open has the phases to repeat.
	Rework session.Rework `json:"rework"`
	// Left is the work of the sending phase, which is in no checkpoint.
	Left []session.CheckpointAssignment `json:"left,omitempty"`
	// Answer is the answer of the person who sends it back; nil: an agent does.
	Answer *session.Answer `json:"answer,omitempty"`
}

// Reworked is the state of a session after work was sent back.
type Reworked struct {
	Head spec.Digest `json:"head"`
	// Input is the input manifest of the phase.
	Input spec.Digest `json:"input"`
}

// RaiseInput is the input of RaiseName: it adds to a budget of the session.
type RaiseInput struct {
	budget.Raise
}

// Raised has the budgets of a session after a raise.
type Raised struct {
	Scope string      `json:"scope"`
	Cap   spec.Cap    `json:"cap"`
	Spent cost.Amount `json:"spent"`
}

// CloseInput is the input of CloseName: how a session ended, unless the last Advance has written that.
type CloseInput struct{ Boundary }

// NotifyInput is a notice to people outside of Temporal.
type NotifyInput struct {
	// Notice is complete except for addresses, which the worker adds.
	Notice session.Notice `json:"notice"`
	// Jira is how a ticket is created for it; nil: no ticket.
	Jira *spec.HelpJira `json:"jira,omitempty"`
	// Fingerprints names the failures whose tickets get it. The ticket of the notice's
	// own request always gets it.
	Fingerprints []string `json:"fingerprints,omitempty"`
	// ReportTo is the key of the ticket that the requirement came from; it gets
	// every notice.
	ReportTo string `json:"report_to,omitempty"`
	// Webhook: the webhook gets it, too.
	Webhook bool `json:"webhook,omitempty"`
}

// Notified has the fingerprint of the failure whose ticket gets the request; empty: none.
type Notified struct {
	Fingerprint string `json:"fingerprint,omitempty"`
}
