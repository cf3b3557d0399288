package workflows

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

// rounds is retry level 2: it executes the rounds of assignments until one succeeds.
// Level 1, the attempts inside a round, is decided in activities/round.go.
type rounds struct {
	store     string
	team      *spec.Team
	status    *session.Status
	schedule  *schedule
	ending    *ending
	agents    *agentChoice
	publisher *publisher
	requests  *requests
	budgets   *budgets
	outages   *outages
	reports   *breakerReports
	// checkpoints records waits.
	checkpoints *checkpoints
}

// runAll runs a phase's unfinished assignments: concurrently on the same input or, in sequence,
// each on the previous one's output, until one sends work back. It returns false if one of them
// has no result; concurrent ones still finish.
func (rs *rounds) runAll(ctx workflow.Context, order spec.Order, work []*assignment) (bool, error) {
	if order == spec.OrderSequence || len(work) == 1 {
		for i, a := range work {
			if a.finished() {
				if len(a.SendsBack) > 0 { // later ones would use what is sent back
					break
				}
				continue
			}
			if i > 0 {
				a.From, a.beside = work[i-1].Output, entries(work[:i])
			}
			if ok, err := rs.run(ctx, a); err != nil || !ok {
				return false, err
			}
			if len(a.SendsBack) > 0 {
				break
			}
		}
		return true, nil
	}
	done, failed := 0, error(nil)
	all := workflow.NewWaitGroup(ctx)
	for _, a := range work {
		if a.finished() {
			done++
			continue
		}
		all.Add(1)
		workflow.Go(ctx, func(ctx workflow.Context) {
			defer all.Done()
			ok, err := rs.run(ctx, a)
			if err != nil {
				failed = err
			}
			if ok {
				done++
			}
		})
	}
	patient, _ := workflow.NewDisconnectedContext(ctx)
	all.Wait(patient)
	return failed == nil && done == len(work), failed
}

// run executes rounds of one assignment until one succeeds. When they are used up, or another
// one is useless, a person decides how it continues. It returns false for an assignment without a
// result in a session that ends.
func (rs *rounds) run(ctx workflow.Context, a *assignment) (bool, error) {
	for {
		if a.Failure == nil {
			if ok, err := rs.untilFailed(ctx, a); err != nil || a.Failure == nil {
				return ok, err
			}
		}
		then, err := rs.requests.askForHelp(ctx, a, *a.Failure, a.Failures)
		rs.publisher.show(ctx)
		if err != nil || then != outcomeRetry {
			return then == outcomeDone, err
		}
	}
}

