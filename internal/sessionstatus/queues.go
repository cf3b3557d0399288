package sessionstatus

import (
	"context"
	"time"

	enumspb "go.temporal.io/api/enums/v1"

	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/workflows"
)

// idleQueues lists the session's queues with work that have no poller.
func (w *Watcher) idleQueues(ctx context.Context, f facts) []string {
	var idle []string
	info := f.description.GetWorkflowExecutionInfo()
	offered := w.offeredQueues(ctx, f)
	asked := map[string]bool{}
	unserved := func(queue string, kind enumspb.TaskQueueType) bool {
		asked[queue] = true
		return (offered != nil && !offered[queue]) || w.unpolled(ctx, queue, kind)
	}
	if f.description.GetPendingWorkflowTask() != nil && unserved(info.GetTaskQueue(), enumspb.TASK_QUEUE_TYPE_WORKFLOW) {
		idle = append(idle, info.GetTaskQueue())
	}
	for _, p := range f.description.GetPendingActivities() {
		queue := p.GetActivityOptions().GetTaskQueue().GetName()
		if queue == "" || asked[queue] || p.GetState() != enumspb.PENDING_ACTIVITY_STATE_SCHEDULED {
			continue
		}
		if unserved(queue, enumspb.TASK_QUEUE_TYPE_ACTIVITY) {
			idle = append(idle, queue)
		}
	}
	return idle
}

// offeredQueues are the queues that the store's live workers serve; nil if the session's store is
// not available. A worker that has ended is missing here at once, while Temporal lists its pollers
// for some time.
func (w *Watcher) offeredQueues(ctx context.Context, f facts) map[string]bool {
	if w.Store == nil || memoIn[string](f.description, workflows.MemoStore) != w.Store.ID() {
		return nil
	}
	offers, err := w.Store.Offers(ctx)
	if err != nil {
		return nil
	}
	queues := map[string]bool{}
	for _, o := range offers {
		if !o.Live(w.Now()) {
			continue
		}
		queues[spec.WorkflowQueue(w.Store.ID())] = true
		for agent := range o.Agents {
			queues[spec.AgentQueue(w.Store.ID(), agent)] = true
		}
	}
	return queues
}

// pollerAge is the age at which a poller that Temporal still lists counts as gone: a poll takes at
// most a minute.
const pollerAge = 70 * time.Second

// unpolled reports whether a queue has no poller. If Temporal does not report pollers, it is false.
func (w *Watcher) unpolled(ctx context.Context, queue string, kind enumspb.TaskQueueType) bool {
	answer, err := w.Conn.DescribeTaskQueue(ctx, queue, kind)
	if err != nil {
		return false
	}
	for _, p := range answer.GetPollers() {
		if w.Now().Sub(p.GetLastAccessTime().AsTime()) < pollerAge {
			return false
		}
	}
	return true
}
