package workflows

import (
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/team"
)

// assignment is one persona's work in one phase as the session follows it. Its
// counts and usage include those of earlier incarnations.
type assignment struct {
	team.CheckpointAssignment
	// counts outlives what is sent back and done again.
	*counts
	// round counts the rounds of the series, which retry limits are for.
	round int
	// input is the manifest that the next round starts from.
	input team.Digest
	// beside is the phase's work that the input has and no checkpoint yet.
	beside []team.CheckpointAssignment
	// feedback is the blob of a failed seal; set while integrating.
	feedback    team.Digest
	integrating bool
	// output is the manifest that the last round left.
	output team.Digest
	// agent works in the place of the persona's own; empty: nobody does.
	// degraded: it does so for good, because the own one is too dear.
	agent    string
	degraded bool
	// refused is how the persona's own agent was turned away by its breaker;
	// nil: it was not, in this round.
	refused *activities.TurnedAway
	// awaits is the breaker that the assignment waits for.
	awaits *team.BreakerWait
	// note is what a person says to whoever tries again.
	note string
	// supplied is the manifest of a person's files, which the next round takes
	// for the work; empty: an agent works.
	supplied   team.Digest
	suppliedBy string
	// settled: a person wants the phase's merged tree as it is.
	settled bool
	// sendsBack has the reasons for which the work of an earlier phase is sent back.
	sendsBack []string
}

// counts is what of an assignment is never counted anew in an incarnation: the
// names of activities are made of it.
type counts struct {
	// rounds counts all rounds; waits how often one went on in a further activity.
	rounds, waits int
	// afresh counts how often it began afresh, at a person's word or because its
	// phase was sent back.
	afresh int
}

// countsOf returns an assignment's counts.
func (s *session) countsOf(id team.AssignmentID) *counts {
	if s.counted[id] == nil {
		s.counted[id] = &counts{}
	}
	return s.counted[id]
}

// newAssignment takes an assignment up where it stands: with its finished work,
// or with what it has cost so far.
func (s *session) newAssignment(id team.AssignmentID, input team.Digest) *assignment {
	if w, ok := s.partial[id]; ok {
		if !w.Status.Done() {
			w.Status = team.Restored
		}
		return &assignment{CheckpointAssignment: w.CheckpointAssignment, counts: s.countsOf(id), input: input, output: w.Output, note: s.notes[id.String()]}
	}
	before := s.status.Assignment(id)
	return &assignment{input: input, counts: s.countsOf(id), note: s.notes[id.String()], CheckpointAssignment: team.CheckpointAssignment{
		AssignmentID: id, Status: team.Pending, Rounds: before.Rounds, Attempts: before.Attempts, Lost: before.LostWorkers,
		Failures: append([]team.AttemptFailure{}, before.Failures...), Usage: before.Usage,
	}}
}

func entries(work []*assignment) []team.CheckpointAssignment {
	out := make([]team.CheckpointAssignment, len(work))
	for i, a := range work {
		out[i] = a.CheckpointAssignment
	}
	return out
}

// assignments takes up the work of a phase's personas, in their order.
func (s *session) assignments(p team.Phase, input team.Digest) []*assignment {
	work := make([]*assignment, len(p.Personas))
	for i, persona := range p.Personas {
		work[i] = s.newAssignment(team.AssignmentID{Phase: p.Name, Persona: persona}, input)
	}
	return work
}

// produce has the phase's personas do their work. It returns false where the phase
// comes to nothing for now: it needs help in vain, or has sent work back.
func (s *session) produce(ctx workflow.Context, p team.Phase, work []*assignment) (bool, error) {
	for {
		if ok, err := s.runAssignments(ctx, p, work); err != nil || !ok {
			return false, err
		}
		sender := whoSendsBack(work)
		if sender == nil {
			return true, nil
		}
		// What a person accepts that one of them finds wanting, the others go on from.
		if accepted, err := s.sendBack(ctx, p, sender, work); err != nil || !accepted {
			return false, err
		}
	}
}

