package activities

import (
	"time"

	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
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
	// ReportBreakerName delivers delayed reports to breakers; see
	// [Reports.Report].
	ReportBreakerName Name = "report-breaker"
	// CloseName writes how the session ended; see [Boundaries.Close].
	CloseName Name = "close-session"
	// MarkName writes where a session stands, and answers of people; see [Boundaries.Mark].
	MarkName Name = "mark-session"
	// ReworkName sends a phase's work back; see [Boundaries.Rework].
	ReworkName Name = "rework-session"
	// RaiseName adds to a budget; see [Boundaries.Raise].
	RaiseName Name = "raise-budget"
	// NotifyName notifies people outside; see [Notices.Notify].
	NotifyName Name = "notify"
	// AwaitBudgetName waits for a budget that is spent; see [BudgetWaits.Await].
	AwaitBudgetName Name = "await-budget"
)

// AdmitInput asks whether a session may start.
type AdmitInput struct {
	// At is when the session came here, by its workflow's time.
	At time.Time `json:"at"`
	// Store is the id of the store that the session was made for.
	Store string `json:"store"`
	// Team is the blob of the resolved team.
	Team spec.Digest `json:"team"`
	// Requirement is the blob of the requirement's text.
	Requirement spec.Digest `json:"requirement"`
	// Workspace is the manifest that the session starts from.
	Workspace   spec.Digest `json:"workspace"`
	Incarnation int         `json:"incarnation"`
	// Course is what the session is to do.
	Course session.Course `json:"course,omitzero"`
	// Base is the checkpoint that the session continues from; empty for a new one.
	Base spec.Digest `json:"base,omitempty"`
	// Origin is set for a fork: Base is another session's then.
	Origin *session.Origin `json:"origin,omitempty"`
	// ReportTo is the key of the ticket that the requirement came from.
	ReportTo string `json:"report_to,omitempty"`
	// Labels are the session's, by key.
	Labels map[string]string `json:"labels,omitempty"`
	// StartedBy is the person who started the session.
	StartedBy string `json:"started_by,omitempty"`
	// OriginalRun is the run itself or, after a reset, the one that it follows.
	OriginalRun string `json:"original_run,omitempty"`
	// FirstRun is the first of the runs that continue each other as new.
	FirstRun string `json:"first_run,omitempty"`
	// Continues: the session continues as new from Base, and knows where it stands.
	Continues bool `json:"continues,omitempty"`
	// Status is where it stands then.
	Status session.Status `json:"status,omitzero"`
}

// Admission is the answer: faults, or all that a session needs to begin.
type Admission struct {
	// Problems says, a sentence each, why the session may not start.
	Problems []string `json:"problems,omitempty"`
	// Team is the resolved team without its prose.
	Team spec.Team `json:"team"`
	// Incarnation counts the session's Temporal runs, this one included.
	Incarnation int `json:"incarnation"`
	// Head is the first checkpoint.
	Head spec.Digest `json:"head"`
	// Todo names the phases to run, in topological order.
	Todo []string `json:"todo"`
	// Partial is the work that stands in phases that have yet to run.
	Partial []RestoredWork `json:"partial,omitempty"`
	// Phases is where each phase stands, unless all are yet to begin.
	Phases    []session.PhaseStatus `json:"phases,omitempty"`
	Decisions map[string]string     `json:"decisions,omitempty"`
	// Plan and Origin are those of [session.Status].
	Plan   []session.PlanEntry `json:"plan,omitempty"`
	Origin *session.Origin     `json:"origin,omitempty"`
	// Dropped is what assignments have cost that the team does not have any more.
	Dropped cost.Usage `json:"dropped_usage,omitzero"`
	// Inputs and Conflicts are those of the phases that build on nothing that
	// is to run, as in [Advanced]; a finished phase has the conflicts of all work.
	Inputs    map[string]spec.Digest        `json:"inputs,omitempty"`
	Conflicts map[string][]session.Conflict `json:"conflicts,omitempty"`
	Merged    map[string]spec.Digest        `json:"merged,omitempty"`
	// Unapproved names the finished phases that have yet to be approved, and Approvals has the
	// approvals of their work so far, by phase.
	Unapproved []string                      `json:"unapproved,omitempty"`
	Approvals  map[string][]session.Approval `json:"approvals,omitempty"`
	// Reworks is the work that was sent back so far.
	Reworks []session.Rework `json:"reworks,omitempty"`
	// Alerts are those that the session has raised before.
	Alerts []session.Alert `json:"alerts,omitempty"`
	// Notes is the last note of a person to each unfinished assignment.
	Notes map[string]string `json:"notes,omitempty"`
	// Fallbacks names, by agent, those that may work in their place.
	Fallbacks map[string]string `json:"fallbacks,omitempty"`
	// Webhook: a webhook is configured.
	Webhook bool `json:"webhook,omitempty"`
	// SearchAttributes reports whether the namespace has Maestro's.
	SearchAttributes bool `json:"search_attributes"`
}

