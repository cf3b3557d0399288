package workflows

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// newAssignment returns an assignment for a run of its phase, with its finished work or with its
// cost so far.
func newAssignment(state *assignmentState, before session.AssignmentStatus, id spec.AssignmentID, input spec.Digest) *assignment {
	if state.Restored != nil {
		w := *state.Restored
		if !w.Status.Done() {
			w.Status = session.Restored
		}
		return &assignment{CheckpointAssignment: w.CheckpointAssignment, From: input, Output: w.Output, assignmentState: state}
	}
	a := &assignment{From: input, assignmentState: state, CheckpointAssignment: session.CheckpointAssignment{
		AssignmentID: id, AssignmentSummary: before.AssignmentSummary,
	}}
	a.Status, a.Agent, a.Summary, a.Files = session.Pending, "", "", 0
	a.Dropped, a.LeftOut, a.Failures = state.DroppedByPerson, nil, slices.Clone(a.Failures)
	return a
}

func entries(work []*assignment) []session.CheckpointAssignment {
	out := make([]session.CheckpointAssignment, len(work))
	for i, a := range work {
		out[i] = a.CheckpointAssignment
	}
	return out
}

// countRound counts a round.
func (a *assignment) countRound() {
	a.Rounds++
	a.RoundsOfRun++
	a.Round++
	a.nextStep = nextStep{}
}

// roundID is the id of the first activity of the round.
func (a *assignment) roundID() string {
	return fmt.Sprintf("%s.%s.%d", a.Phase, a.Persona, a.RoundsOfRun)
}

// runAssignment executes rounds of one assignment until one succeeds. When they are used up, or another
// one is useless, a person decides how it continues. This is retry level 2; level 1, the attempts inside
// a round, is decided in activities/round.go.
func (s *sessionRun) runAssignment(ctx workflow.Context, a *assignment) error {
	if left := a.NotBefore.Sub(workflow.Now(ctx)); a.Due && left > 0 { // an earlier run has begun the wait
		summary := fmt.Sprintf("%s: round %d of %d", a.AssignmentID, a.Round+1, s.Team.Retry.Rounds)
		if err := s.pauseBeforeRound(ctx, a, left, summary); err != nil {
			return err
		}
	}
	for {
		if a.Failure != nil {
			done, err := s.requestHelp(ctx, a, *a.Failure, a.Failures)
			s.showPage(ctx)
			if done || err != nil {
				return err
			}
		}
		if s.ending.continuesAsNew() {
			if !a.pending() {
				a.nextStep = nextRound(workflow.Now(ctx))
			}
			return errStopped
		}
		if a.Next == nil {
			a.countRound()
		}
		s.setAssignment(ctx, a, session.Running)
		switch end := s.executeRound(ctx, a); end.kind {
		case stepDone:
			s.finishRound(ctx, a, end.result)
			return nil
		case stepAnswered:
			if done := s.applyAnswer(ctx, a, end.answer); done {
				return nil
			}
		case stepFailed:
			if err := s.afterFailure(ctx, a, end.failure); err != nil {
				return err
			}
		case stepInterrupted:
			a.interrupt(end.err)
			s.setAssignment(ctx, a, session.Waiting)
			return end.err
		default: // the session ends, or its next run continues the round
			return end.err
		}
	}
}

// step is one of the activities that a round may take.
type step struct {
	ID string `json:"id"`
	// Outage is what to do about the previous activity's outage.
	Outage activities.OutageStance `json:"outage,omitempty"`
	// lease is set if the round probes the agent's breaker. A round that does not begin lets it expire.
	lease session.BreakerPermit
}

// executeRound executes one round, with one activity or several: after a refusal by the breaker, an
// exceeded budget or an outage of the provider, another activity continues the round, and no round
// or attempt is counted. a.Next tells the session's next run where to continue.
func (s *sessionRun) executeRound(ctx workflow.Context, a *assignment) stepEnd {
	e := step{ID: a.roundID()}
	if a.Next != nil {
		e, a.nextStep = *a.Next, nextStep{}
	} else {
		a.Refused = nil
	}
	if stop := s.handedOverStop(a); stop != nil { // an earlier run waited for a budget, and this one goes on with that
		next, waited := s.waitAfter(ctx, a, stepEnd{kind: stepOverBudget, budget: *stop})
		if next == nil {
			return waited
		}
		e = *next
	}
	for {
		if s.ending.continuesAsNew() {
			a.nextStep = sameRound(e)
			return stepEnd{kind: stepHandedOver, err: errStopped}
		}
		ended := s.executeActivity(ctx, a, e)
		if !ended.kind.continues() {
			s.endOutage(ctx, a)
			return ended
		}
		workflow.GetLogger(ctx).Info("round waits", "assignment", a.String(), "round", a.Round, "because", ended.err)
		next, waited := s.waitAfter(ctx, a, ended)
		if next == nil {
			return waited
		}
		e = *next
	}
}