// runAssignments has the phase's personas work who are not done: side by side on the
// same input, or each on what the one before left, until one of these sends work back.
// It returns false if one of them needs help; the others finish all the same.
func (s *session) runAssignments(ctx workflow.Context, p team.Phase, work []*assignment) (bool, error) {
	done, failed := 0, error(nil)
	if p.Order == team.OrderSequence {
		for i, a := range work {
			if i > 0 {
				a.input, a.beside = work[i-1].output, entries(work[:i])
			}
			if a.Status.Done() {
				continue
			}
			if ok, err := s.runRounds(ctx, a); err != nil || !ok {
				return false, err
			}
			if len(a.sendsBack) > 0 { // those after it would build on what is sent back
				return true, nil
			}
		}
		return true, nil
	}
	all := workflow.NewWaitGroup(ctx)
	for _, a := range work {
		if a.Status.Done() {
			done++
			continue
		}
		all.Add(1)
		workflow.Go(ctx, func(ctx workflow.Context) {
			defer all.Done()
			ok, err := s.runRounds(ctx, a)
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

// runRounds is retry level 2: rounds of one assignment until one succeeds. Once
// they are spent, or another is useless, a person decides how it goes on. Level 1,
// the attempts inside a round, is decided in activities/round.go. It returns false
// for an assignment without a result in a session that ends.
func (s *session) runRounds(ctx workflow.Context, a *assignment) (bool, error) {
	for {
		failure, err := s.series(ctx, a)
		var said *answered
		var then next
		switch {
		case errors.As(err, &said):
			then, err = s.follow(ctx, a, said.Answer), nil
		case err != nil || failure == nil:
			return err == nil, unlessOver(err)
		default:
			s.note(ctx, a, team.Failed)
			then, err = s.askFor(ctx, a, *failure, a.Failures)
			s.show(ctx)
		}
		if err != nil || then != itTriesAgain {
			return then == itIsSettled, err
		}
	}
}

// series is the rounds that an assignment has before a person is asked. It returns
// the failure that they came to; nil: one has succeeded.
func (s *session) series(ctx workflow.Context, a *assignment) (*team.Failure, error) {
	for {
		a.Rounds++
		a.rounds++
		a.round++
		s.note(ctx, a, team.Running)
		result, err := s.carryOut(ctx, a)
		var said *answered
		if errors.Is(err, errNotBegun) || errors.As(err, &said) {
			return nil, err
		}
		if err == nil {
			s.carry(result.Unreported)
			a.add(result)
			s.note(ctx, a, a.Status)
			return nil, nil
		}
		report, isFailure := roundFailure(err)
		if !isFailure {
			a.interrupt(err)
			s.note(ctx, a, team.Waiting)
			return nil, err
		}
		a.charge(report)
		s.carry(report.Unreported)
		wait, again := afterRound(report.Failure, a.round, s.team.Retry)
		if !again || a.supplied != "" {
			return &report.Failure, nil
		}
		s.chooseAgent(a, report.Failure)
		s.note(ctx, a, team.Waiting)
		summary := fmt.Sprintf("%s: round %d of %d after %s", a.AssignmentID, a.round+1, s.team.Retry.Rounds, report.Failure.Category)
		if err := pause(ctx, wait, summary); err != nil {
			return nil, err
		}
	}
}

// afterRound decides, from the failure table and the team's limits, whether a
// failed round is followed by another, and after which wait.
func afterRound(f team.Failure, round int, retry team.Retry) (time.Duration, bool) {
	if round >= retry.Rounds || !f.RetryRound() {
		return 0, false
	}
	wait := team.Backoff(retry.RoundInitial, retry.RoundMax, round)
	return max(wait, min(f.RetryAfter, team.MaxRetryAfter)).Std(), true
}

// pause waits on a timer that the Web UI's timeline explains.
func pause(ctx workflow.Context, d time.Duration, summary string) error {
	return workflow.NewTimerWithOptions(ctx, d, workflow.TimerOptions{Summary: summary}).Get(ctx, nil)
}

// carryOut executes one round, in as many activities as its agent's provider and breaker
// and the budgets make of it. An activity that was turned away, that ran out of money or
// of patience with the provider uses up no round and no attempt: the next one goes on
// where it was.
func (s *session) carryOut(ctx workflow.Context, a *assignment) (team.RoundResult, error) {
	id := fmt.Sprintf("%s.%s.%d", a.Phase, a.Persona, a.rounds)
	e := execution{id: id}
	a.refused = nil
	for {
		result, err := s.round(ctx, a, e)
		turned, away := detail[activities.TurnedAway](err, team.BreakerOpen)
		stop, broke := detail[activities.BudgetStop](err, team.BudgetSpent)
		outage, impatient := detail[activities.OutageStop](err, team.ProviderOutage)
		var probe lease
		switch {
		case away:
			a.waits++
			probe, err = s.afterTurnedAway(ctx, a, turned)
		case broke:
			a.waits++
			s.outageOver(ctx, a.AssignmentID)
			err = s.afterBudgetSpent(ctx, a, stop)
		case impatient:
			a.waits++
			err = s.afterOutage(ctx, a, outage, answersForWork()...)
		case errors.Is(err, errTryNow):
			a.waits++
		default:
			delete(s.lasting, a.AssignmentID)
			if !s.stopping() && (ctx.Err() == nil || s.recalled[a.Phase]) {
				s.outageOver(ctx, a.AssignmentID)
			}
			return result, err
		}
		order := s.orderAfter(a, err)
		if err != nil && !errors.Is(err, errTryNow) && !errors.Is(err, errPatienceOver) {
			return result, err
		}
		e = execution{id: fmt.Sprintf("%s.%d", id, a.waits), after: e.id, lease: probe, outage: order}
	}
}

// execution is one of the activities that a round may take.
type execution struct {
	// id is the activity's; after is that of the one before it, with whose
	// round it goes on.
	id, after string
	// lease is set if the round is to try its agent for others.
	lease lease
	// outage is how it goes on with one.
	outage activities.OutageOrder
}

// round executes a round, or goes on with it, on a worker that offers its agent.
func (s *session) round(ctx workflow.Context, a *assignment, e execution) (team.RoundResult, error) {
	agent := s.agentOf(a)
	summary := fmt.Sprintf("%s by %s", a.AssignmentID, agent)
	if a.integrating {
		summary += ", mending the merged tree"
	}
	if a.supplied != "" {
		summary = fmt.Sprintf("%s, supplied by %s", a.AssignmentID, a.suppliedBy)
	}
	if a.round > 1 {
		summary += fmt.Sprintf(", round %d of %d", a.round, s.team.Retry.Rounds)
	}
	working, cancel := workflow.WithCancel(s.agentContext(ctx, agent, e.id, summary))
	defer cancel()
	future := workflow.ExecuteActivity(working, string(activities.RoundName), activities.RoundInput{
		AssignmentID: a.AssignmentID, Round: a.round, Rounds: s.team.Retry.Rounds, Incarnation: s.status.Incarnation,
		Head: s.head, Input: a.input, Beside: a.beside, Feedback: a.feedback, Integrating: a.integrating,
		Agent: a.agent, After: e.after, Seq: a.rounds + a.waits, Lease: e.lease.BreakerPass, OnExceeded: s.onExceeded(a), Free: a.degraded,
		Series: a.afresh, Note: a.note, Rework: s.reworking[a.Phase], MaySendBack: s.maySendBack(a.Phase),
		Supplied: a.supplied, SuppliedBy: a.suppliedBy, Outage: e.outage,
	})
	var result team.RoundResult
	stopped := s.attend(ctx, a, future, cancel)
	err := stopped
	if stopped == nil {
		err = future.Get(ctx, &result)
	}
	if stopped != nil || temporal.IsCanceledError(err) {
		s.giveBack(ctx, e.lease)
	}
	return result, err
}

// add takes over what a successful round delivered.
func (a *assignment) add(r team.RoundResult) {
	a.Attempts += r.Attempts
	a.Lost += r.Lost
	a.Failures = append(a.Failures, r.Failures...)
	a.Usage = r.Total
	a.Seconds += r.EndedAt.Sub(r.StartedAt).Seconds()
	a.Status, a.Summary, a.output, a.Agent = team.Completed, r.Summary, r.Output, a.agent
	work := team.Work{Delta: r.Delta, Decisions: r.Decisions}
	if a.supplied != "" {
		a.Status, a.supplied = team.Supplied, ""
	}
	if a.integrating {
		a.Integrated = append(a.Integrated, work)
		return
	}
	a.Input, a.Work, a.Basis, a.sendsBack = r.Input, work, r.Basis, r.SendsBack
}

// ownWork tells whether the assignment is at its own work: not at mending others', and
// not done with it because it finds others' wanting.
func (a *assignment) ownWork() bool { return !a.integrating && len(a.sendsBack) == 0 }

// skip settles an assignment without its work: with what changes nothing, or, on
// the phase's merged tree, with the tree as it is.
func (a *assignment) skip(nothing team.Digest) {
	if a.integrating {
		// Nobody mends what the personas disagree on: the later version stands.
		a.Status, a.settled = team.Completed, true
		a.Integrated = append(a.Integrated, team.Work{Delta: nothing})
		return
	}
	if len(a.sendsBack) > 0 { // what it finds wanting is accepted, and so is what it left
		a.Status, a.sendsBack = team.Completed, nil
		return
	}
	a.Status, a.Summary, a.output = team.Skipped, "skipped by a person", a.input
	a.Input, a.Work, a.Basis = a.input, team.Work{Delta: nothing}, nil
}

// again begins a new series of rounds.
func (a *assignment) again(note string) {
	a.afresh++
	a.round, a.note = 0, note
	if !a.degraded {
		a.agent = ""
	}
}

// charge books what a failed round has cost.
func (a *assignment) charge(report activities.RoundFailure) {
	a.Attempts += len(report.Attempts)
	a.Lost += report.Lost
	a.Failures = append(a.Failures, report.Attempts...)
	if report.Total != (team.Usage{}) { // a round that could not look does not know
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
	if report, ok := detail[activities.RoundFailure](err, team.UnrecoverableError); ok {
		return report, true
	}
	f := team.Failf(team.Unknown, "%s", team.Shorten(err.Error(), team.MaxMessage))
	if temporal.IsTimeoutError(err) {
		f.Category = team.Timeout
	}
	return activities.RoundFailure{Failure: *f}, true
}
