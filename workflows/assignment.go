package workflows

import (
	"errors"
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// assignment is one persona's work while a phase runs once. Its
// counts and usage include those of earlier runs.
type assignment struct {
	session.CheckpointAssignment
	// Round counts the rounds since the work was ordered. Retry limits apply to it.
	Round int `json:"round,omitempty"`
	// From is the input manifest of the next round, Output the output manifest of the last one.
	From   spec.Digest `json:"from,omitempty"`
	Output spec.Digest `json:"output,omitempty"`
	// Feedback is the blob of a failed merge; set while Integrating.
	Feedback    spec.Digest `json:"feedback,omitempty"`
	Integrating bool        `json:"integrating,omitempty"`
	// Substitute replaces the persona's own agent:
	//
	//	Substitute  Degraded  Refused  who works, and for how long
	//	""          -         -        the persona's own agent
	//	set         -         set      the substitute for this round: Refused is how the own agent's breaker refused it
	//	set         -         -        the substitute for this round: the own agent declined the last one
	//	set         yes       -        the substitute for good: the own agent is too expensive
	Substitute string                  `json:"substitute,omitempty"`
	Degraded   bool                    `json:"degraded,omitempty"`
	Refused    *activities.BreakerStop `json:"refused,omitempty"`
	// Supplied is the manifest of a person's files, which the next round takes
	// for the work; empty if an agent works.
	Supplied      spec.Digest `json:"supplied,omitempty"`
	SuppliedBy    string      `json:"supplied_by,omitempty"`
	SuppliedWhole bool        `json:"supplied_whole,omitempty"`
	// Settled lists the versions in conflicts of its input that its work does not have.
	Settled []string `json:"settled,omitempty"`
	// SendsBack has the reasons for which the work of an earlier phase is sent back.
	SendsBack []string `json:"sends_back,omitempty"`
	nextStep

	*assignmentState `json:"-"`
	// unrecorded is the phase's work that is in the input but in no checkpoint yet.
	unrecorded []session.CheckpointAssignment
	// awaits is the breaker that the assignment waits for.
	awaits *session.BreakerWait
	// accepted: a person accepts the phase's merged tree as it is.
	accepted bool
}

// nextStep is the next step of an assignment. It has one of these values, and is only replaced as a whole:
//
//	made by      the assignment                                        until
//	nextStep{}   is in a round, or has no more to do                   the round's end
//	nextRound    begins another round, but not before NotBefore        runAssignment begins it
//	sameRound    continues its round with the activity Next            executeRound does, in this run or the next
//	askPerson    may begin no round before a person has answered       applyAnswer
type nextStep struct {
	Due       bool              `json:"due,omitempty"`
	NotBefore time.Time         `json:"not_before,omitzero"`
	Next      *step             `json:"next,omitempty"`
	Failure   *failures.Failure `json:"failure,omitempty"`
}

func nextRound(notBefore time.Time) nextStep { return nextStep{Due: true, NotBefore: notBefore} }
func sameRound(next step) nextStep           { return nextStep{Next: &next} }
func askPerson(f failures.Failure) nextStep  { return nextStep{Failure: &f} }

// pending reports whether the assignment has a round to do or to wait for, whatever work it
// has already.
func (s nextStep) pending() bool { return s != nextStep{} }

// finished reports whether the assignment's own work is done. Rounds for the merged tree do not
// count.
func (a *assignment) finished() bool { return a.Integrating || a.Status.Done() && !a.pending() }

// assignmentState is the state of an assignment over all passes of its phase.
type assignmentState struct {
	// RoundsOfRun counts all rounds of a Temporal run of the session, and Continuations how often one continued
	// in a further activity: the ids of activities are made of them.
	RoundsOfRun   int `json:"rounds,omitempty"`
	Continuations int `json:"waits,omitempty"`
	// Ordered counts how often its work was ordered again in this run, and Because is why the last time.
	Ordered int             `json:"ordered,omitempty"`
	Because session.Because `json:"because,omitempty"`
	// Note is the last note of a person to its agent.
	Note string `json:"note,omitempty"`
	// Given are the conflicts of its input that its work has to settle; DroppedByPerson are the versions that a
	// person has dropped instead.
	Given           []session.Conflict `json:"given,omitempty"`
	DroppedByPerson []string           `json:"dropped,omitempty"`
	// Restored is its reused work, while its phase has yet to run; nil if there is none.
	Restored *activities.RestoredWork `json:"restored,omitempty"`

	// outage is the one that its round waits for, as far as the round has reported it, and
	// notice the request that notifies people; nil if there is none.
	//
	//	outage  notice  the round
	//	-       -       works, or waits for less than a minute
	//	set     -       waits without a slot; a session that ends does not wait for it
	//	-       set     waits for its breaker, or has just returned for its outage
	//	set     set     waits for its provider
	//
	// Both are cleared together when the outage is over or a person has answered.
	outage *activities.OutageNews
	notice *request
	// wake ends a wait for others. waking: it is about to be set.
	wake, waking bool
}

// drops notes the versions in conflicts that the phase's result does not have, with those of the merge.
func (a *assignment) drops(merge []string) {
	a.Dropped = slices.Concat(a.DroppedByPerson, a.Settled, merge)
}

// ownWork reports whether the assignment does its own work: it neither fixes the merged tree
// nor sends work back.
func (a *assignment) ownWork() bool { return !a.Integrating && len(a.SendsBack) == 0 }

// skipEffect is what skip does, if that is not to end the assignment without its work only.
func (a *assignment) skipEffect() string {
	switch {
	case a.Integrating:
		return "keeps the merged files as they are, with the later version of each conflict"
	case len(a.SendsBack) > 0:
		return "accepts the work that was sent back as it is"
	case len(a.Given) > 0:
		return "leaves this work out, and " + session.KeepsLater(a.Given)
	}
	return ""
}

// skip ends an assignment without its work: with what changes nothing, or, on
// the phase's merged tree, with the tree as it is.
func (a *assignment) skip(nothing spec.Digest) {
	if a.Integrating {
		// The conflicts stay unresolved: the later version is kept.
		a.Status, a.accepted = session.Completed, true
		a.Integrated = append(a.Integrated, session.Work{Delta: nothing})
		return
	}
	if len(a.SendsBack) > 0 { // the work that it sends back is accepted, and so is its own
		a.Status, a.SendsBack = session.Completed, nil
		return
	}
	a.Settled = session.KeptLater(a.Given)
	a.drops(nil)
	a.Status, a.Summary, a.Output = session.Skipped, "skipped by a person", a.From
	a.BasedWork = session.BasedWork{Input: a.From, Work: session.Work{Delta: nothing}}
}

// orderAgain orders the work of the assignment again.
func (a *assignmentState) orderAgain(why session.Because) { a.Ordered, a.Because = a.Ordered+1, why }

// again has the assignment try again, with a person's note to the agent.
func (a *assignment) again(note string) {
	a.orderAgain(session.BecauseRetried)
	a.Round, a.Note = 0, note
	if !a.Degraded {
		a.Substitute = ""
	}
}

// charge books the cost of a failed round.
func (a *assignment) charge(report activities.RoundFailure) {
	a.Attempts += session.CountedAttempts(report.Attempts)
	a.LostWorkers += report.Lost
	a.Failures = session.LastFailures(append(a.Failures, report.Attempts...))
	a.setUsage(report.RoundReport)
}

// setUsage sets the cost of the assignment. A report of an activity that could not read it has none.
func (a *assignment) setUsage(report session.RoundReport) {
	if report.Total != (cost.Usage{}) {
		a.Usage = report.Total
	}
}

// interrupt books the cost of a cancelled round.
func (a *assignment) interrupt(err error) {
	var ofActivity *temporal.ActivityError // a wait in the workflow has other details
	var cancelled *temporal.CanceledError
	var report session.RoundReport
	if errors.As(err, &ofActivity) && errors.As(ofActivity, &cancelled) && cancelled.HasDetails() &&
		cancelled.Details(&report) == nil {
		a.setUsage(report)
	}
}

// roundFailure reads why a round failed from its error.
func roundFailure(err error) activities.RoundFailure {
	if report, ok := detail[activities.RoundFailure](err, session.UnrecoverableError); ok {
		return report
	}
	f := failures.Failf(failures.Unknown, "%s", textfmt.Shorten(err.Error(), session.MaxMessage))
	if temporal.IsTimeoutError(err) {
		f.Category = failures.Timeout
	}
	return activities.RoundFailure{Failure: *f}
}

// fallbackOf returns the agent that may replace the persona's own agent; empty:
// there is none.
func (s *sessionRun) fallbackOf(a *assignment) string {
	return s.Fallbacks[s.Team.Personas[a.Persona].Agent]
}

// chooseAgent decides who does the next round after a failed one: the persona's
// own agent, unless that is too expensive or has declined and there is another.
func (s *sessionRun) chooseAgent(a *assignment, f failures.Failure) {
	if a.Degraded {
		return
	}
	a.Substitute = ""
	if s.Team.Personas[a.Persona].Fallback && failures.RuleFor(f.Category).Fallback {
		a.Substitute = s.fallbackOf(a)
	}
}

// onExceeded returns what the session does if a budget does not permit an
// assignment's next call.
func (s *sessionRun) onExceeded(a *assignment) spec.OnExceeded {
	wanted := s.Team.Budget.OnExceeded
	if wanted == spec.OnExceededDegrade && (a.Degraded || s.fallbackOf(a) == "") {
		return spec.OnExceededStop
	}
	return wanted
}
