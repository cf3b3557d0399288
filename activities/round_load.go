package activities

import (
	"cmp"
	"context"

	"github.com/maestro-hive/maestro/internal/session"
)

// load reads the session and what earlier executions of the round have left. It returns the
// round's result if the record has one.
func (rs *Rounds) load(ctx context.Context, e *execution, log *roundLog, in RoundInput) (*round, *session.RoundResult, error) {
	s, err := fromStore(ctx, e.retryStore, func() (sessionContext, error) {
		return loadSessionContext(ctx, rs.Files, rs.Sessions, in.Head)
	})
	if err != nil {
		return nil, nil, err
	}
	r := &round{ports: rs, in: in, session: s, exec: e, log: log, agent: cmp.Or(in.Agent, s.team.Personas[in.Persona].Agent)}
	result, err := log.load(ctx, r.agent, rs.Clock().UTC())
	if err != nil {
		return nil, nil, err
	}
	r.breaker = &agentBreaker{
		port: rs.Breakers, settings: rs.Agents.Breaker(r.agent), log: log,
		activity: activityKey(e.info), holder: cmp.Or(in.Lease.Holder, activityKey(e.info)), clock: rs.Clock, setProgress: e.setProgress,
	}
	r.outage = &outageWait{
		exec: e, log: log, breaker: r.breaker, signals: rs.Signals, retry: s.team.Retry, order: in.Outage, hold: rs.HoldSlot,
		clock: rs.Clock, random: rs.Random, report: r.report,
	}
	e.dir.cleared = r.outage.filesCleared
	return r, result, nil
}

// openSpender opens the assignment's journal for what the round pays.
func (r *round) openSpender(ctx context.Context) (*spender, error) {
	s := &spender{
		files: r.ports.Files, workDirs: r.ports.WorkDirs, ledgers: r.ports.Ledgers, agents: r.ports.Agents, observer: r.exec.observer, clock: r.ports.Clock,
		team: r.session.team, key: r.session.key, id: r.in.AssignmentID, run: r.log.round.Run, agent: r.agent, free: r.in.Free,
		retryStore: r.exec.retryStore, setProgress: r.exec.setProgress, round: r,
	}
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	if err := r.log.loadJournal(ctx, s.journal); err != nil {
		return s, err
	}
	if len(s.journal.Calls()) == 0 && !s.team.Capped() {
		return s, nil
	}
	return s, s.updateLedger(ctx)
}

// callEnded notes that the agent's process is gone.
func (r *round) callEnded() { r.exec.dir.idle() }

// callBooked ends an outage if the call has an answer: that is progress.
func (r *round) callBooked(ctx context.Context, answered bool) {
	if answered {
		r.outage.end(ctx, true)
	}
}

// attempt is the next one of the round.
func (r *round) attempt() *attempt {
	return &attempt{
		exec: r.exec, files: r.ports.Files, checks: checks{r.exec, r.ports.Files}, log: r.log, spender: r.spender,
		session: r.session, in: r.in, clock: r.ports.Clock,
	}
}
