package workflows

import (
	"errors"
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// assignment is one persona's work in one pass of a phase. Its
// counts and usage include those of earlier incarnations.
type assignment struct {
	session.CheckpointAssignment
	*assignmentState
	// round counts the rounds of the series, which retry limits are for.
	round int
	// input is the manifest that the next round starts from.
	input spec.Digest
	// beside is the phase's work that the input has and no checkpoint yet.
	beside []session.CheckpointAssignment
	// feedback is the blob of a failed merge; set while integrating.
	feedback    spec.Digest
	integrating bool
	// output is the manifest that the last round left.
	output spec.Digest
	// agent works in the place of the persona's own; empty: nobody does.
	// degraded: it does so for good, because the own one is too expensive.
	agent    string
	degraded bool
	// refused is how the breaker of the persona's own agent refused this round; nil: it
	// did not.
	refused *activities.TurnedAway
	// awaits is the breaker that the assignment waits for.
	awaits *session.BreakerWait
	// supplied is the manifest of a person's files, which the next round takes
	// for the work; empty: an agent works.
	supplied   spec.Digest
	suppliedBy string
	// settled: a person wants the phase's merged tree as it is.
	settled bool
	// sendsBack has the reasons for which the work of an earlier phase is sent back.
	sendsBack []string
	// due: a further round is to begin, and not before notBefore.
	due       bool
	notBefore time.Time
	// next is how a round continues that an earlier run has left; nil: none is left.
	next *execution
	// failure is why no further round may begin until a person has answered; nil: one may.
	failure *failures.Failure
}

// midway reports whether the assignment has a round to do or to wait for, whatever work it
// has already.
func (a *assignment) midway() bool { return a.due || a.next != nil || a.failure != nil }

// finished reports whether its own work is at hand. What it has to do for the merged tree is
// left to the merge.
func (a *assignment) finished() bool { return a.integrating || a.Status.Done() && !a.midway() }

// assignmentState is what is kept of an assignment over the passes of its phase.
type assignmentState struct {
	// rounds counts all rounds of an incarnation, and waits how often one continued in a
	// further activity: the names of activities are made of them.
	rounds, waits int
	// series counts how often it began a new series of rounds, because a person wanted
	// it or its phase was sent back.
	series int
	// note is what a person last said to its agent.
	note string
	// restored is its work that is at hand although its phase has yet to run; nil: none.
	restored *activities.RestoredWork
	// outage is the one that its round waits for the end of, and notice the request that
	// notifies people of it; nil: none.
	outage *activities.OutageNews
	notice *request
}

// newAssignment takes an assignment up where it stands: with its finished work,
// or with what it has cost so far.
func newAssignment(state *assignmentState, before session.AssignmentStatus, id spec.AssignmentID, input spec.Digest) *assignment {
	if state.restored != nil {
		w := *state.restored
		if !w.Status.Done() {
			w.Status = session.Restored
		}
		return &assignment{CheckpointAssignment: w.CheckpointAssignment, assignmentState: state, input: input, output: w.Output}
	}
	a := &assignment{input: input, assignmentState: state, CheckpointAssignment: session.CheckpointAssignment{
		AssignmentID: id, AssignmentSummary: before.AssignmentSummary,
	}}
	a.Status, a.Agent, a.Summary, a.Failures = session.Pending, "", "", slices.Clone(a.Failures)
	return a
}

func entries(work []*assignment) []session.CheckpointAssignment {
	out := make([]session.CheckpointAssignment, len(work))
	for i, a := range work {
		out[i] = a.CheckpointAssignment
	}
	return out
}

// begin counts a round.
func (a *assignment) begin() {
	a.Rounds++
	a.rounds++
	a.round++
	a.due = false
}

// add takes over what a successful round delivered.
func (a *assignment) add(r session.RoundResult) {
	a.Attempts += r.Attempts
	a.LostWorkers += r.Lost
	a.Failures = append(a.Failures, r.Failures...)
	a.Usage = r.Total
	a.Seconds += r.EndedAt.Sub(r.StartedAt).Seconds()
	a.Status, a.Summary, a.output, a.Agent = session.Completed, r.Summary, r.Output, a.agent
	if a.supplied != "" {
		a.Status, a.supplied = session.Supplied, ""
	}
	if a.integrating {
		a.Integrated = append(a.Integrated, r.Work)
		return
	}
	a.BasedWork, a.sendsBack = r.BasedWork, r.SendsBack
}

// ownWork reports whether the assignment is at its own work: not at merging others', and
// not done with it because it sends others' back.
func (a *assignment) ownWork() bool { return !a.integrating && len(a.sendsBack) == 0 }

// skip settles an assignment without its work: with what changes nothing, or, on
// the phase's merged tree, with the tree as it is.
func (a *assignment) skip(nothing spec.Digest) {
	if a.integrating {
		// Nobody resolves what the personas disagree on: the later version stands.
		a.Status, a.settled = session.Completed, true
		a.Integrated = append(a.Integrated, session.Work{Delta: nothing})
		return
	}
	if len(a.sendsBack) > 0 { // what it sends back is accepted, and so is its own work
		a.Status, a.sendsBack = session.Completed, nil
		return
	}
	a.Status, a.Summary, a.output = session.Skipped, "skipped by a person", a.input
	a.BasedWork = session.BasedWork{Input: a.input, Work: session.Work{Delta: nothing}}
}

// again begins a new series of rounds, with what a person says to the agent.
func (a *assignment) again(note string) {
	a.series++
	a.round, a.note = 0, note
	if !a.degraded {
		a.agent = ""
	}
}

// charge books what a failed round has cost.
func (a *assignment) charge(report activities.RoundFailure) {
	a.Attempts += len(report.Attempts)
	a.LostWorkers += report.Lost
	a.Failures = append(a.Failures, report.Attempts...)
	if report.Total != (cost.Usage{}) { // a round that could not look does not know
		a.Usage = report.Total
	}
}

// interrupt books what a round that was cancelled has cost.
func (a *assignment) interrupt(err error) {
	var ofActivity *temporal.ActivityError // a wait in the workflow has other details
	var cancelled *temporal.CanceledError
	var report activities.Interruption
	if errors.As(err, &ofActivity) && errors.As(ofActivity, &cancelled) && cancelled.HasDetails() && cancelled.Details(&report) == nil {
		a.Usage = report.Total
	}
}

// roundFailure reads why a round failed from its error; false for an error that
// ends the session's coroutine instead, like a cancellation.
func roundFailure(err error) (activities.RoundFailure, bool) {
	if temporal.IsCanceledError(err) {
		return activities.RoundFailure{}, false
	}
	if report, ok := detail[activities.RoundFailure](err, session.UnrecoverableError); ok {
		return report, true
	}
	f := failures.Failf(failures.Unknown, "%s", textfmt.Shorten(err.Error(), session.MaxMessage))
	if temporal.IsTimeoutError(err) {
		f.Category = failures.Timeout
	}
	return activities.RoundFailure{Failure: *f}, true
}