// waitAfter waits until another activity may continue a round, and returns that; nil: the round does not go on in this run, and
// the end of the wait says why.
func (s *sessionRun) waitAfter(ctx workflow.Context, a *assignment, ended stepEnd) (*step, stepEnd) {
	var probe session.BreakerPermit
	err := ended.err
	a.Continuations++
	switch ended.kind {
	case stepRefused:
		probe, err = s.afterRefusal(ctx, a, ended.breaker)
	case stepOverBudget:
		s.withdrawNotice(ctx, a.AssignmentID)
		err = s.afterBudgetSpent(ctx, a, ended.budget)
	case stepInOutage:
		err = s.afterOutage(ctx, a, ended.outage, session.ForOutage.Rule().Actions...)
	default: // nothing is waited for
	}
	next := step{ID: fmt.Sprintf("%s.%d", a.roundID(), a.Continuations), lease: probe, Outage: s.outageStance(a, err)}
	waited := s.endOf(err)
	switch waited.kind {
	case stepDone, stepTryNow, stepOutOfPatience:
		return &next, waited
	case stepHandedOver:
		a.nextStep = sameRound(next)
	default:
	}
	return nil, waited
}

// executeActivity executes a round, or continues it, on a worker that offers its agent.
func (s *sessionRun) executeActivity(ctx workflow.Context, a *assignment, e step) stepEnd {
	agent := s.agentOf(a)
	queue := spec.AgentQueue(s.in.Store, agent)
	working, cancel := workflow.WithCancel(agentContext(ctx, queue, s.Team.Retry, e.ID, s.roundSummary(a, agent)))
	defer cancel()
	in, err := s.roundInput(working, a, e)
	if err != nil {
		return s.endOf(err)
	}
	started := runRound.start(working, in)
	if err := s.awaitResultOrAnswer(ctx, a, started, cancel); err != nil { // the activity was stopped
		return s.endOf(err)
	}
	result, err := runRound.get(ctx, started)
	end := s.endOf(err)
	end.result = result
	return end
}

// agentOf returns the agent for an assignment.
func (s *sessionRun) agentOf(a *assignment) string {
	if a.Substitute != "" {
		return a.Substitute
	}
	return s.Team.Personas[a.Persona].Agent
}

// roundInput returns the input of a round's activity.
func (s *sessionRun) roundInput(ctx workflow.Context, a *assignment, e step) (activities.RoundInput, error) {
	p := s.Schedule.byName[a.Phase]
	beside, err := phaseWork(ctx, a.unrecorded)
	var source *session.Source
	if p.Deliver != nil && s.in.Course.Source != nil {
		source = &session.Source{
			Commit: s.in.Course.Source.Commit, Remote: s.in.Course.Source.Remote,
			Prefix: s.in.Course.Source.Prefix,
		}
	}
	return activities.RoundInput{
		AssignmentID: a.AssignmentID, Round: a.Round, Rounds: s.Team.Retry.Rounds, Seq: a.RoundsOfRun + a.Continuations,
		Head: s.Status.Checkpoint, Input: a.From, Beside: beside,
		Feedback: a.Feedback, Integrating: a.Integrating, Settles: len(a.Given) > 0 && !a.Integrating,
		Agent: a.Substitute, Free: a.Degraded, OnExceeded: s.onExceeded(a), Lease: e.lease, Outage: e.Outage,
		Ordered: a.Ordered, Because: a.Because, Forced: slices.Contains(s.in.Course.Force, a.Phase),
		Note: a.Note, Source: source, Rework: p.Rework, SendBacksLeft: s.Schedule.sendBacksLeft(p),
		Supplied: a.Supplied, SuppliedBy: a.SuppliedBy, SuppliedWhole: a.SuppliedWhole,
	}, err
}

// roundSummary describes a round's activity in the Web UI.
func (s *sessionRun) roundSummary(a *assignment, agent string) string {
	summary := fmt.Sprintf("%s by %s", a.AssignmentID, agent)
	if a.Integrating {
		summary += ", fixing the merged tree"
	}
	if a.Supplied != "" {
		summary = fmt.Sprintf("%s, supplied by %s", a.AssignmentID, a.SuppliedBy)
	}
	if a.Round > 1 {
		summary += fmt.Sprintf(", round %d of %d", a.Round, s.Team.Retry.Rounds)
	}
	return summary
}

