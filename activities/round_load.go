package activities

import (
	"cmp"
	"context"

	"golang.org/x/sync/semaphore"

	"github.com/maestro-hive/maestro/internal/session"
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
	result, err := log.load(ctx, r.agent, rs.Clock().UTC())
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

// openSpender opens the assignment's journal for the round's calls.
func (r *round) openSpender(ctx context.Context) (*spender, error) {
	ports, id := r.ports, r.in.AssignmentID
	observer := &callObserver{observer: r.exec.observer, agents: ports.Agents, team: r.session.team.Name, session: r.session.key.Session}
	s := &spender{
		files: ports.Files, agents: ports.Agents, observer: observer, round: r, setProgress: r.exec.setProgress,
		waits: r.exec.waits, run: r.log.round.Run, agent: r.agent, free: r.in.Free,
		journal: &journalWriter{
			ledgers: ports.Ledgers, clock: ports.Clock, key: r.session.key, id: id, retryStore: r.exec.retryStore, writing: semaphore.NewWeighted(1),
		},
		budgets: &reservations{
			ledgers: ports.Ledgers, clock: ports.Clock, key: r.session.key, id: id, team: r.session.team, retryStore: r.exec.retryStore, observer: observer,
		},
	}
	if err := s.journal.open(ctx, ports.Agents, ports.WorkDirs); err != nil {
		return nil, err
	}
	if err := r.log.loadJournal(ctx, s.journal.journal); err != nil {
		return s, err
	}
	if len(s.journal.journal.Calls()) == 0 && !r.session.team.Capped() {
		return s, nil
	}
	return s, s.budgets.update(ctx, s.journal)
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
func (r *round) attempt() *attempt {
	return &attempt{
		exec: r.exec, files: r.ports.Files, checks: checks{r.exec, r.ports.Files, r.session}, log: r.log, spender: r.spender, breaker: r.breaker,
		session: r.session, in: r.in, clock: r.ports.Clock,
	}
}
