package service

import (
	"context"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/telemetry"
	"github.com/maestro-hive/maestro/workflows"
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

// gauges are the metrics of the store and of its workers that no event changes.
type gauges struct {
	client                     client.Client
	namespace, store, identity string
	clock                      func() time.Time
	offers                     func(context.Context) ([]spec.Offer, error)
	breakers                   *breakers
	// agents returns the current agents of the worker.
	agents   func() map[string]spec.OfferedAgent
	recorder *telemetry.Recorder
}

func (w *Worker) gauges() *gauges {
	o := w.options
	return &gauges{
		client: o.Client, namespace: o.Namespace, store: o.Store.ID(), identity: o.Identity, clock: o.Clock, offers: o.Store.State.Offers,
		breakers: w.breakers, recorder: o.Telemetry.Recorder(),
		agents: func() map[string]spec.OfferedAgent { return w.plan.Load().agents.OfferedAgents() },
	}
}

// update updates the metrics until ctx ends.
func (g *gauges) update(ctx context.Context) {
	timer := time.NewTimer(gaugesSoon)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			g.recorder.Look(telemetry.Fleet{}) // a stopped worker has no values
			return
		case <-timer.C:
			g.collect(ctx)
			timer.Reset(gaugesEvery)
		}
	}
}

// collect updates the metrics once. Values that cannot be read are omitted.
func (g *gauges) collect(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, gaugesLimit)
	defer cancel()
	breakers := map[string]bool{}
	for _, a := range g.agents() {
		if a.Breaker != "" && !breakers[a.Breaker] {
			breakers[a.Breaker] = true
			_, _ = g.breakers.Read(ctx, a.Breaker) // updates the metric
		}
	}
	polls, _ := g.polled(ctx)
	g.recorder.Look(telemetry.Fleet{Breakers: breakers, Sessions: g.openSessions(ctx), Workers: g.liveWorkers(ctx), Polls: polls})
}

// openSessions counts the store's open sessions; nil if Temporal does not answer.
func (g *gauges) openSessions(ctx context.Context) map[session.State]int64 {
	open := fmt.Sprintf("WorkflowType = '%s' AND TaskQueue = '%s' AND ExecutionStatus = 'Running'",
		workflows.TeamSessionName, spec.WorkflowQueue(g.store))
	all, err := g.count(ctx, open)
	if err != nil {
		return nil
	}
	counts := map[session.State]int64{}
	for _, state := range []session.State{session.HelpIsNeeded, session.AwaitingApproval} {
		// Without the search attribute, such a session counts as running.
		n, err := g.count(ctx, fmt.Sprintf("%s AND %s = '%s'", open, workflows.AttributeStatus.GetName(), state))
		if err == nil {
			counts[state], all = n, all-n
		}
	}
	counts[session.Running] = max(all, 0)
	return counts
}

func (g *gauges) count(ctx context.Context, query string) (int64, error) {
	answer, err := g.client.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{
		Namespace: g.namespace, Query: query,
	})
	return answer.GetCount(), err
}

// liveWorkers counts the live workers that offer each agent. Agents of workers that died
// lately have the count 0.
func (g *gauges) liveWorkers(ctx context.Context) map[string]int {
	offers, err := g.offers(ctx)
	if err != nil {
		return nil
	}
	now, live := g.clock(), map[string]int{}
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
func (g *gauges) polled(ctx context.Context) (bool, error) {
	queue := spec.WorkflowQueue(g.store)
	answer, err := g.client.DescribeTaskQueue(ctx, queue, enumspb.TASK_QUEUE_TYPE_WORKFLOW)
	if err != nil {
		return false, notDescribed(queue, err)
	}
	now := g.clock()
	for _, p := range answer.GetPollers() {
		if p.GetIdentity() == g.identity && now.Sub(p.GetLastAccessTime().AsTime()) < polledWithin {
			return true, nil
		}
	}
	return false, nil
}
