package sessionstatus

import (
	"cmp"
	"context"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/workflows"
)

const (
	// describePatience limits the wait for what Temporal knows of a queue: it may deliver nothing,
	// and then not answer either.
	describePatience = 2 * time.Second
	// deliveredWithin is how long a step of a session may wait for a worker that polls.
	deliveredWithin = 10 * time.Second
)

// idleQueues lists the session's queues with work that have no poller, and returns the error of the
// first queue of which Temporal does not say who polls it; then it asks about no other.
func (w *Reader) idleQueues(ctx context.Context, f facts) (idle []string, silent error) {
	info := f.info()
	offered := w.offeredQueues(ctx, f)
	asked := map[string]bool{}
	unserved := func(queue string, kind enumspb.TaskQueueType) bool {
		asked[queue] = true
		if offered != nil && !offered[queue] {
			return true
		}
		if silent != nil {
			return false
		}
		var none bool
		none, silent = w.unpolled(ctx, queue, kind)
		return none
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
	return idle, silent
}

// undelivered returns why work of the session does not reach the workers that poll for it; empty: it
// does. A step that failed is repeated later, which is no fault of the delivery.
func (w *Reader) undelivered(f facts, silent error) string {
	const lasts = "; Temporal delivers no work: if this lasts for more than two minutes, see the log of its server"
	step := f.description.GetPendingWorkflowTask()
	waits := w.Now().Sub(cmp.Or(step.GetOriginalScheduledTime(), step.GetScheduledTime()).AsTime())
	switch {
	case silent != nil:
		return "no worker gets the session's work: " + silent.Error() + lasts
	case step.GetState() == enumspb.PENDING_WORKFLOW_TASK_STATE_SCHEDULED && step.GetAttempt() <= 1 && waits > deliveredWithin:
		return fmt.Sprintf("no worker has got the session's next step for %s, although workers poll queue %s%s",
			waits.Truncate(time.Second), f.info().GetTaskQueue(), lasts)
	}
	return ""
}

// offeredQueues are the queues that the store's live workers serve; nil if the session's store is
// not available. A worker that has ended is missing here at once, while Temporal lists its pollers
// for some time.
func (w *Reader) offeredQueues(ctx context.Context, f facts) map[string]bool {
	if Memo[string](f.info(), workflows.MemoStore) != w.Store.ID() {
		return nil
	}
	offers, err := w.Store.State.Offers(ctx)
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

// unpolled reports whether a queue has no poller. It fails if Temporal does not say who polls it in time;
// if it refuses to, that is not known.
func (w *Reader) unpolled(ctx context.Context, queue string, kind enumspb.TaskQueueType) (bool, error) {
	asking, cancel := context.WithTimeout(ctx, describePatience)
	defer cancel()
	answer, err := w.Conn.DescribeTaskQueue(asking, queue, kind)
	switch {
	case err != nil && asking.Err() != nil && ctx.Err() == nil:
		return false, fmt.Errorf("Temporal does not say within %s who polls queue %s", describePatience, //nolint:staticcheck // a name
			queue)
	case err != nil:
		return false, nil
	}
	for _, p := range answer.GetPollers() {
		if w.Now().Sub(p.GetLastAccessTime().AsTime()) < pollerAge {
			return false, nil
		}
	}
	return true, nil
}
