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
	// round counts the rounds of this incarnation, which retry limits are for.
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
	// awaits is the breaker that the assignment waits for; waits counts how
	// often its rounds went on in a further activity.
	awaits *team.BreakerWait
	waits  int
}

// newAssignment takes an assignment up where it stands: with its finished work,
// or with what it has cost so far.
func (s *session) newAssignment(id team.AssignmentID, input team.Digest) *assignment {
	if w, ok := s.partial[id]; ok {
		w.Status = team.Restored
		return &assignment{CheckpointAssignment: w.CheckpointAssignment, input: input, output: w.Output}
	}
	before := s.status.Assignment(id)
	return &assignment{input: input, CheckpointAssignment: team.CheckpointAssignment{
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

// runAssignments has the phase's personas work: side by side on the same input,
// or each on what the one before left. It returns nil work if one of them needs
// help; the others finish all the same.
func (s *session) runAssignments(ctx workflow.Context, p team.Phase, input team.Digest) ([]*assignment, error) {
	work := make([]*assignment, len(p.Personas))
	for i, persona := range p.Personas {
		work[i] = s.newAssignment(team.AssignmentID{Phase: p.Name, Persona: persona}, input)
	}
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
				return nil, err
			}
		}
		return work, nil
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
	if failed != nil || done < len(work) {
		return nil, failed
	}
	return work, nil
}

// runRounds is retry level 2: rounds of one assignment until one succeeds, the
// rounds are spent, or another is useless. Level 1, the attempts inside a
// round, is decided in activities/round.go. It returns false after asking for
// help.
func (s *session) runRounds(ctx workflow.Context, a *assignment) (bool, error) {
	for {
		a.Rounds++
		a.round++
		s.note(ctx, a, team.Running)
		result, err := s.carryOut(ctx, a)
		if errors.Is(err, errNotBegun) {
			return false, nil
		}
		if err == nil {
			s.carry(result.Unreported)
			a.add(result)
			s.note(ctx, a, team.Completed)
			return true, nil
		}
		report, isFailure := roundFailure(err)
		if !isFailure {
			a.interrupt(err)
			s.note(ctx, a, team.Waiting)
			return false, err
		}
		a.charge(report)
		s.carry(report.Unreported)
		wait, again := afterRound(report.Failure, a.round, s.team.Retry)
		if !again {
			s.note(ctx, a, team.Failed)
			s.askForHelp(a.AssignmentID, report.Failure, a.Failures, a.Usage)
			s.show(ctx)
			return false, nil
		}
		s.chooseAgent(a, report.Failure)
		s.note(ctx, a, team.Waiting)
		summary := fmt.Sprintf("%s: round %d of %d after %s", a.AssignmentID, a.round+1, s.team.Retry.Rounds, report.Failure.Category)
		if err := pause(ctx, wait, summary); err != nil {
			return false, err
		}
	}
}

// afterRound decides, from the failure table and the team's limits, whether a
// failed round is followed by another, and after which wait.
func afterRound(f team.Failure, round int, retry team.Retry) (time.Duration, bool) {
	if round >= retry.Rounds || !f.RetryRound() {
		return 0, false
	}
	return team.Backoff(retry.RoundInitial, retry.RoundMax, round).Std(), true
}

// pause waits on a timer that the Web UI's timeline explains.
func pause(ctx workflow.Context, d time.Duration, summary string) error {
	return workflow.NewTimerWithOptions(ctx, d, workflow.TimerOptions{Summary: summary}).Get(ctx, nil)
}

// execution is one of the activities that a round may take.
type execution struct {
	// id is the activity's; after is that of the one before it, with whose
	// round it goes on.
	id, after string
	// lease is set if the round is to try its agent for others.
	lease string
}

// round executes a round, or goes on with it, on a worker that offers its agent.
func (s *session) round(ctx workflow.Context, a *assignment, e execution) (team.RoundResult, error) {
	agent := s.agentOf(a)
	summary := fmt.Sprintf("%s by %s", a.AssignmentID, agent)
	if a.integrating {
		summary += ", mending the merged tree"
	}
	if a.round > 1 {
		summary += fmt.Sprintf(", round %d of %d", a.round, s.team.Retry.Rounds)
	}
	ctx = s.agentContext(ctx, agent, e.id, summary)
	var result team.RoundResult
	err := workflow.ExecuteActivity(ctx, string(activities.RoundName), activities.RoundInput{
		AssignmentID: a.AssignmentID, Round: a.round, Rounds: s.team.Retry.Rounds, Incarnation: s.status.Incarnation,
		Head: s.head, Input: a.input, Beside: a.beside, Feedback: a.feedback, Integrating: a.integrating,
		Agent: a.agent, After: e.after, Lease: e.lease, OnExceeded: s.onExceeded(a), Free: a.degraded,
	}).Get(ctx, &result)
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
	if a.integrating {
		a.Integrated = append(a.Integrated, work)
		return
	}
	a.Input, a.Work, a.Basis = r.Input, work, r.Basis
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

// askForHelp notes that a person is needed. Until a session can wait for one,
// that ends it.
func (s *session) askForHelp(id team.AssignmentID, f team.Failure, attempts []team.AttemptFailure, usage team.Usage) {
	s.status.Help = append(s.status.Help, team.HelpRequest{
		ID: fmt.Sprintf("%s.%s.%d", id.Phase, id.Persona, len(s.status.Help)+1), Phase: id.Phase, Persona: id.Persona,
		Category: f.Category, Message: f.Message, Advice: f.Remedy(),
		Attempts: append([]team.AttemptFailure{}, attempts...), Usage: usage,
	})
	s.setPhase(id.Phase, team.Failed)
	s.failing = true
}
