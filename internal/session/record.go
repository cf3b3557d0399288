package session

import (
	"cmp"
	"slices"
	"time"

	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/spec"
)

// RoundKey names one activity execution: the key under which an assignment's
// record keeps its log and result, so that an execution that is started again
// finds what it had, and no other.
type RoundKey struct {
	Workflow string `json:"workflow"`
	Run      string `json:"run"`
	Activity string `json:"activity"`
}

// Record is an assignment's file in the store: what its rounds tried and what
// came of it. It is written under the assignment's lock, before Temporal hears
// of the result.
type Record struct {
	Schema      string            `json:"schema"`
	Assignment  spec.AssignmentID `json:"assignment"`
	Incarnation int               `json:"incarnation"`
	// Run and Seq are of the newest activity that has taken the assignment up: its
	// workflow run, and its number there. One with a smaller number is late.
	Run string `json:"run,omitempty"`
	Seq int    `json:"seq,omitempty"`
	// Epoch counts how often a person had the assignment begin afresh, from 1:
	// stored answers of an earlier epoch are not used again.
	Epoch int `json:"epoch"`
	// Began is the epoch that the incarnation began with; zero: Epoch is.
	Began  int           `json:"began,omitempty"`
	Rounds []RoundRecord `json:"rounds"`
	// Conversation is the newest one of an agent program that a later attempt may continue, as
	// an attempt has left it; nil: there is none.
	Conversation *Conversation `json:"conversation,omitempty"`
	// Merge is how far the checks of the phase's merged tree have come, which work in the
	// integrator's directory under its lock; nil: none were ever started.
	Merge *MergeLog `json:"merge,omitempty"`
}

