package service

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/telemetry"
	"github.com/maestro-hive/maestro/workflows"
)

// When a worker that is measured looks around, and how long it takes at most.
const (
	// gaugesSoon is the first time: when its pollers have been heard of.
	gaugesSoon  = time.Second
	gaugesEvery = 15 * time.Second
	gaugesLimit = 5 * time.Second
)

// polledWithin is how fresh a poller has to be to count as one. A poll takes up
// to a minute.
const polledWithin = 2 * time.Minute

// updateGauges updates the metrics that no event changes, until ctx ends. Without metrics it does
// nothing.
func (w *Worker) updateGauges(ctx context.Context) {
	r := w.options.Telemetry.Recorder()
	if r == nil || !w.options.Telemetry.Measures() {
		return
	}
	timer := time.NewTimer(gaugesSoon)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			r.Look(telemetry.Fleet{}) // a stopped worker has no values
			return
		case <-timer.C:
			w.lookAround(ctx, r)
			timer.Reset(gaugesEvery)
		}
	}
}

// lookAround updates the gauges once. Values that cannot be read are omitted.
func (w *Worker) lookAround(ctx context.Context, r *telemetry.Recorder) {
	ctx, cancel := context.WithTimeout(ctx, gaugesLimit)
	defer cancel()
	for _, name := range w.breakerNames() {
		_, _ = w.breakers.Read(ctx, name) // updates the metric
	}
	r.Look(telemetry.Fleet{Sessions: w.openSessions(ctx), Workers: w.liveWorkers(ctx), Polls: w.polls(ctx)})
}

// breakerNames are those of the worker's agents.
func (w *Worker) breakerNames() []string {
	names := map[string]bool{}
	for _, a := range w.plan.Load().agents.OfferedAgents() {
		if a.Breaker != "" {
			names[a.Breaker] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// openSessions counts the store's open sessions; nil if Temporal does not answer.
func (w *Worker) openSessions(ctx context.Context) map[session.State]int64 {
	open := fmt.Sprintf("WorkflowType = '%s' AND TaskQueue = '%s' AND ExecutionStatus = 'Running'",
		workflows.TeamSessionName, spec.WorkflowQueue(w.options.Store.ID()))
	all, err := w.count(ctx, open)
	if err != nil {
		return nil
	}
	counts := map[session.State]int64{}
	for _, state := range []session.State{session.HelpIsNeeded, session.AwaitingApproval} {
		// Without the search attribute, such a session counts as running.
		n, err := w.count(ctx, fmt.Sprintf("%s AND %s = '%s'", open, workflows.AttributeStatus.GetName(), state))
		if err == nil {
			counts[state], all = n, all-n
		}
	}
	counts[session.Running] = max(all, 0)
	return counts
}

func (w *Worker) count(ctx context.Context, query string) (int64, error) {
	answer, err := w.options.Client.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{
		Namespace: w.options.Namespace, Query: query,
	})
	return answer.GetCount(), err
}

// liveWorkers counts, for every agent that the store knows of, the live workers
// that offer it: none, if those that did have died.
func (w *Worker) liveWorkers(ctx context.Context) map[string]int {
	offers, err := w.options.Store.Offers(ctx)
	if err != nil {
		return nil
	}
	now, live := w.options.Clock(), map[string]int{}
	for _, o := range offers {
		for agent := range o.Agents {
			if o.Live(now) {
				live[agent]++
			} else {
				live[agent] += 0
			}
		}
	}
	return live
}

// polls reports whether Temporal has had a recent poll of this worker for sessions.
func (w *Worker) polls(ctx context.Context) bool {
	answer, err := w.options.Client.DescribeTaskQueue(ctx, spec.WorkflowQueue(w.options.Store.ID()), enumspb.TASK_QUEUE_TYPE_WORKFLOW)
	if err != nil {
		return false
	}
	now := w.options.Clock()
	for _, p := range answer.GetPollers() {
		if p.GetIdentity() == w.options.Identity && now.Sub(p.GetLastAccessTime().AsTime()) < polledWithin {
			return true
		}
	}
	return false
}