// RestoredWork is an assignment's finished work and the tree that it left.
type RestoredWork struct {
	session.CheckpointAssignment
	Output spec.Digest `json:"output,omitempty"`
}

// OutageNews is what a round at work reports to its session on an outage.
type OutageNews struct {
	spec.AssignmentID
	// Over: it is over. Otherwise it lasts, and the round waits without working.
	Over bool `json:"over,omitempty"`
	// Since is when it began; Failure, the last one, is why the round waits.
	Since   time.Time              `json:"since,omitzero"`
	Failure session.AttemptFailure `json:"failure,omitzero"`
	session.RoundReport
}

// OutageOrder says how a round continues that is in the middle of an outage. Without one
// it waits until the team's patience is over.
type OutageOrder string

// The orders.
const (
	// OutageNoticed: people are notified, so it waits without end.
	OutageNoticed OutageOrder = "noticed"
	// OutageOver: the team's patience is over.
	OutageOver OutageOrder = "over"
	// OutageRetry: a person has it try now; patience begins anew.
	OutageRetry OutageOrder = "retry"
)

// RoundInput asks for one round of an assignment.
type RoundInput struct {
	spec.AssignmentID
	Round       int `json:"round"`
	Incarnation int `json:"incarnation"`
	// Run is the run id by which the session's rounds are known: that of the first of the runs
	// that continue each other as new; empty: the activity's own.
	Run string `json:"run,omitempty"`
	// Head is a checkpoint that has everything the phase builds on.
	Head spec.Digest `json:"head"`
	// Input is the manifest to start from.
	Input spec.Digest `json:"input"`
	// Beside is the work of the same phase that the input has and Head has not.
	Beside []session.CheckpointAssignment `json:"beside,omitempty"`
	// Feedback is the blob of a failure found outside the assignment's own
	// attempts, at the merge.
	Feedback spec.Digest `json:"feedback,omitempty"`
	// Integrating: the round fixes the phase's merged tree, so the phase's
	// own demands are verified at the merge and not here.
	Integrating bool `json:"integrating,omitempty"`
	// Rounds is how many rounds the assignment has in all.
	Rounds int `json:"rounds"`
	// Agent replaces the persona's agent; empty: the persona's own agent works.
	Agent string `json:"agent,omitempty"`
	// After is the activity whose round this one continues with, after its budget
	// was raised or with another agent; empty: the round begins.
	After string `json:"after,omitempty"`
	// Seq numbers the assignment's rounds and what continues with them, in this workflow
	// run: an activity that one with a larger number has followed is fenced.
	Seq int `json:"seq,omitempty"`
	// Outage says how a round continues that has waited for its provider so far.
	Outage OutageOrder `json:"outage,omitempty"`
	// OnExceeded is what the session can do about a budget that is spent.
	OnExceeded spec.OnExceeded `json:"on_exceeded,omitempty"`
	// Free lets an agent whose cost nobody has stated work although a budget is
	// spent: it is there because others are too dear.
	Free bool `json:"free,omitempty"`
	// Lease is set if the round is a probe of its agent's breaker.
	Lease session.BreakerPermit `json:"lease,omitzero"`
	// Series counts how often a person, or a phase that sent work back, has had
	// the assignment begin afresh in this incarnation: the round's epoch is the
	// incarnation's first and Series together.
	Series int `json:"series,omitempty"`
	// Note is a person's note to the agent of the next attempt.
	Note string `json:"note,omitempty"`
	// Rework is set while the phase does again what was sent back.
	Rework *session.Rework `json:"rework,omitempty"`
	// MaySendBack is how often the phase may still send work back.
	MaySendBack int `json:"may_send_back,omitempty"`
	// Supplied is the manifest of a person's files, which stand for the work in
	// place of an agent's; empty: an agent works. SuppliedBy is who the person is.
	// SuppliedWhole: it is the whole tree, and files that it has not are removed.
	Supplied      spec.Digest `json:"supplied,omitempty"`
	SuppliedBy    string      `json:"supplied_by,omitempty"`
	SuppliedWhole bool        `json:"supplied_whole,omitempty"`
}

