package session

import (
	"cmp"
	"slices"
	"time"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// Record is what the activities of an assignment have done: its rounds with their attempts and results.
type Record struct {
	Assignment spec.AssignmentID
	// Rounds are ordered by pass and number.
	Rounds []RoundRecord
	// Conversation is the newest conversation of an agent program that a later attempt may
	// continue, as an attempt has left it; nil: there is none.
	Conversation *Conversation
	// Total is the known cost of the assignment over all passes.
	Total cost.Usage
}

// Status is the summary of the record, without the costs: those are sums over its calls.
func (r Record) Status() AssignmentStatus {
	s := AssignmentStatus{Persona: r.Assignment.Persona, AssignmentSummary: NoWork()}
	s.Rounds = len(r.Rounds)
	for _, round := range r.Rounds {
		s.Status, s.Agent, s.Progress = round.State(), round.Agent, ""
		s.LostWorkers += round.Lost
		if !round.Supplied {
			s.Attempts += CountedAttempts(round.Failures())
			s.Failures = append(s.Failures, round.Failures()...)
		}
		if round.Result != nil {
			s.Summary, s.Files, s.LeftOut = round.Result.Summary, round.Result.Files, round.Result.LeftOut
			if !round.Supplied {
				s.Attempts++
			}
		}
		if s.Status == Waiting && round.Outage != nil {
			s.Progress = round.Outage.String()
		}
	}
	return s
}

// Counted returns the checkpoint's entry of an unfinished assignment: its rounds and attempts so
// far, and their cost.
func (r Record) Counted() CheckpointAssignment {
	a := CheckpointAssignment{AssignmentID: r.Assignment, AssignmentSummary: r.Status().AssignmentSummary}
	a.Status, a.Agent, a.Summary, a.Files, a.LeftOut, a.Usage = "", "", "", 0, nil, r.Total
	return a
}

// Because is why an assignment's work was ordered.
type Because string

// The reasons for an order.
const (
	BecauseStart    Because = "start"
	BecauseSentBack Because = "sent_back"
	BecauseRetried  Because = "retried"
	BecauseForced   Because = "forced"
	BecauseResumed  Because = "resumed"
)

// Undone is why the work of a pass counts no more; empty if it counts.
type Undone string

// The reasons for which work counts no more.
const (
	// UndoneSentBack: a person or a phase has sent it back.
	UndoneSentBack Undone = "sent_back"
	// UndoneResumed: a resume has decided that the work runs again.
	UndoneResumed Undone = "resumed"
)

// Order is one order of an assignment's work.
type Order struct {
	// Pass numbers the orders of the assignment from 1. AnswersFrom is the first pass whose stored answers this one may use.
	Pass        int
	AnswersFrom int
	// Run is the run that ordered it.
	Run     int
	Because Because `sql:"ordered_because"`
	Undone  Undone
}

// RoundRecord is one round in a record:
//
//	Result  GaveUp  Last  the round
//	-       -       -     has not ended: see [RoundLog]
//	set     -       -     succeeded
//	-       yes     -     failed, and another one follows by itself
//	-       yes     yes   failed, and none follows by itself
type RoundRecord struct {
	Order `sql:"-"`
	Round int
	// Activity is the id of the activity that has executed it last, and Seq its number among those of the assignment.
	Activity string
	Seq      int `sql:"sequence"`
	// Agent worked in place of the persona's own; empty: the persona's own worked.
	Agent string
	RoundLog
	// Result is set once the round has succeeded, and never changes.
	Result *RoundResult `sql:"-"`
	// GaveUp: the round has failed for good. Last: no other round follows by itself.
	GaveUp bool `sql:"-"`
	Last   bool `sql:"-"`
	// Integrating: the round fixed the phase's merged tree.
	Integrating bool
	// Supplied: a person's files were used as the work. Their failures are not attempts of the
	// assignment.
	Supplied bool
	// Spent is the known cost of the attempt in progress. Only what the store returns has it.
	Spent cost.Usage `sql:"-"`
}

// Stale reports whether the round is neither finished work nor work in progress: its pass was undone, or it has sent work
// back.
func (r RoundRecord) Stale() bool {
	return r.Undone != "" || r.Result != nil && len(r.Result.SendsBack) > 0
}

// State is the state of the round.
func (r RoundRecord) State() State {
	switch {
	case r.Stale():
		return Pending
	case r.Result != nil && r.Supplied:
		return Supplied
	case r.Result != nil:
		return Completed
	case r.Last:
		return Failed
	case r.GaveUp, !r.AtWork && (len(r.Attempts) > 0 || r.Outage != nil || !r.AttemptAt.IsZero()):
		return Waiting
	}
	return Running
}

// Attempt is the number of the attempt that is in progress or about to be, or of the last one.
func (r RoundRecord) Attempt() int {
	switch {
	case r.Result != nil:
		return r.Result.Attempts
	case r.GaveUp:
		return len(r.Attempts)
	}
	return len(r.Attempts) + 1
}

// Logs lists the blobs of the round's transcripts, and of the changes of failed attempts.
func (r RoundRecord) Logs() []spec.Digest {
	var logs []spec.Digest
	for _, a := range r.Attempts {
		for _, text := range []spec.Digest{a.Log, a.Diff} {
			if text != "" {
				logs = append(logs, text)
			}
		}
	}
	if r.Result != nil && r.Result.Log != "" {
		logs = append(logs, r.Result.Log)
	}
	return logs
}

// MergeLog is the state of a phase's merge that is kept across its executions.
type MergeLog struct {
	// Started and Lost are as in [RoundLog].
	Started bool
	Lost    int
	// Outage is the host's outage by which the checks were last stopped.
	Outage *Outage
}

// RoundLog is the state of a round that is kept across its executions. Of the attempt in progress it has:
//
//	AtWork   AttemptAt  Outage  the attempt
//	-        -          -       has not begun
//	yes      set        -       is at work, or its worker was lost
//	-        set        -       was interrupted: by a stopping worker, its store, its budget
//	-        any        set     waits for its provider or host; without AttemptAt since before it began
//	yes      set        set     tries again, and no answer has ended the outage yet
//
// Once its agent has ended, Ended is set as well. A counted failure sets all four back.
type RoundLog struct {
	// Attempts lists the counted attempts that failed, oldest first.
	Attempts []AttemptReport `sql:"-"`
	// AtWork: an execution was about to start the agent, and has not recorded how that ended. It
	// is written under the assignment's lock. An executor that holds the lock and finds it set can
	// conclude that a worker was lost.
	AtWork bool
	// Lost counts the executions whose worker was lost after the agent was started.
	Lost int
	// LostAtProgress is the value of Lost at the last progress; the difference is the number of
	// consecutive losses.
	LostAtProgress int
	// Calls is the number of settled calls when the log was last examined after a loss: more of
	// them since then are progress.
	Calls int
	// ContinuableAttempt is the last started attempt of an agent whose conversation can continue; zero: there is
	// none.
	ContinuableAttempt int `sql:"-"`
	// Basis is what the last started attempt was based on; nil: none was started.
	Basis *Basis `sql:"-"`
	// Outage is the outage that the attempt in progress waits out; nil: there is none.
	Outage *Outage
	// AttemptAt is when the attempt in progress was started, by any execution; zero: none is in
	// progress.
	AttemptAt time.Time `sql:"-"`
	// Ended is how the agent of the attempt in progress has ended, while its work is collected and checked; nil: it has not
	// ended, or has failed.
	Ended *AgentEnded `sql:"-"`
	// Pauses are the waits within attempts, for a budget or an outage, oldest first.
	Pauses []Pause
	// Permit is the permission of the breaker of the round's agent; nil: it has given none yet.
	Permit *BreakerPermit
}

// AgentEnded is the end of an agent whose work is not recorded yet. An execution that continues the attempt collects and
// checks that work, and pays for no other.
type AgentEnded struct {
	// Directory is the random name of the assignment's directory on the host that has the agent's files.
	Directory string
	// Outcome is what the agent has reported; Log is stored as Transcript.
	Outcome    Outcome
	Transcript spec.Digest
	// From is what the attempt started from.
	From failures.Start
	// Files is the manifest of what it left, once that is collected.
	Files spec.Digest
}

// Pause is a wait within an attempt.
type Pause struct {
	From time.Time `json:"from"`
	// To is zero if the attempt has not continued.
	To time.Time `json:"to,omitzero"`
	// For is the failure that is waited out.
	For failures.Category `json:"for"`
	// Text says what others have to do; empty unless they are waited for.
	Text string `json:"text,omitempty"`
}

// maxPauses limits the pauses of a round: more are joined.
const maxPauses = 50

// maxPauseText bounds the text of a pause, in bytes.
const maxPauseText = 200

// Pause notes that the attempt in progress waits for the reason of a failure, unless it does already. A wait for others goes on
// over short looks at what they have done.
func (l *RoundLog) Pause(now time.Time, f failures.Failure) {
	next := Pause{From: now, For: f.Category}
	if f.Category == failures.Pending {
		next.Text = textfmt.Shorten(f.Message, maxPauseText)
	}
	n := len(l.Pauses)
	if n > 0 && l.Pauses[n-1].To.IsZero() {
		return
	}
	l.Pauses = slices.Clone(l.Pauses) // readers share the old ones
	if n > 0 && next.Text != "" && l.Pauses[n-1].Text == next.Text && now.Sub(l.Pauses[n-1].To) < time.Minute {
		l.Pauses[n-1].To = time.Time{}
		return
	}
	l.Pauses = append(l.Pauses, next)
	if n == maxPauses {
		l.Pauses[1].From, l.Pauses = l.Pauses[0].From, l.Pauses[1:]
	}
}

// Continue notes that no attempt waits.
func (l *RoundLog) Continue(now time.Time) {
	if n := len(l.Pauses); n > 0 && l.Pauses[n-1].To.IsZero() {
		l.Pauses = slices.Clone(l.Pauses)
		l.Pauses[n-1].To = now
	}
}

// PausesIn are the parts of the pauses that are in a time.
func (l RoundLog) PausesIn(from, to time.Time) (in []Pause) {
	for _, p := range l.Pauses {
		if p.From.Before(from) {
			p.From = from
		}
		if p.To.IsZero() || p.To.After(to) {
			p.To = to
		}
		if p.From.Before(p.To) {
			in = append(in, p)
		}
	}
	return in
}

// Usage is the sum of the failed attempts' usage.
func (l RoundLog) Usage() cost.Usage {
	var total cost.Usage
	for _, a := range l.Attempts {
		total = total.Add(a.Usage)
	}
	return total
}

// Failures lists the failed attempts in short form.
func (l RoundLog) Failures() []AttemptFailure {
	var failed []AttemptFailure
	for _, a := range l.Attempts {
		failed = append(failed, AttemptFailure{a.Failure.Category, a.Failure.Message, a.Failure.Final})
	}
	return failed
}

// AttemptReport is the log of one failed attempt.
type AttemptReport struct {
	Attempt int              `json:"attempt"`
	Failure failures.Failure `json:"failure" sql:"*"`
	// Agent is the agent that worked, which may be a fallback.
	Agent string `json:"agent,omitempty"`
	// From is what the attempt started from.
	From  failures.Start `json:"from,omitempty" sql:"starts_from"`
	Usage cost.Usage     `json:"usage" sql:"-"`
	// Files is the manifest of the files that the attempt left, and Diff the blob of their
	// difference from the attempt's start; empty: they were not to be kept.
	Files spec.Digest `json:"files,omitempty"`
	Diff  spec.Digest `json:"diff,omitempty"`
	// LeftOut says, in sentences, what of the agent's files is not in them.
	LeftOut   []string  `json:"left_out,omitempty"`
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at"`
	// Log is the blob of the attempt's transcript.
	Log spec.Digest `json:"log,omitempty" sql:"transcript"`
}

// RoundReport is what an activity of a round reports to the session, whatever its outcome is.
type RoundReport struct {
	// Lost counts the lost workers of the round.
	Lost int `json:"lost,omitempty"`
	// Total is the cost of the assignment so far, over all rounds and runs; zero: it is
	// unknown to the activity.
	Total cost.Usage `json:"total"`
}

// RoundResult is what a successful round returns to the session.
type RoundResult struct {
	RoundReport `sql:"-"`
	BasedWork
	// Output is the manifest of input and delta together.
	Output  spec.Digest `json:"output"`
	Summary string      `json:"summary,omitempty"`
	// LeftOut says, in sentences, what of the agent's files is not in it.
	LeftOut []string `json:"left_out,omitempty"`
	// Dropped lists the versions in conflicts of the input that it does not have.
	Dropped []string `json:"dropped,omitempty"`
	// SendsBack has the reasons for which an earlier phase's work is sent back; empty: it is not.
	// Such a round has no contract to fulfil.
	SendsBack []string `json:"sends_back,omitempty"`
	// Agent is the agent that worked, which may be a fallback.
	Agent string `json:"agent,omitempty" sql:"-"`
	// From is what the successful attempt started from.
	From failures.Start `json:"from,omitempty" sql:"-"`
	// Usage covers every attempt of the round, the failed ones too.
	Usage cost.Usage `json:"usage" sql:"-"`
	// Attempts counts the attempts of the round, the last, successful one
	// included; Failures are those that failed.
	Attempts int              `json:"attempts" sql:"-"`
	Failures []AttemptFailure `json:"failures,omitempty" sql:"-"`
	// Files counts the delta's entries.
	Files     int       `json:"files"`
	StartedAt time.Time `json:"started_at" sql:"-"`
	EndedAt   time.Time `json:"ended_at" sql:"-"`
	// Log is the blob of the successful attempt's transcript.
	Log spec.Digest `json:"log,omitempty" sql:"-"`
}

// Checkpoint is the session's state after a phase. It is a blob, so its digest links the chain of
// checkpoints from the newest to the first.
type Checkpoint struct {
	Schema      string `json:"schema"`
	Session     string `json:"session"`
	Run         int    `json:"run"`
	Team        Ref    `json:"team"`
	Requirement string `json:"requirement"`
	// Workspace is the manifest that the session started from.
	Workspace spec.Digest `json:"workspace"`
	// Given are decisions that were made before the session.
	Given map[string]string `json:"given,omitempty"`
	// Origin is the session from which this one was forked.
	Origin *Origin `json:"origin,omitempty"`
	// ReportTo is the key of the ticket that the requirement came from.
	ReportTo string `json:"report_to,omitempty"`
	// Labels are the session's, by key.
	Labels map[string]string `json:"labels,omitempty"`
	// CurrentPhase is the phase that the checkpoint was taken after; init for
	// the first.
	CurrentPhase string                 `json:"current_phase"`
	Assignments  []CheckpointAssignment `json:"assignments"`
	// Partial is restored work in phases that are not done; Assignments has only that of whole
	// phases.
	Partial   []CheckpointAssignment `json:"partial,omitempty"`
	Decisions map[string]string      `json:"decisions"`
	// Tree is the manifest of all work so far, merged.
	Tree spec.Digest `json:"tree"`
	// Artifacts lists the files of assignments, sorted by path.
	Artifacts []Artifact `json:"artifacts"`
	Usage     cost.Usage `json:"usage"`
	// Answers are the answers of people to the session's requests, oldest first.
	Answers []Answer `json:"answers,omitempty"`
	// Reworks is the work that was sent back, oldest first.
	Reworks []Rework `json:"reworks,omitempty"`
	// CreatedAt is when the session reached the boundary, by its workflow's time: every executor of
	// one boundary writes the same.
	CreatedAt time.Time   `json:"created_at"`
	Temporal  TemporalIDs `json:"temporal"`
	// Previous is the previous checkpoint; empty for the first.
	Previous spec.Digest `json:"previous"`
}

// Compare orders the checkpoints of a session: by run, then by the time of their boundary.
// It is negative if c is before other.
func (c Checkpoint) Compare(other Checkpoint) int {
	return cmp.Or(cmp.Compare(c.Run, other.Run), c.CreatedAt.Compare(other.CreatedAt))
}

// Ref is the name and the digest of a resolved team.
type Ref struct {
	Name string      `json:"name"`
	Blob spec.Digest `json:"blob"`
}

// CheckpointAssignment is a finished assignment in a checkpoint.
type CheckpointAssignment struct {
	spec.AssignmentID
	AssignmentSummary
	Seconds float64 `json:"duration_seconds"`
	BasedWork
	// InputDigest is the digest of the whole basis.
	InputDigest spec.Digest `json:"input_digest,omitempty"`
	// Integrated is what the assignment's integrating rounds changed on the phase's merged tree,
	// oldest first.
	Integrated []Work `json:"integrated,omitempty"`
}

// BasedWork is work with its input and basis.
type BasedWork struct {
	// Input is the manifest that the assignment started from.
	Input spec.Digest `json:"input"`
	// Basis are the inputs of the work; nil for supplied work.
	Basis *Basis `json:"basis,omitempty" sql:"-"`
	Work
}

// Work is what one successful round added to the session.
type Work struct {
	// Delta is the blob of what changed.
	Delta spec.Digest `json:"delta"`
	// Decisions are the decisions, by name.
	Decisions map[string]string `json:"decisions,omitempty"`
	// Kept says, by path or decision, which version of a conflict an integrating round has kept.
	Kept map[string]Kept `json:"kept,omitempty"`
}

// Artifact is a file of an assignment's work.
type Artifact struct {
	Path string `json:"path"`
	// SHA256 is empty for a link.
	SHA256 spec.Digest `json:"sha256,omitempty"`
	Size   int64       `json:"size"`
	spec.AssignmentID
}

// TemporalIDs identify the workflow run that wrote a checkpoint.
type TemporalIDs struct {
	Namespace string `json:"namespace"`
	Workflow  string `json:"workflow_id"`
	Run       string `json:"run_id"`
}
