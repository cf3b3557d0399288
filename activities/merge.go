package activities

import (
	"context"
	"slices"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// Merges merges and verifies the phases in which several personas work.
type Merges struct {
	Rounds *Rounds
}

// phaseMerge is one execution of the merge of a phase. It works in the integrator's
// directory, under the integrator's lock.
type phaseMerge struct {
	*Rounds
	in      MergeInput
	session sessionContext
	phase   spec.Phase
	exec    *execution
	checks  checks
	// found are the conflicts of the personas' work.
	found conflicts
	// started: the record says that the checks were started.
	started bool
}

// Merge merges the personas' deltas onto the phase's input, and verifies the merged
// tree by the phase's contract and checks. A failure of the work is in the result:
// the workflow schedules a round that fixes it. An unusable store or a stopping
// worker is an error that Temporal retries. Checks that end their worker several
// times are given up as worker_lost. A merge of an earlier run is fenced.
func (ms *Merges) Merge(ctx context.Context, in MergeInput) (MergeResult, error) {
	e := ms.Rounds.newExecution(ctx, spec.AssignmentID{Phase: in.Phase, Persona: in.Integrator})
	defer e.dir.releaseLayers()
	work, end := e.keepAlive(ctx, ms.Rounds.Heartbeats, func() Heartbeat {
		return Heartbeat{Attempt: 1, Progress: e.progressNow()}
	})
	defer end()
	m := &phaseMerge{Rounds: ms.Rounds, in: in, exec: e}
	var err error
	if err = e.retryStore(work, func() error { return m.load(work) }); err != nil {
		return MergeResult{}, executionEnd(work, err)
	}
	m.checks = checks{e, ms.Rounds.Files, m.session}
	m.phase, _ = m.session.team.Phase(in.Phase)
	unlock, err := e.acquireLock(work)
	if err != nil {
		return MergeResult{}, executionEnd(work, err)
	}
	defer unlock()

	defer e.dir.freeDisk(work)
	result, err := m.merge(work)
	if ended := m.end(work); err == nil {
		err = ended
	}
	if err == nil && result.Failure != nil {
		f := *result.Failure
		result.Failure = &failures.Failure{Category: f.Category, Message: textfmt.Shorten(f.Message, session.MaxMessage)}
		result.Feedback, err = fromStore(work, e.retryStore, func() (spec.Digest, error) {
			report, err := m.found.report(work, m.Files, f)
			if err != nil {
				return "", err
			}
			return report.write(work, m.Files)
		})
	}
	return result, executionEnd(work, err)
}

// load reads the session and the work to merge.
func (m *phaseMerge) load(ctx context.Context) (err error) {
	if m.in.Assignments, err = m.in.Assignments.load(ctx, m.Files); err == nil {
		m.session, err = loadSessionContext(ctx, m.Sessions, m.in.Head)
	}
	return err
}

func (m *phaseMerge) merge(ctx context.Context) (MergeResult, error) {
	done := map[spec.AssignmentID]session.CheckpointAssignment{}
	for _, a := range m.in.Assignments.List {
		done[a.AssignmentID] = a
	}
	steps := session.Steps(m.session.team, []string{m.phase.Name}, done)
	folded, err := fromStore(ctx, m.exec.retryStore,
		func() (session.Folded, error) { return m.Files.Fold(ctx, m.in.Input, steps) })
	if err != nil {
		return MergeResult{}, err
	}
	if m.found, err = fromStore(ctx, m.exec.retryStore,
		func() (conflicts, error) { return m.conflicts(ctx, done, folded.Manifest) }); err != nil {
		return MergeResult{}, err
	}
	result := MergeResult{Tree: folded.Manifest, Dropped: session.Dropped(m.found.standings)}
	again := slices.ContainsFunc(m.in.Assignments.List, func(a session.CheckpointAssignment) bool { return len(a.Integrated) > 0 })
	if result.Failure = m.found.needsIntegrator(again); result.Failure != nil {
		return result, nil
	}
	return m.verify(ctx, result)
}

// verify verifies the merged tree by the phase's contract.
func (m *phaseMerge) verify(ctx context.Context, result MergeResult) (MergeResult, error) {
	changed, err := fromStore(ctx, m.exec.retryStore,
		func() ([]string, error) { return m.Files.Changed(ctx, m.in.Input, result.Tree) })
	if err != nil {
		return result, err
	}
	if result.Failure = notProduced(m.phase.Produces, changed); result.Failure != nil || len(m.phase.Checks) == 0 {
		return result, nil
	}
	var dir session.WorkDir
	if err := m.exec.retryStore(ctx, func() error {
		if dir, err = m.exec.dir.openWithSpace(); err != nil {
			return err
		}
		if m.WorkDirs.HasLayers() { // each check gets the tree
			return nil
		}
		return m.Files.Materialise(ctx, result.Tree, dir.Tree)
	}); err != nil {
		result.Failure, err = m.failed(ctx, err)
		return result, err
	}
	if f, err := m.start(ctx); err != nil || f != nil {
		result.Failure = f
		return result, err
	}
	req := session.Collect{Base: result.Tree, Dir: dir.Tree, Ignore: m.session.team.Ignore, Secrets: m.Agents.Secrets()}
	kept, err := m.checks.verify(ctx, spec.Contract{Checks: m.phase.Checks}, dir, req, session.Collected{Output: result.Tree},
		&session.Outcome{})
	if err != nil {
		result.Failure, err = m.failed(ctx, asUnknown(m.exec.dir.blame(ctx, err)))
		return result, err
	}
	if kept.Delta != "" {
		result.Kept, result.Tree = kept.Delta, kept.Output
	}
	return result, nil
}

// agent returns the integrator's agent.
func (m *phaseMerge) agent() string { return m.session.team.Personas[m.in.Integrator].Agent }

// start notes durably that the checks are about to be started, and counts a lost worker
// if an earlier execution has not noted their end. The failure means that too many
// workers were lost during the checks.
func (m *phaseMerge) start(ctx context.Context) (failure *failures.Failure, err error) {
	err = m.change(ctx, func(log *session.MergeLog) {
		if log.Started {
			log.Lost++
			m.exec.observer.WorkerLost(m.agent())
		}
		log.Started = m.LostLimit == 0 || log.Lost < m.LostLimit
		if !log.Started {
			failure = failures.Failf(failures.WorkerLost, "the worker was lost %d times in a row during the checks of phase %s", log.Lost,
				m.in.Phase)
		}
	})
	return failure, err
}

// end notes that the checks have ended. It does so, too, for an execution that
// is stopped: only where the store cannot take it, the next one counts a lost worker.
func (m *phaseMerge) end(ctx context.Context) error {
	if !m.started {
		return nil
	}
	ended := func(log *session.MergeLog) { log.Started = false }
	if ctx.Err() == nil {
		return m.change(ctx, ended)
	}
	return m.put(ctx, ended)
}

// change changes the merge's log, durably.
func (m *phaseMerge) change(ctx context.Context, change func(*session.MergeLog)) error {
	err := m.exec.retryStore(ctx, func() error { return m.put(ctx, change) })
	m.started = err == nil
	return err
}

func (m *phaseMerge) put(ctx context.Context, change func(*session.MergeLog)) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout) // a stopping worker writes what it knows
	defer cancel()
	return m.State.Merge(ctx, m.session.key, m.in.Phase, m.exec.info.WorkflowExecution.RunID, m.exec.info.ActivityID, change)
}

// failed returns the failure of the work in err, or the activity's error. A failure of the
// host is waited out as in a round: by another execution of the merge, without a slot.
func (m *phaseMerge) failed(ctx context.Context, err error) (*failures.Failure, error) {
	f, ok := asFailure(err)
	retry := m.session.team.Retry
	patience := retry.PatienceOrDefault()
	switch {
	case !ok:
		return nil, err
	case ctx.Err() != nil || !f.MayPass() || patience == 0:
		return f, nil
	}
	now := m.Clock().UTC()
	var o session.Outage
	if err := m.change(ctx, func(log *session.MergeLog) {
		o = log.Outage.After(maskedFailure(m.Agents, *f), m.agent(), now, patience, m.Random.next())
		log.Outage = &o
	}); err != nil {
		return nil, err
	}
	until := o.PatienceUntil(patience)
	switch {
	case m.in.Outage == OutageNoticed:
		return nil, recoverable(o.Failure, o.Until.Sub(now))
	case now.Before(until):
		return nil, recoverable(o.Failure, min(o.Until.Sub(now), until.Sub(now)))
	case retry.OnOutage == spec.OutageFail:
		return f, nil
	}
	return nil, providerOutage(o, session.RoundReport{}) // a merge costs nothing
}
