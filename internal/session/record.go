package session

import (
	"cmp"
	"slices"
	"time"

	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/spec"
)

// RoundKey identifies one activity execution. An assignment's record stores its log and result
// under this key, so that a repeated execution finds its own and no other.
type RoundKey struct {
	Workflow string `json:"workflow"`
	Run      string `json:"run"`
	Activity string `json:"activity"`
}

// Record is an assignment's document in the store: the attempts of its rounds and their results. It
// is written under the assignment's lock, before Temporal receives the result.
type Record struct {
	Schema      string            `json:"schema"`
	Assignment  spec.AssignmentID `json:"assignment"`
	Incarnation int               `json:"incarnation"`
	// Run and Seq identify the newest activity that has taken the assignment over: its workflow
	// run, and its number there. An activity with a smaller number is late.
	Run string `json:"run,omitempty"`
	Seq int    `json:"seq,omitempty"`
	// Epoch counts, from 1, how often a person had the assignment start again: stored answers of an
	// earlier epoch are not reused.
	Epoch int `json:"epoch"`
	// Began is the epoch that the incarnation began with; zero: Epoch is.
	Began int `json:"began,omitempty"`
	// Admitted is the newest incarnation whose admission has decided on Epoch and Began. A fence
	// raises Incarnation also where it has to decide again.
	Admitted int           `json:"admitted,omitempty"`
	Rounds   []RoundRecord `json:"rounds"`
	// Conversation is the newest conversation of an agent program that a later attempt may
	// continue, as an attempt has left it; nil: there is none.
	Conversation *Conversation `json:"conversation,omitempty"`
	// Merge is the log of the checks of the phase's merged tree, which run in the integrator's
	// directory under its lock; nil: none was started.
	Merge *MergeLog `json:"merge,omitempty"`
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
			s.Summary, s.LeftOut = round.Result.Summary, round.Result.LeftOut
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

// State is the state of the round.
func (r RoundRecord) State() State {
	switch {
	case r.Stale:
		return Pending
	case r.Result != nil && r.Supplied:
		return Supplied
	case r.Result != nil:
		return Completed
	case r.Last:
		return Failed
	case r.GaveUp, !r.Started && (len(r.Attempts) > 0 || r.Outage != nil || !r.AttemptAt.IsZero()):
		return Waiting
	}
	return Running
}

// Counted returns the checkpoint's entry of an unfinished assignment: its rounds and attempts so
// far, and their cost.
func (r Record) Counted(spent cost.Usage) CheckpointAssignment {
	a := CheckpointAssignment{AssignmentID: r.Assignment, AssignmentSummary: r.Status().AssignmentSummary}
	a.Status, a.Agent, a.Summary, a.LeftOut, a.Usage = "", "", "", nil, spent
	return a
}

// RoundRecord is one round in a record:
//
//	Result  GaveUp  Last  the round
//	-       -       -     has not ended: see [RoundLog]
//	set     -       -     succeeded
//	-       yes     -     failed, and another one follows by itself
//	-       yes     yes   failed, and none follows by itself
//
// Each of them may be Stale.
type RoundRecord struct {
	Key   RoundKey `json:"key"`
	Round int      `json:"round"`
	// Epoch is the record's epoch in which the round ran.
	Epoch int `json:"epoch"`
	// Agent worked in place of the persona's own; empty: the persona's own worked.
	Agent string `json:"agent,omitempty"`
	RoundLog
	// Result is set once the round has succeeded, and never changes.
	Result *RoundResult `json:"result,omitempty"`
	// GaveUp: the round has failed for good. Last: no other round follows by itself.
	GaveUp bool `json:"gave_up,omitempty"`
	Last   bool `json:"last,omitempty"`
	// Integrating: the round fixed the phase's merged tree.
	Integrating bool `json:"integrating,omitempty"`
	// Supplied: a person's files were used as the work. Their failures are not attempts of the
	// assignment.
	Supplied bool `json:"supplied,omitempty"`
	// Stale: the assignment has to run again, because a later request required it or because it has
	// sent work back. The round is neither finished work nor work in progress. It is kept for its
	// cost and its log.
	Stale bool `json:"stale,omitempty"`
}

// MergeLog is the state of a phase's merge that is kept across its executions.
type MergeLog struct {
	Key RoundKey `json:"key"`
	// Started and Lost are as in [RoundLog].
	Started bool `json:"started,omitempty"`
	Lost    int  `json:"lost,omitempty"`
	// Outage is the host's outage by which the checks were last stopped.
	Outage *Outage `json:"outage,omitempty"`
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

// Passes numbers the pass of each round, from 1. A new pass begins where the assignment was started
// again: because work was sent back, because a person requested a retry, or in a later incarnation.
func (r Record) Passes() []int {
	passes := make([]int, len(r.Rounds))
	for i, round := range r.Rounds {
		if i == 0 {
			passes[i] = 1
			continue
		}
		before := r.Rounds[i-1]
		passes[i] = passes[i-1]
		again := before.Result != nil && !round.Integrating && round.Key.Run != before.Key.Run
		if round.Epoch != before.Epoch || again {
			passes[i]++
		}
	}
	return passes
}

// WithoutTranscripts is the record without the transcripts of its attempts, and without the
// conversation, which has the same.
func (r Record) WithoutTranscripts() Record {
	r.Conversation = nil
	r.Rounds = slices.Clone(r.Rounds)
	for i, round := range r.Rounds {
		round.Attempts = slices.Clone(round.Attempts)
		for j := range round.Attempts {
			round.Attempts[j].Log, round.Attempts[j].Diff = "", ""
		}
		if round.Result != nil {
			result := *round.Result
			result.Log = ""
			round.Result = &result
		}
		r.Rounds[i] = round
	}
	return r
}

// RoundLog is the state of a round that is kept across its executions. Heartbeats carry it, too, in
// case the record could not be written. Of the attempt in progress it has:
//
//	Started  AttemptAt  Outage  the attempt
//	-        -          -       has not begun
//	yes      set        -       is at work, or its worker was lost
//	-        set        -       was interrupted: by a stopping worker, its store, its budget
//	-        any        set     waits for its provider or host; without AttemptAt since before it began
//	yes      set        set     tries again, and no answer has ended the outage yet
//
// A counted failure sets all three back.
type RoundLog struct {
	// Revision counts the changes: of two logs of one round the higher one is later.
	Revision int `json:"revision"`
	// Attempts lists the counted attempts that failed, oldest first.
	Attempts []AttemptReport `json:"attempts"`
	// Started: an execution was about to start the agent, and has not recorded how that ended. It
	// is written under the assignment's lock. An executor that holds the lock and finds it set can
	// conclude that a worker was lost.
	Started bool `json:"started,omitempty"`
	// Lost counts the executions whose worker was lost after the agent was started.
	Lost int `json:"lost"`
	// LostAtProgress is the value of Lost at the last progress; the difference is the number of
	// consecutive losses.
	LostAtProgress int `json:"lost_at_progress"`
	// Calls is the number of settled calls when the log was last examined after a loss: more of
	// them since then are progress.
	Calls int `json:"calls,omitempty"`
	// Begun is the last started attempt of an agent whose conversation can continue; zero: there is
	// none.
	Begun int `json:"begun,omitempty"`
	// Basis is what the last started attempt was based on; nil: none was started.
	Basis *Basis `json:"basis,omitempty"`
	// Outage is the outage that the attempt in progress waits out; nil: there is none.
	Outage *Outage `json:"outage,omitempty"`
	// AttemptAt is when the attempt in progress was started, by any execution; zero: none is in
	// progress.
	AttemptAt time.Time `json:"attempt_at,omitzero"`
	// Pauses are the waits within attempts, for a budget or an outage, oldest first.
	Pauses []Pause `json:"pauses,omitempty"`
	// Permit is the permission of the breaker of the round's agent; nil: it has given none yet.
	Permit *BreakerPermit `json:"permit,omitempty"`
}

// Round is the entry of an activity, for changing; nil if there is none.
func (r *Record) Round(key RoundKey) *RoundRecord {
	for i := range r.Rounds {
		if r.Rounds[i].Key == key {
			return &r.Rounds[i]
		}
	}
	return nil
}

// Pause is a wait within an attempt.
type Pause struct {
	From time.Time `json:"from"`
	// To is zero if the attempt has not continued.
	To time.Time `json:"to,omitzero"`
	// For is the failure that is waited out.
	For failures.Category `json:"for"`
}

// maxPauses limits the pauses of a round: more are joined.
const maxPauses = 50

// Pause notes that the attempt in progress waits, unless it does already.
func (l *RoundLog) Pause(now time.Time, cause failures.Category) {
	n := len(l.Pauses)
	if n > 0 && l.Pauses[n-1].To.IsZero() {
		return
	}
	l.Pauses = append(slices.Clone(l.Pauses), Pause{From: now, For: cause}) // readers share the old ones
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
	Failure failures.Failure `json:"failure"`
	// Agent is the agent that worked, which may be a fallback.
	Agent string `json:"agent,omitempty"`
	// From is what the attempt started from.
	From  failures.Start `json:"from,omitempty"`
	Usage cost.Usage     `json:"usage"`
	// Left is the manifest of the files that the attempt left, and Diff the blob of their
	// difference from the attempt's start; empty: they were not to be kept.
	Left spec.Digest `json:"left,omitempty"`
	Diff spec.Digest `json:"diff,omitempty"`
	// LeftOut says, in sentences, what of the agent's files is not in them.
	LeftOut   []string  `json:"left_out,omitempty"`
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at"`
	// Log is the blob of the attempt's transcript.
	Log spec.Digest `json:"log,omitempty"`
}

// RoundReport is what an activity of a round reports to the session, whatever its outcome is.
type RoundReport struct {
	// Lost counts the lost workers of the round.
	Lost int `json:"lost,omitempty"`
	// Total is the cost of the assignment so far, over all rounds and incarnations; zero: it is
	// unknown to the activity.
	Total cost.Usage `json:"total"`
	// Unreported is the outcome that the breaker of the agent has not received yet.
	Unreported *BreakerReport `json:"unreported,omitempty"`
}

// RoundResult is what a successful round returns to the session.
type RoundResult struct {
	RoundReport
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
	Agent string `json:"agent,omitempty"`
	// From is what the successful attempt started from.
	From failures.Start `json:"from,omitempty"`
	// Usage covers every attempt of the round, the failed ones too.
	Usage cost.Usage `json:"usage"`
	// Attempts counts the attempts of the round, the last, successful one
	// included; Failures are those that failed.
	Attempts int              `json:"attempts"`
	Failures []AttemptFailure `json:"failures,omitempty"`
	// Files counts the delta's entries.
	Files     int       `json:"files"`
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at"`
	// Log is the blob of the successful attempt's transcript.
	Log spec.Digest `json:"log,omitempty"`
}

// Checkpoint is the session's state after a phase. It is a blob, so its digest links the chain of
// checkpoints from the newest to the first.
type Checkpoint struct {
	Schema      string `json:"schema"`
	Session     string `json:"session"`
	Incarnation int    `json:"incarnation"`
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

// Compare orders the checkpoints of a session: by incarnation, then by the time of their boundary.
// It is negative if c is before other.
func (c Checkpoint) Compare(other Checkpoint) int {
	return cmp.Or(cmp.Compare(c.Incarnation, other.Incarnation), c.CreatedAt.Compare(other.CreatedAt))
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
	Basis *Basis `json:"basis,omitempty"`
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