// Status sums the record up, without the costs: those are in the assignment's journal.
func (r Record) Status() AssignmentStatus {
	s := AssignmentStatus{Persona: r.Assignment.Persona, AssignmentSummary: NoWork()}
	s.Rounds = len(r.Rounds)
	for _, round := range r.Rounds {
		s.Status, s.Agent, s.Progress = round.State(), round.Agent, ""
		s.LostWorkers += round.Lost
		if !round.Supplied {
			s.Attempts += len(round.Attempts)
			s.Failures = append(s.Failures, round.Failures()...)
		}
		if round.Result != nil {
			s.Summary = round.Result.Summary
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

// State is where the round stands.
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

// Counted returns the checkpoint's entry of an unfinished assignment: its rounds and attempts
// so far, and what they have cost.
func (r Record) Counted(spent cost.Usage) CheckpointAssignment {
	a := CheckpointAssignment{AssignmentID: r.Assignment, AssignmentSummary: r.Status().AssignmentSummary}
	a.Status, a.Agent, a.Summary, a.Usage = "", "", "", spent
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
	// Agent replaces the persona's own; empty: it does not.
	Agent string `json:"agent,omitempty"`
	RoundLog
	// Result is set once the round has succeeded, and never changes.
	Result *RoundResult `json:"result,omitempty"`
	// GaveUp: the round has failed for good. Last: no other follows by itself.
	GaveUp bool `json:"gave_up,omitempty"`
	Last   bool `json:"last,omitempty"`
	// Integrating: the round fixed the phase's merged tree.
	Integrating bool `json:"integrating,omitempty"`
	// Supplied: a person's files stood for the work. How they failed is no
	// attempt of the assignment's.
	Supplied bool `json:"supplied,omitempty"`
	// Stale: the assignment is to run again, because it was to since or because
	// it has sent work back, so that nobody takes the round for finished work or for
	// work under way. It is kept for its cost and its log.
	Stale bool `json:"stale,omitempty"`
}

// MergeLog is what the merge of a phase remembers over its executions.
type MergeLog struct {
	Key RoundKey `json:"key"`
	// Started and Lost are as in [RoundLog].
	Started bool `json:"started,omitempty"`
	Lost    int  `json:"lost,omitempty"`
	// Outage is the trouble of the host that the checks were last stopped by.
	Outage *Outage `json:"outage,omitempty"`
}

// Logs lists the blobs of the round's transcripts, and of what failed attempts
// had changed.
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

// Passes numbers the pass of each round, from 1: another one begins where the
// assignment was begun afresh, because work was sent back, because a person had it
// tried again, or in a later incarnation.
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

// RoundLog is what a round remembers over its executions. It travels in
// heartbeats, too, for the case that the record could not be written. Of the attempt under
// way it has:
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
	// Started: an execution was about to start the agent, and has not noted since how
	// that ended. It is written under the assignment's lock, so whoever finds it with
	// the lock in hand knows that a worker was lost.
	Started bool `json:"started,omitempty"`
	// Lost counts executions whose worker was lost after they had started the agent.
	Lost int `json:"lost"`
	// LostAtProgress is Lost when something was last achieved; the difference
	// is the number of losses in a row.
	LostAtProgress int `json:"lost_at_progress"`
	// Calls is how many paid calls were settled when the log was last looked
	// at after a loss: more of them since are progress.
	Calls int `json:"calls,omitempty"`
	// Begun is the attempt that was last begun by an agent whose conversation
	// can continue; zero: none was.
	Begun int `json:"begun,omitempty"`
	// Outage is the provider's trouble that the attempt under way waits out; nil: there
	// is none.
	Outage *Outage `json:"outage,omitempty"`
	// AttemptAt is when the attempt under way was begun, by whichever execution; zero:
	// none is.
	AttemptAt time.Time `json:"attempt_at,omitzero"`
	// Permit is that of the breaker of the round's agent; nil: it has given none yet.
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

// Usage adds up what the failed attempts have cost.
func (l RoundLog) Usage() cost.Usage {
	var total cost.Usage
	for _, a := range l.Attempts {
		total = total.Add(a.Usage)
	}
	return total
}

// Failures lists the failed attempts in short.
func (l RoundLog) Failures() []AttemptFailure {
	var failed []AttemptFailure
	for _, a := range l.Attempts {
		failed = append(failed, AttemptFailure{a.Failure.Category, a.Failure.Message})
	}
	return failed
}

// AttemptReport is the log of one failed attempt.
type AttemptReport struct {
	Attempt int              `json:"attempt"`
	Failure failures.Failure `json:"failure"`
	// Agent is the one that worked, which may be a fallback.
	Agent string `json:"agent,omitempty"`
	// From is what it started from.
	From  failures.Start `json:"from,omitempty"`
	Usage cost.Usage     `json:"usage"`
	// Left is the manifest of the files that the attempt left, and Diff the
	// blob of how they differ from what it started from; empty where they were
	// not to be kept.
	Left      spec.Digest `json:"left,omitempty"`
	Diff      spec.Digest `json:"diff,omitempty"`
	StartedAt time.Time   `json:"started_at"`
	EndedAt   time.Time   `json:"ended_at"`
	// Log is the blob of the attempt's transcript.
	Log spec.Digest `json:"log,omitempty"`
}

// RoundReport is what an activity of a round reports to the session, however it ends.
type RoundReport struct {
	// Lost counts the workers that the round has lost.
	Lost int `json:"lost,omitempty"`
	// Total is all that the assignment has cost so far, over all rounds and incarnations;
	// zero: the activity does not know.
	Total cost.Usage `json:"total"`
	// Unreported is the outcome that the breaker of the agent has not received yet.
	Unreported *BreakerReport `json:"unreported,omitempty"`
}

// RoundResult is what a successful round hands to the session.
type RoundResult struct {
	RoundReport
	BasedWork
	// Output is the manifest of input and delta together.
	Output  spec.Digest `json:"output"`
	Summary string      `json:"summary,omitempty"`
	// SendsBack has the reasons for which an earlier phase's work is sent back;
	// empty: it is not. Such a round was held to no contract.
	SendsBack []string `json:"sends_back,omitempty"`
	// Agent is the one that worked, which may be a fallback.
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

// Checkpoint is the session's state after a phase. It is a blob of its own, so
// that the chain from the newest back to the first is walked by digests.
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
	// Origin says from which session this one was forked.
	Origin *Origin `json:"origin,omitempty"`
	// ReportTo is the key of the ticket that the requirement came from.
	ReportTo string `json:"report_to,omitempty"`
	// Labels are the session's, by key.
	Labels map[string]string `json:"labels,omitempty"`
	// CurrentPhase is the phase that the checkpoint was taken after; init for
	// the first.
	CurrentPhase string                 `json:"current_phase"`
	Assignments  []CheckpointAssignment `json:"assignments"`
	// Partial is restored work in phases that have yet to be done; Assignments
	// has only that of whole phases.
	Partial   []CheckpointAssignment `json:"partial,omitempty"`
	Decisions map[string]string      `json:"decisions"`
	// Tree is the manifest of all work so far, folded.
	Tree spec.Digest `json:"tree"`
	// Artifacts lists the files that assignments left, sorted by path.
	Artifacts []Artifact `json:"artifacts"`
	Usage     cost.Usage `json:"usage"`
	// Answers is what people have said to the session's requests, oldest first.
	Answers []Answer `json:"answers,omitempty"`
	// Reworks is the work that was sent back, oldest first.
	Reworks []Rework `json:"reworks,omitempty"`
	// CreatedAt is when the session came to the boundary, by its workflow's time: every
	// executor of one boundary writes the same.
	CreatedAt time.Time   `json:"created_at"`
	Temporal  TemporalIDs `json:"temporal"`
	// Previous is the checkpoint before; empty for the first.
	Previous spec.Digest `json:"previous"`
}

// Compare orders the checkpoints of a session: by incarnation, then by the time of the
// boundary that they were taken at. It is negative if c is before other.
func (c Checkpoint) Compare(other Checkpoint) int {
	return cmp.Or(cmp.Compare(c.Incarnation, other.Incarnation), c.CreatedAt.Compare(other.CreatedAt))
}

// Ref names a resolved team by its content.
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
	// InputDigest names the basis as a whole.
	InputDigest spec.Digest `json:"input_digest,omitempty"`
	// Integrated is what the assignment's integrating rounds then changed on
	// the phase's merged tree, oldest first.
	Integrated []Work `json:"integrated,omitempty"`
}

// BasedWork is work and what it was made from.
type BasedWork struct {
	// Input is the manifest that the assignment started from.
	Input spec.Digest `json:"input"`
	// Basis is what the work rests on; nil for supplied work.
	Basis *Basis `json:"basis,omitempty"`
	Work
}

// Work is what one successful round added to the session.
type Work struct {
	// Delta is the blob of what changed.
	Delta spec.Digest `json:"delta"`
	// Decisions are the choices made, by name.
	Decisions map[string]string `json:"decisions,omitempty"`
}

// Artifact is a file that an assignment left.
type Artifact struct {
	Path string `json:"path"`
	// SHA256 is empty for a link.
	SHA256 spec.Digest `json:"sha256,omitempty"`
	Size   int64       `json:"size"`
	spec.AssignmentID
}

// TemporalIDs names the workflow run that wrote a checkpoint.
type TemporalIDs struct {
	Namespace string `json:"namespace"`
	Workflow  string `json:"workflow_id"`
	Run       string `json:"run_id"`
}