// awaitResultOrAnswer waits for an activity of an assignment. If people were notified of an outage, their
// answer, the end of the time for answers and the end of the session cancel the activity. It
// returns nil if the activity's own result counts.
func (s *sessionRun) awaitResultOrAnswer(ctx workflow.Context, a *assignment, doing workflow.Future, stop func()) error {
	r := a.notice
	if r == nil {
		return s.awaitResult(ctx, a, doing, stop)
	}
	waiting, cancel := workflow.WithCancel(ctx)
	defer cancel()
	timer := never(ctx)
	if !r.Until.IsZero() {
		timer = workflow.NewTimerWithOptions(waiting, r.Until.Sub(workflow.Now(ctx)), workflow.TimerOptions{
			Summary: textfmt.Shorten(fmt.Sprintf("%s waits for its %s. See the tab User Metadata", a.AssignmentID, r.Category.Awaited()),
				200),
		})
	}
	err := workflow.Await(ctx, func() bool {
		return doing.IsReady() || r.closed || r.Answer != nil || s.ending.stopping() || timer.IsReady()
	})
	if err != nil || doing.IsReady() {
		return nil //nolint:nilerr // the activity is cancelled, too
	}
	if r.closed { // the outage has ended; another may follow
		cancel()
		return s.awaitResult(ctx, a, doing, stop)
	}
	ended := stopped(ctx, doing, stop)
	if ended == nil || !temporal.IsCanceledError(ended) && r.Answer == nil {
		return nil
	}
	a.interrupt(ended)
	switch {
	case r.Answer != nil:
		return s.applyToNotice(ctx, a, r)
	case s.ending.stopping():
		return errStopped
	}
	r.closed = true
	s.failOn(ctx, a, r, fmt.Sprintf("the %s was not available within %s", r.Category.Awaited(), s.Team.Help.GiveUpAfter))
	return errStopped
}

// awaitResult is awaitResultOrAnswer without a notice: a session that ends does not wait for the end
// of an outage. A round that works is finished.
func (s *sessionRun) awaitResult(ctx workflow.Context, a *assignment, doing workflow.Future, stop func()) error {
	a.wake = false
	err := workflow.Await(ctx, func() bool { return doing.IsReady() || a.outage != nil && (s.ending.stopping() || a.wake) })
	if err != nil || doing.IsReady() {
		return nil //nolint:nilerr // the activity is cancelled, too
	}
	news := *a.outage
	ended := stopped(ctx, doing, stop)
	if !temporal.IsCanceledError(ended) {
		return nil
	}
	a.setUsage(news.RoundReport)
	a.interrupt(ended)
	if a.wake && !s.ending.stopping() {
		return errTryNow
	}
	s.setAssignment(ctx, a, session.Waiting)
	return errStopped
}

// stopped ends an activity, and returns how it has ended.
func stopped(ctx workflow.Context, doing workflow.Future, stop func()) error {
	stop()
	disconnected, _ := workflow.NewDisconnectedContext(ctx)
	return doing.Get(disconnected, nil)
}

// stepKind is how a step of a round has ended: an activity, or the wait between two activities.
type stepKind int

const (
	// stepDone: the round has its result, or the wait is over.
	stepDone stepKind = iota
	// stepRefused: the agent's breaker is open.
	stepRefused
	// stepOverBudget: a budget does not permit the next call.
	stepOverBudget
	// stepInOutage: the provider, or the host, has failed for longer than the team's patience.
	stepInOutage
	// stepTryNow: a person wants a try at once.
	stepTryNow
	// stepOutOfPatience: the next activity fails the round, because the team's patience is over.
	stepOutOfPatience
	// stepHandedOver: the session's next run continues the round.
	stepHandedOver
	// stepAnswered: a person has decided on the assignment.
	stepAnswered
	// stepStopped: the session ends.
	stepStopped
	// stepInterrupted: it was cancelled. The session is cancelled, or the phase is done again.
	stepInterrupted
	// stepFailed: its attempts have failed.
	stepFailed
)

// continues reports whether another activity continues the round, perhaps after a wait, and perhaps in
// the session's next run.
func (k stepKind) continues() bool { return k > stepDone && k <= stepHandedOver }

// stepEnd is how a step of a round has ended, with the detail of its kind.
type stepEnd struct {
	kind    stepKind
	result  session.RoundResult
	breaker activities.BreakerStop
	budget  activities.BudgetStop
	outage  activities.OutageStop
	answer  session.Answer
	failure activities.RoundFailure
	err     error
}