// RoundFailure is the detail of the error that ends a failed round.
type RoundFailure struct {
	// Failure is the last attempt's, without its output.
	Failure failures.Failure `json:"failure"`
	// Attempts lists every failed attempt of the round, oldest first.
	Attempts []session.AttemptFailure `json:"attempts"`
	session.RoundReport
}

// BudgetStop is the detail of a BudgetSpent error: the round can continue once
// there is money for it.
type BudgetStop struct {
	// Scope names the budget that is spent; Message is a sentence on it.
	Scope   string `json:"scope"`
	Message string `json:"message"`
	// Date is the day whose budget is spent, if it is that, and Least what the
	// next call needs.
	Date  string      `json:"date,omitempty"`
	Least cost.Amount `json:"least,omitzero"`
	// Unsettled: calls with unknown cost have a part in it, so that settling
	// them may help.
	Unsettled bool `json:"unsettled,omitempty"`
	session.RoundReport
}

// Heartbeat is what a round reports to Temporal while it works.
type Heartbeat struct {
	Log session.RoundLog `json:"log"`
	// Attempt is the running one.
	Attempt int `json:"attempt"`
	// Progress is the last line of progress of the agent or of a wait.
	Progress string `json:"progress,omitempty"`
	// Agent is the one that works, and Spent what the attempt has cost so far,
	// the call under way included as far as that is known.
	Agent string     `json:"agent,omitempty"`
	Spent cost.Usage `json:"spent,omitzero"`
	// Live is the part of Spent that is of calls under way, by their numbers in the
	// journal: no ledger has it before the call has ended.
	Live map[int64]cost.Usage `json:"live,omitempty"`
}

// MergeInput asks for a phase's work to be merged and verified.
type MergeInput struct {
	Phase string `json:"phase"`
	// Integrator is the persona in whose directory, and under whose lock, it is done.
	Integrator  string                         `json:"integrator"`
	Incarnation int                            `json:"incarnation"`
	Head        spec.Digest                    `json:"head"`
	Input       spec.Digest                    `json:"input"`
	Assignments []session.CheckpointAssignment `json:"assignments"`
	// Outage says how a merge continues that has waited for its host so far.
	Outage OutageOrder `json:"outage,omitempty"`
}

// MergeResult is the merged tree and what is wrong with it.
type MergeResult struct {
	// Tree is the manifest of the merged tree. Where personas conflict it has
	// the later one's version.
	Tree spec.Digest `json:"tree"`
	// Kept is what checks left and may keep; an empty delta where they left
	// nothing.
	Kept spec.Digest `json:"kept,omitempty"`
	// Failure is nil for a phase that holds together. Its output is in the
	// blob Feedback instead.
	Failure  *failures.Failure `json:"failure,omitempty"`
	Feedback spec.Digest       `json:"feedback,omitempty"`
}

// Boundary is what every step between phases brings.
type Boundary struct {
	// At is when the session came to the step, by its workflow's time. However often and
	// however late the step is executed, it writes the same; and what the session has
	// written since stays.
	At time.Time `json:"at"`
	// Status is the session's as it is after the step, but for what the step finds out. Its
	// checkpoint is the newest before the step.
	Status session.Status `json:"status"`
	// Course, OriginalRun and FirstRun are those of [AdmitInput].
	Course      session.Course `json:"course,omitzero"`
	OriginalRun string         `json:"original_run,omitempty"`
	FirstRun    string         `json:"first_run,omitempty"`
}

