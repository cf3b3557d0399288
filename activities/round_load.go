package activities

import (
	"cmp"
	"context"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// load reads the session and the state of earlier executions of the round. It returns the
// round's result if the record has one.
func (rs *Rounds) load(ctx context.Context, e *execution, log *roundLog, in RoundInput) (*round, *session.RoundResult, error) {
	s, err := fromStore(ctx, e.retryStore, func() (sessionContext, error) {
		var err error
		if in.Beside, err = in.Beside.load(ctx, rs.Files); err != nil {
			return sessionContext{}, err
		}
		return loadSessionContext(ctx, rs.Sessions, in.Head)
	})
	if err != nil {
		return nil, nil, err
	}
	r := &round{ports: rs, in: in, session: s, exec: e, log: log, agent: cmp.Or(in.Agent, s.team.Personas[in.Persona].Agent)}
	result, err := log.load(ctx, s, r.agent, rs.Clock().UTC())
	if err != nil {
		return nil, nil, err
	}
	r.breaker = &agentBreaker{
		port: rs.Breakers, settings: rs.Agents.Breaker(r.agent), log: log, perCall: len(rs.Agents.Offered(r.agent).Gateway) > 0,
		activity: activityKey(e.info), holder: cmp.Or(in.Lease.Holder, activityKey(e.info)), clock: rs.Clock, setProgress: e.setProgress,
	}
	r.outage = &outageWait{
		exec: e, log: log, breaker: r.breaker, signals: rs.Signals, retry: s.team.Retry, order: in.Outage, hold: rs.HoldSlot,
		clock: rs.Clock, random: rs.Random, report: r.report,
	}
	e.dir.cleared = r.outage.filesCleared
	return r, result, nil
}

// openSpender reads the assignment's calls for those of the round.
func (r *round) openSpender(ctx context.Context) (*spender, error) {
	ports, id := r.ports, r.in.AssignmentID
	observer := &callObserver{observer: r.exec.observer, agents: ports.Agents, team: r.session.team.Name, session: r.session.key.Session}
	s := &spender{
		files: ports.Files, state: ports.State, observer: observer, round: r, setProgress: r.exec.setProgress, retryState: r.exec.retryStore,
		of: state.Assignment{Key: r.session.key, AssignmentID: id}, team: r.session.team,
		waits: r.exec.waits, clock: ports.Clock, agent: r.agent, free: r.in.Free, fence: r.log.opened.Fence, answersFrom: r.log.opened.Order.AnswersFrom,
	}
	calls, err := s.load(ctx, lostCalls{ports.State, ports.Sessions, ports.Agents, ports.WorkDirs, r.log.endedCost()})
	if err != nil {
		return nil, err
	}
	if err := r.log.loadCalls(ctx, calls); err != nil {
		return s, err
	}
	return s, s.warn(ctx)
}

// callEnded notes that the agent's process has ended.
func (r *round) callEnded() { r.exec.dir.idle() }

// callBooked ends an outage if the call has an answer: that is progress.
func (r *round) callBooked(ctx context.Context, answered bool) {
	if answered {
		r.outage.end(ctx, true)
	}
}

// attempt returns the next attempt of the round.
func (r *round) nextAttempt() *attempt {
	return &attempt{
		exec: r.exec, files: r.ports.Files, checks: checks{r.exec, r.ports.Files, r.session}, log: r.log, spender: r.spender, breaker: r.breaker,
		session: r.session, in: r.in, clock: r.ports.Clock,
	}
}