// endOf tells from its error how a step of a round has ended.
func (s *sessionRun) endOf(err error) stepEnd {
	end := stepEnd{err: err}
	var isRefused, isOverBudget, isInOutage bool
	end.breaker, isRefused = detail[activities.BreakerStop](err, session.BreakerOpen)
	end.budget, isOverBudget = detail[activities.BudgetStop](err, session.BudgetSpent)
	end.outage, isInOutage = detail[activities.OutageStop](err, session.ProviderOutage)
	var said *answeredError
	switch {
	case err == nil:
	case isRefused:
		end.kind = stepRefused
	case isOverBudget:
		end.kind = stepOverBudget
	case isInOutage:
		end.kind = stepInOutage
	case errors.Is(err, errTryNow):
		end.kind = stepTryNow
	case errors.Is(err, errPatienceOver):
		end.kind = stepOutOfPatience
	case errors.As(err, &said):
		end.kind, end.answer = stepAnswered, said.Answer
	case s.isHandedOver(err):
		end.kind = stepHandedOver
	case errors.Is(err, errStopped):
		end.kind = stepStopped
	case temporal.IsCanceledError(err):
		end.kind = stepInterrupted
	default:
		end.kind, end.failure = stepFailed, roundFailure(err)
	}
	return end
}

// isHandedOver reports whether an error ends a wait that the session's next run continues.
func (s *sessionRun) isHandedOver(err error) bool {
	return errors.Is(err, errStopped) && s.ending.continuesAsNew()
}

// finishRound takes over the result of an assignment's round.
func (s *sessionRun) finishRound(ctx workflow.Context, a *assignment, result session.RoundResult) {
	workflow.GetLogger(ctx).Info("round completed", "assignment", a.String(), "round", a.Round)
	a.add(result)
	s.countAttempts(ctx, len(result.Failures), result.Attempts-len(result.Failures))
	s.setAssignment(ctx, a, a.Status)
}

// add takes over the result of a successful round.
func (a *assignment) add(r session.RoundResult) {
	a.Attempts += r.Attempts
	a.LostWorkers += r.Lost
	a.Failures = session.LastFailures(append(a.Failures, r.Failures...))
	a.setUsage(r.RoundReport)
	a.Seconds += r.EndedAt.Sub(r.StartedAt).Seconds()
	a.Status, a.Summary, a.Files, a.Output, a.Agent = session.Completed, r.Summary, r.Files, r.Output, a.Substitute
	if a.Supplied != "" {
		a.Status, a.Supplied = session.Supplied, ""
	}
	if a.Integrating {
		a.LeftOut = append(a.LeftOut, r.LeftOut...)
		a.Integrated = append(a.Integrated, r.Work)
		return
	}
	a.BasedWork, a.SendsBack, a.LeftOut, a.Settled = r.BasedWork, r.SendsBack, r.LeftOut, r.Dropped
	a.drops(nil)
}

// afterFailure books a failed round, and waits for the next one, if there is one. Otherwise a.Failure says
// why a person has to decide.
func (s *sessionRun) afterFailure(ctx workflow.Context, a *assignment, report activities.RoundFailure) error {
	a.charge(report)
	s.countAttempts(ctx, len(report.Attempts), 0)
	wait, again := afterRound(report.Failure, a.Round, s.Team.Retry)
	again = again && a.Supplied == ""
	workflow.GetLogger(ctx).Info("round failed", "assignment", a.String(), "round", a.Round,
		"category", string(report.Failure.Category), "again", again, "wait", wait)
	if !again {
		s.setAssignment(ctx, a, session.Failed)
		a.nextStep = askPerson(report.Failure)
		return nil
	}
	s.chooseAgent(a, report.Failure)
	s.setAssignment(ctx, a, session.Waiting)
	summary := fmt.Sprintf("%s: round %d of %d after %s", a.AssignmentID, a.Round+1, s.Team.Retry.Rounds, report.Failure.Category)
	return s.pauseBeforeRound(ctx, a, wait, summary)
}

// afterRound decides, from the failure table and the team's limits, whether a
// failed round is followed by another, and after which wait.
func afterRound(f failures.Failure, round int, retry spec.Retry) (time.Duration, bool) {
	if !f.AnotherRound(round, retry.Rounds) {
		return 0, false
	}
	wait := spec.Backoff(retry.RoundInitial, retry.RoundMax, round)
	return max(wait, f.RetryAfter).Std(), true
}

// pauseBeforeRound waits for an assignment's next round. A continued run of the workflow continues the wait.
func (s *sessionRun) pauseBeforeRound(ctx workflow.Context, a *assignment, wait time.Duration, summary string) error {
	a.nextStep = nextRound(workflow.Now(ctx).Add(wait))
	return s.ending.pause(ctx, wait, summary)
}

// endOutage notes that an assignment waits for no outage any more. The notices of a session that ends
// stay: its end reports them.
func (s *sessionRun) endOutage(ctx workflow.Context, a *assignment) {
	a.outage = nil
	if !s.ending.failed() && (ctx.Err() == nil || s.Schedule.recalled(a.Phase)) {
		s.withdrawNotice(ctx, a.AssignmentID)
	}
}
