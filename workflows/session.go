package workflows

import (
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

// TeamSession runs a team on a requirement: this is where a session starts.
//
// After admission, each phase starts when the phases that it needs are recorded. The session
// completes when all phases are recorded. It fails with NotAdmitted before any phase starts. When an
// assignment's rounds are spent, the session waits for a person: see [requests.ask]. With
// `help.mode: fail`, or when nobody answers in time, it fails with HelpNeeded and the report of
// all attempts; running assignments still finish and are recorded. A cancelled session ends when
// its agents have ended. The session continues as new when Temporal suggests it: see
// [Continued].
func TeamSession(ctx workflow.Context, in SessionInput) (SessionResult, error) {
	ctx = withVersion(ctx, in.Version)
	s := newSession(ctx, in)
	if in.Continued != nil && in.Continued.Large == nil {
		s.takeOver(ctx, in.Continued)
	}
	// Before any wait, so that early updates get a clear error.
	if err := s.register(ctx); err != nil {
		return SessionResult{}, err
	}
	switch err := s.admit(ctx); {
	case err == nil:
		return s.run(ctx)
	case in.Continued != nil: // it has been at work
		s.ending.fault = err
		patient, _ := workflow.NewDisconnectedContext(ctx)
		return s.end(ctx, patient)
	default:
		return SessionResult{}, err
	}
}

// teamSession is a running session: its team, its status, and its parts, which share both.
type teamSession struct {
	in     SessionInput
	team   spec.Team
	status session.Status

	ending      ending
	schedule    schedule
	limits      limits
	checkpoints checkpoints
	notifier    notifier
	publisher   publisher
	alerts      alerts
	requests    requests
	budgets     budgets
	outages     outages
	agents      agentChoice
	reports     breakerReports
	phases      phases
	signals     signals
}

// newSession connects the parts of a session.
func newSession(ctx workflow.Context, in SessionInput) *teamSession {
	s := &teamSession{in: in}
	s.schedule = schedule{team: &s.team, course: in.Course, assignments: map[spec.AssignmentID]*assignmentState{}}
	s.limits = limits{team: &s.team, raised: map[string]spec.Cap{}}
	s.checkpoints = checkpoints{status: &s.status, mutex: workflow.NewMutex(ctx)}
	s.notifier = notifier{store: in.Store, reportTo: in.ReportTo, team: &s.team, status: &s.status, mutex: workflow.NewMutex(ctx)}
	s.alerts = alerts{
		team: &s.team, status: &s.status, ending: &s.ending, checkpoints: &s.checkpoints, notifier: &s.notifier,
		open: func() []*request { return s.requests.open },
	}
	s.publisher = publisher{
		team: &s.team, status: &s.status, schedule: &s.schedule, ending: &s.ending, limits: &s.limits, alerts: &s.alerts,
		pages: func() []string { return s.requests.pages() },
	}
	s.requests = requests{
		team: &s.team, status: &s.status, schedule: &s.schedule, ending: &s.ending,
		advice:    &advice{team: &s.team, status: &s.status, limits: &s.limits},
		publisher: &s.publisher, notifier: &s.notifier, checkpoints: &s.checkpoints, opened: map[string]int{},
	}
	s.budgets = budgets{limits: &s.limits, ending: &s.ending, requests: &s.requests}
	s.outages = outages{
		team: &s.team, schedule: &s.schedule, ending: &s.ending, publisher: &s.publisher,
		requests: &s.requests, notifier: &s.notifier, checkpoints: &s.checkpoints,
	}
	s.agents = agentChoice{team: &s.team}
	work := &rounds{
		store: in.Store, team: &s.team, status: &s.status, schedule: &s.schedule, ending: &s.ending, agents: &s.agents,
		publisher: &s.publisher, requests: &s.requests, budgets: &s.budgets, outages: &s.outages, reports: &s.reports,
		checkpoints: &s.checkpoints,
	}
	s.phases = phases{
		team: &s.team, course: in.Course, status: &s.status, schedule: &s.schedule, ending: &s.ending, publisher: &s.publisher,
		notifier: &s.notifier, checkpoints: &s.checkpoints, requests: &s.requests, rounds: work, reports: &s.reports,
		merges: &merges{rounds: work},
		reworks: &reworks{
			status: &s.status, schedule: &s.schedule, ending: &s.ending, publisher: &s.publisher, notifier: &s.notifier,
			checkpoints: &s.checkpoints, requests: &s.requests, rounds: work,
		},
	}
	return s
}

// register registers the handlers of queries, updates and signals.
func (s *teamSession) register(ctx workflow.Context) error {
	if err := workflow.SetQueryHandlerWithOptions(ctx, StatusQuery,
		func() (session.Status, error) { return s.status, nil },
		workflow.QueryHandlerOptions{Description: "The session's phases, assignments and usage, as of the last finished step."},
	); err != nil {
		return err
	}
	for _, register := range []func(workflow.Context, *signals) error{s.requests.registerApproval, s.budgets.register, s.requests.register} {
		if err := register(ctx, &s.signals); err != nil {
			return err
		}
	}
	onSignal(ctx, &s.signals, TicketSignal, s.publisher.admitted, s.requests.setTicket)
	s.outages.register(ctx, &s.signals)
	s.signals.listen(ctx)
	return nil
}

// admit executes the admission: whether the session may start, and which of its work is
// reused. It takes over the first checkpoint.
func (s *teamSession) admit(ctx workflow.Context) error {
	if s.in.Continued != nil && s.in.Continued.Large != nil {
		before, err := load[Continued](ctx, *s.in.Continued.Large)
		if err != nil {
			return err
		}
		s.takeOver(ctx, &before)
	}
	info := workflow.GetInfo(ctx)
	a, err := admitSession.atBoundary(ctx, activities.AdmitInput{
		At: workflow.Now(ctx).UTC(), Start: s.in.Start, OriginalRun: info.OriginalRunID, FirstRun: info.FirstRunID,
		Continues: s.in.Continued != nil, Status: s.status.Clone(),
	})
	if err == nil && a.Large != nil {
		a, err = load[activities.Admission](ctx, *a.Large)
	}
	if err != nil {
		return err
	}
	if len(a.Problems) > 0 {
		return temporal.NewApplicationErrorWithOptions("the session cannot start: "+a.Problems[0], session.NotAdmitted,
			temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{a.Problems}})
	}
	if s.in.Continued != nil {
		s.status.Run, s.status.Checkpoint = a.Run, a.Head
		s.publisher.announce(ctx)
		for _, r := range s.requests.open {
			s.alerts.watch(ctx, r)
		}
		return nil
	}
	s.team, s.publisher.attributes, s.agents.fallbacks, s.notifier.webhook = a.Team, a.SearchAttributes, a.Fallbacks, a.Webhook
	s.status = session.NewStatus(info.WorkflowExecution.ID, a.Team)
	s.status.Decisions = nil // the store has them: they may become large
	started := info.WorkflowStartTime.UTC()
	s.status.Status, s.status.Checkpoint, s.status.StartedAt = session.Running, a.Head, &started
	s.status.Starter, s.status.Alerts = s.in.Starter, a.Alerts
	s.status.Run, s.status.Origin, s.status.Plan, s.status.Labels = a.Run, a.Origin, a.Plan, s.in.Labels
	if len(a.Phases) > 0 {
		s.status.Phases, s.status.Dropped = a.Phases, a.Dropped
		s.status.Usage = s.status.Sum()
	}
	s.schedule.load(a)
	for _, name := range a.Todo {
		s.phases.unlock(ctx, name, a.Inputs[name], a.Merged[name], a.Conflicts[name])
	}
	for _, p := range s.schedule.phases {
		if !p.todo { // all is done, and does not fit together
			s.phases.unlock(ctx, p.Name, "", "", a.Conflicts[p.Name])
		}
	}
	s.publisher.publish(ctx)
	return nil
}