// AdvanceInput asks for the checkpoint after a phase.
type AdvanceInput struct {
	Boundary
	Phase       string                         `json:"phase"`
	Assignments []session.CheckpointAssignment `json:"assignments"`
	// Ready names the phases that may start once this one is recorded.
	Ready []string `json:"ready"`
	// Last: no phase is left to run.
	Last bool `json:"last,omitempty"`
	// Complete: nor is an answer awaited, so the session is complete.
	Complete bool `json:"complete,omitempty"`
	// Park: the session waits for a person's answer after this phase.
	Park bool `json:"park,omitempty"`
	// Unreported are outcomes of rounds that breakers have not received yet.
	Unreported []session.BreakerReport `json:"unreported,omitempty"`
}

// Advanced is the new checkpoint and what the next phases start from.
type Advanced struct {
	Head spec.Digest `json:"head"`
	// Inputs has the input manifest of every ready phase that can start.
	Inputs map[string]spec.Digest `json:"inputs,omitempty"`
	// Conflicts has, for ready phases that cannot, what the phases before
	// them disagree on; and for a last phase, what nobody has resolved. Merged
	// has what they would start from, with the later version of everything.
	Conflicts map[string][]session.Conflict `json:"conflicts,omitempty"`
	Merged    map[string]spec.Digest        `json:"merged,omitempty"`
	// Decisions are all so far, merged.
	Decisions map[string]string `json:"decisions,omitempty"`
	// Unreported is what of the input's could still not be delivered.
	Unreported []session.BreakerReport `json:"unreported,omitempty"`
	// Left names, in short, the files that a phase has left after which the session
	// parks.
	Left string `json:"left,omitempty"`
}

// MarkInput says that a session waits, or continues.
type MarkInput struct {
	Boundary
	// Answer is why it continues, to be kept in a checkpoint; nil: it waits, or nobody has
	// answered anything.
	Answer *session.Answer `json:"answer,omitempty"`
}

// Marked is the session's newest checkpoint after an answer was kept.
type Marked struct {
	Head spec.Digest `json:"head,omitempty"`
	// Nothing is the blob of a delta that changes nothing.
	Nothing spec.Digest `json:"nothing,omitempty"`
}

// ReworkInput sends a phase's work back.
type ReworkInput struct {
	Boundary
	// Rework says what, by whom and why; Open has the phases to be done again.
	Rework session.Rework `json:"rework"`
	// Left is the work of the phase that sends it back, which no checkpoint has.
	Left []session.CheckpointAssignment `json:"left,omitempty"`
	// Answer is the person's who wants it so; nil: an agent does.
	Answer *session.Answer `json:"answer,omitempty"`
}

// Reworked is what a session continues from after work was sent back.
type Reworked struct {
	Head spec.Digest `json:"head"`
	// Input is the manifest that the phase starts from, again.
	Input     spec.Digest       `json:"input"`
	Decisions map[string]string `json:"decisions,omitempty"`
}

// RaiseInput adds to a budget of the session.
type RaiseInput struct {
	budget.Raise
}

// Raised is what a session may spend after a raise.
type Raised struct {
	Scope string      `json:"scope"`
	Cap   spec.Cap    `json:"cap"`
	Spent cost.Amount `json:"spent"`
}

// CloseInput says how a session ended, unless the last Advance has said so.
type CloseInput struct{ Boundary }

// NotifyInput is a notice to people outside of Temporal.
type NotifyInput struct {
	// Notice is complete but for what only workers know: addresses.
	Notice session.Notice `json:"notice"`
	// Jira says how a ticket is made of it; nil: none is.
	Jira *spec.HelpJira `json:"jira,omitempty"`
	// Fingerprints names the failures whose tickets get it; that of the notice's
	// own request does in any case.
	Fingerprints []string `json:"fingerprints,omitempty"`
	// ReportTo is the key of the ticket that the requirement came from; it gets
	// every notice.
	ReportTo string `json:"report_to,omitempty"`
	// Webhook: the webhook gets it, too.
	Webhook bool `json:"webhook,omitempty"`
}

// Notified names the failure whose ticket gets a notice's request; empty: none.
type Notified struct {
	Fingerprint string `json:"fingerprint,omitempty"`
}