// untilFailed executes rounds until one succeeds, or until none may follow without a
// person: a.Failure says why. It returns false without a failure where the session ends, or
// its next run executes the rounds.
func (rs *rounds) untilFailed(ctx workflow.Context, a *assignment) (bool, error) {
	if left := a.NotBefore.Sub(workflow.Now(ctx)); a.Due && left > 0 {
		if err := rs.pause(ctx, a, left, fmt.Sprintf("%s: round %d of %d", a.AssignmentID, a.Round+1, rs.team.Retry.Rounds)); err != nil {
			return false, err
		}
	}
	for {
		if rs.ending.handsOver() {
			if !a.pending() {
				a.nextStep = nextRound(workflow.Now(ctx))
			}
			return false, nil
		}
		if a.Next == nil {
			a.begin()
		}
		rs.publisher.update(ctx, a, session.Running)
		result, err := rs.execute(ctx, a)
		if err == nil {
			rs.reports.add(result.Unreported)
			a.add(result)
			rs.publisher.alerts.countAttempts(ctx, len(result.Failures), result.Attempts-len(result.Failures))
			rs.publisher.update(ctx, a, a.Status)
			return true, nil
		}
		var said *answered
		if errors.As(err, &said) {
			if then := rs.requests.apply(ctx, a, said.Answer); then != outcomeRetry {
				return then == outcomeDone, nil
			}
			continue
		}
		if errors.Is(err, errSessionEnds) {
			return false, nil
		}
		report, isFailure := roundFailure(err)
		if !isFailure {
			a.interrupt(err)
			rs.publisher.update(ctx, a, session.Waiting)
			return false, err
		}
		a.charge(report)
		rs.publisher.alerts.countAttempts(ctx, len(report.Attempts), 0)
		rs.reports.add(report.Unreported)
		wait, again := afterRound(report.Failure, a.Round, rs.team.Retry)
		if again && a.Supplied == "" {
			if err := rs.waitForNext(ctx, a, report.Failure, wait); err != nil {
				return false, err
			}
			continue
		}
		rs.publisher.update(ctx, a, session.Failed)
		a.nextStep = askPerson(report.Failure)
		return false, nil
	}
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

// waitForNext waits for the next round after a failure.
func (rs *rounds) waitForNext(ctx workflow.Context, a *assignment, f failures.Failure, wait time.Duration) error {
	rs.agents.afterFailure(a, f)
	rs.publisher.update(ctx, a, session.Waiting)
	return rs.pause(ctx, a, wait, fmt.Sprintf("%s: round %d of %d after %s", a.AssignmentID, a.Round+1, rs.team.Retry.Rounds, f.Category))
}

// pause waits for an assignment's next round. A continued run of the workflow continues the wait.
func (rs *rounds) pause(ctx workflow.Context, a *assignment, wait time.Duration, summary string) error {
	a.nextStep = nextRound(workflow.Now(ctx).Add(wait))
	return rs.ending.pause(ctx, wait, summary)
}

// execution is one of the activities that a round may take.
type execution struct {
	ID string `json:"id"`
	// Outage is what to do about the previous activity's outage.
	Outage activities.OutageOrder `json:"outage,omitempty"`
	// lease is set if the round probes the agent's breaker.
	lease lease
}

// execute executes one round, with one activity or several: after a refusal by the breaker, an
// exceeded budget or an outage of the provider, another activity continues the round, and no round
// or attempt is counted. a.Next tells a continued run of the workflow where to continue.
func (rs *rounds) execute(ctx workflow.Context, a *assignment) (session.RoundResult, error) {
	id := fmt.Sprintf("%s.%s.%d", a.Phase, a.Persona, a.rounds)
	e := execution{ID: id}
	if a.Next != nil {
		e, a.nextStep = *a.Next, nextStep{}
	} else {
		a.Refused = nil
	}
	for {
		var result session.RoundResult
		var probe lease
		var err error
		stop, broke := rs.requests.continuedStop(a)
		if !broke {
			if rs.ending.handsOver() {
				releaseLease(ctx, e.lease)
				a.nextStep = sameRound(e)
				return result, errSessionEnds
			}
			result, err = rs.executeOnce(ctx, a, e)
			stop, broke = detail[activities.BudgetStop](err, session.BudgetSpent)
		}
		turned, refused := detail[activities.BreakerStop](err, session.BreakerOpen)
		outage, impatient := detail[activities.OutageStop](err, session.ProviderOutage)
		if !refused && !broke && !impatient && !errors.Is(err, errTryNow) && !rs.leftToNextRun(err) {
			a.outage = nil
			if !rs.ending.failed() && (ctx.Err() == nil || rs.schedule.recalled(a.Phase)) {
				rs.outages.withdraw(ctx, a.AssignmentID)
			}
			return result, err
		}
		a.waits++
		switch {
		case refused:
			probe, err = rs.afterRefusal(ctx, a, turned)
		case broke:
			rs.outages.withdraw(ctx, a.AssignmentID)
			if err = rs.afterBudgetSpent(ctx, a, stop); rs.leftToNextRun(err) {
				a.nextStep = sameRound(e)
				return result, err
			}
		case impatient:
			err = rs.outages.after(ctx, a, outage, session.ForOutage.Rule().Actions...)
		}
		following := execution{ID: fmt.Sprintf("%s.%d", id, a.waits), lease: probe, Outage: rs.outages.order(a, err)}
		if rs.leftToNextRun(err) {
			a.nextStep = sameRound(following)
		}
		if err != nil && !errors.Is(err, errTryNow) && !errors.Is(err, errPatienceOver) {
			return result, err
		}
		e = following
	}
}

// leftToNextRun reports whether an error ends a wait that the workflow's next run continues.
func (rs *rounds) leftToNextRun(err error) bool {
	return errors.Is(err, errSessionEnds) && rs.ending.handsOver()
}

// executeOnce executes a round, or continues it, on a worker that offers its agent.
func (rs *rounds) executeOnce(ctx workflow.Context, a *assignment, e execution) (result session.RoundResult, err error) {
	agent := rs.agents.of(a)
	working, cancel := workflow.WithCancel(agentContext(ctx, spec.AgentQueue(rs.store, agent), rs.team.Retry, e.ID, rs.summary(a, agent)))
	defer cancel()
	in, err := rs.input(working, a, e)
	if err != nil {
		releaseLease(ctx, e.lease)
		return result, err
	}
	started := runRound.start(working, in)
	stopped := rs.outages.await(ctx, a, started, cancel)
	err = stopped
	if stopped == nil {
		result, err = runRound.get(ctx, started)
	}
	if stopped != nil || temporal.IsCanceledError(err) {
		releaseLease(ctx, e.lease)
	}
	return result, err
}

// input returns the input of a round's activity.
func (rs *rounds) input(ctx workflow.Context, a *assignment, e execution) (activities.RoundInput, error) {
	p := rs.schedule.byName[a.Phase]
	beside, err := phaseWork(ctx, a.beside)
	return activities.RoundInput{
		AssignmentID: a.AssignmentID, Round: a.Round, Rounds: rs.team.Retry.Rounds,
		Head: rs.status.Checkpoint, Input: a.From, Beside: beside, Feedback: a.Feedback, Integrating: a.Integrating,
		Settles: len(a.given) > 0 && !a.Integrating,
		Agent:   a.Substitute, Seq: a.rounds + a.waits, Lease: e.lease.BreakerPermit, OnExceeded: rs.agents.onExceeded(a), Free: a.Degraded,
		Ordered: a.ordered, Because: a.because, Forced: slices.Contains(rs.schedule.course.Force, a.Phase), Note: a.note, Rework: p.rework, MaySendBack: rs.schedule.maySendBack(p),
		Supplied: a.Supplied, SuppliedBy: a.SuppliedBy, SuppliedWhole: a.SuppliedWhole, Outage: e.Outage,
	}, err
}

// summary describes a round's activity in the Web UI.
func (rs *rounds) summary(a *assignment, agent string) string {
	summary := fmt.Sprintf("%s by %s", a.AssignmentID, agent)
	if a.Integrating {
		summary += ", fixing the merged tree"
	}
	if a.Supplied != "" {
		summary = fmt.Sprintf("%s, supplied by %s", a.AssignmentID, a.SuppliedBy)
	}
	if a.Round > 1 {
		summary += fmt.Sprintf(", round %d of %d", a.Round, rs.team.Retry.Rounds)
	}
	return summary
}

// afterBudgetSpent switches to the agent's fallback, or waits until a person raises the budget.
func (rs *rounds) afterBudgetSpent(ctx workflow.Context, a *assignment, stop activities.BudgetStop) error {
	a.setUsage(stop.RoundReport)
	if rs.agents.onExceeded(a) == spec.OnExceededDegrade {
		a.Degraded, a.Substitute, a.Refused = true, rs.agents.fallbackOf(a), nil
		return nil
	}
	return rs.budgets.await(ctx, a, stop)
}
