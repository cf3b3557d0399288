package sessionstatus

import (
	"context"
	"fmt"
	"strings"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/maestro-hive/maestro/internal/core/safetext"
)

// ProblemsAttribute is the search attribute with which Temporal marks sessions whose workflow task keeps failing, after
// five failures. Servers before 1.30 do not.
const ProblemsAttribute = "TemporalReportedProblems"

// failuresOfStuck is how often a workflow task has to fail before people are told. A worker that was just replaced may
// fail one.
const failuresOfStuck = 2

// Stuck describes why the session makes no progress although it has workers: Temporal repeats its workflow task, which
// fails. It is empty if that is not so.
func (w *Reader) Stuck(ctx context.Context) (string, error) {
	d, err := w.description(ctx)
	if err != nil {
		return "", err
	}
	return w.stuck(ctx, d), nil
}

func (w *Reader) stuck(ctx context.Context, d *workflowservice.DescribeWorkflowExecutionResponse) string {
	failures := d.GetPendingWorkflowTask().GetAttempt() - 1
	if failures < failuresOfStuck {
		return ""
	}
	return fmt.Sprintf("it makes no progress: its workflow task has failed %d times%s. Temporal repeats it; a worker of another "+
		"version may do it. "+
		"Otherwise `maestro cancel %s` ends the session, and `maestro resume %s` continues it from its last checkpoint", failures,
		w.taskFailure(ctx), w.Session, w.Session)
}

// taskFailure is the recorded failure of the workflow task, after a colon; empty if it cannot be read.
func (w *Reader) taskFailure(ctx context.Context) string {
	page, err := w.Conn.WorkflowService().GetWorkflowExecutionHistoryReverse(ctx,
		&workflowservice.GetWorkflowExecutionHistoryReverseRequest{
			Namespace: w.Conn.Namespace, Execution: &commonpb.WorkflowExecution{WorkflowId: w.Session}, MaximumPageSize: 20,
		})
	if err != nil {
		return ""
	}
	for _, e := range page.GetHistory().GetEvents() {
		if failed := e.GetWorkflowTaskFailedEventAttributes(); failed != nil {
			return fmt.Sprintf(": %s (%s)", strings.TrimSuffix(safetext.Clip(failed.GetFailure().GetMessage(), 300), "."),
				failed.GetCause())
		}
		if e.GetWorkflowTaskTimedOutEventAttributes() != nil {
			return ": it timed out"
		}
	}
	return ""
}