// run executes all phases, and returns the result of the session.
func (s *teamSession) run(ctx workflow.Context) (SessionResult, error) {
	s.phases.run(ctx)
	patient, _ := workflow.NewDisconnectedContext(ctx)
	if next := s.nextRun(ctx, patient); next != nil {
		return SessionResult{}, workflow.NewContinueAsNewError(ctx, TeamSessionName, *next)
	}
	return s.end(ctx, patient)
}

// end ends the session once all handlers of updates and signals have ended.
func (s *teamSession) end(ctx, patient workflow.Context) (SessionResult, error) {
	s.requests.close()
	if err := workflow.Await(patient, func() bool { return workflow.AllHandlersFinished(patient) }); err != nil {
		return SessionResult{}, err
	}
	s.ending.closing = true
	return s.close(ctx, patient)
}

// close writes how the session ended, and returns the result of the workflow.
func (s *teamSession) close(ctx, patient workflow.Context) (SessionResult, error) {
	s.reports.flush(patient)
	if s.publisher.allDone() {
		return s.complete(patient)
	}
	var end error
	s.status.Status, s.status.Reason, end = s.ending.outcome(ctx.Err() != nil, s.status.Help)
	for i := range s.status.Phases {
		s.status.Phases[i].Close(s.status.Help)
	}
	if err := s.checkpoints.close(patient); err != nil {
		workflow.GetLogger(patient).Warn("the session's end could not be stored", "error", err)
	}
	s.publisher.publish(patient)
	s.publisher.saveMemo(patient)
	event := session.SessionFailed
	if s.status.Status == session.WasCancelled {
		event = session.SessionCancelled
	}
	s.notifier.notifyEnd(patient, event, s.ending.answer())
	return SessionResult{}, end
}

// complete writes that the session is complete, unless its last checkpoint says so.
func (s *teamSession) complete(ctx workflow.Context) (SessionResult, error) {
	s.status.Status = session.Completed
	if !s.checkpoints.complete {
		if err := s.checkpoints.close(ctx); err != nil {
			return SessionResult{}, err
		}
	}
	s.publisher.saveMemo(ctx)
	s.publisher.show(ctx)
	s.notifier.notifyEnd(ctx, session.SessionCompleted, nil)
	return SessionResult{Checkpoint: s.status.Checkpoint, Usage: s.status.Usage}, nil
}
