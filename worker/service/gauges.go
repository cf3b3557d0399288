package service

import (
	"context"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/platform/retryafter"
	"github.com/maestro-hive/maestro/internal/store/state"
	"github.com/maestro-hive/maestro/worker/telemetry"
)

// The times of a worker's gauges.
const (
	// gaugesSoon is the time until the first update: then Temporal shows the worker's pollers.
	gaugesSoon  = time.Second
	gaugesEvery = 15 * time.Second
	gaugesLimit = 5 * time.Second
)

// polledWithin is how old the last poll of a poller may be. A poll takes up
// to a minute.
const polledWithin = 2 * time.Minute

// updateGauges updates the metrics of the store and of its workers that no event changes, until ctx ends.
func (w *Worker) updateGauges(ctx context.Context) {
	defer w.recorder.Look(telemetry.Fleet{}) // a stopped worker has no values
	if !retryafter.Wait(ctx, gaugesSoon) {
		return
	}
	w.updateGaugesOnce(ctx)
	every(ctx, gaugesEvery, w.updateGaugesOnce)
}

// updateGaugesOnce updates the metrics once. Values that cannot be read are omitted.
func (w *Worker) updateGaugesOnce(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, gaugesLimit)
	defer cancel()
	breakers := map[string]bool{}
	for _, a := range w.plan.Load().set.OfferedAgents() {
		if a.Breaker == "" || breakers[a.Breaker] {
			continue
		}
		breakers[a.Breaker] = true
		if b, err := w.breakers.Read(ctx, a.Breaker); err == nil {
			w.recorder.Breaker(b)
		}
	}
	polls, _ := w.polled(ctx)
	w.recorder.Look(telemetry.Fleet{Breakers: breakers, Sessions: w.openSessions(ctx), Workers: w.liveWorkers(ctx), Polls: polls})
}

// openSessions counts the store's open sessions; nil if they cannot be read. Those that wait for no person are running.
func (w *Worker) openSessions(ctx context.Context) map[session.State]int64 {
	open, err := w.store.State.Sessions(ctx, state.Filter{Namespace: w.Connection.Namespace, Status: session.OpenStates})
	if err != nil {
		return nil
	}
	counts := map[session.State]int64{session.Running: 0, session.HelpIsNeeded: 0, session.AwaitingApproval: 0}
	for _, s := range open {
		if _, asks := counts[s.Status]; !asks {
			s.Status = session.Running
		}
		counts[s.Status]++
	}
	return counts
}

// liveWorkers counts the live workers that offer each agent. Agents of workers that died
// lately have the count 0.
func (w *Worker) liveWorkers(ctx context.Context) map[string]int {
	offers, err := w.store.State.Offers(ctx)
	if err != nil {
		return nil
	}
	now, live := w.Clock(), map[string]int{}
	for _, o := range offers {
		for agent := range o.Agents {
			switch {
			case o.Live(now):
				live[agent]++
			case now.Sub(o.RenewedAt) < spec.OfferForgotten:
				live[agent] += 0
			}
		}
	}
	return live
}

// polled reports whether Temporal has had a recent poll of this worker for sessions.
func (w *Worker) polled(ctx context.Context) (bool, error) {
	queue := spec.WorkflowQueue(w.store.ID())
	answer, err := w.Connection.DescribeTaskQueue(ctx, queue, enumspb.TASK_QUEUE_TYPE_WORKFLOW)
	if err != nil {
		return false, notDescribed(queue, err)
	}
	now := w.Clock()
	for _, p := range answer.GetPollers() {
		if p.GetIdentity() == w.identity && now.Sub(p.GetLastAccessTime().AsTime()) < polledWithin {
			return true, nil
		}
	}
	return false, nil
}

// delivered returns why Temporal may deliver no work to this worker; nil: it delivers. A server that answers may still wait
// for a part of itself that has ended, and then it cannot say who polls a queue. A worker whose agents are all at work
// does not poll their queues, so only the sessions' queue needs a recent poll of this worker.
func (w *Worker) delivered(ctx context.Context) error {
	polled, err := w.polled(ctx)
	if err != nil {
		return err
	}
	if !polled {
		return fmt.Errorf("Temporal has had no poll of this worker for queue %s lately", //nolint:staticcheck // a name
			spec.WorkflowQueue(w.store.ID()))
	}
	for agent := range w.plan.Load().set.OfferedAgents() {
		queue := spec.AgentQueue(w.store.ID(), agent)
		if _, err := w.Connection.DescribeTaskQueue(ctx, queue, enumspb.TASK_QUEUE_TYPE_ACTIVITY); err != nil {
			return notDescribed(queue, err)
		}
	}
	return nil
}

func notDescribed(queue string, err error) error {
	return fmt.Errorf("Temporal does not say who polls queue %s, so it may deliver no work: %w", //nolint:staticcheck // a name
		queue, err)
}
