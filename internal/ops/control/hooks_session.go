package control

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/delivery"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/ops/hook"
	"github.com/maestro-hive/maestro/internal/ops/sessionstatus"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
	"github.com/maestro-hive/maestro/internal/store/state"
	"github.com/maestro-hive/maestro/workflows"
)

// maxOfIssue bounds the sessions that a hook starts for one issue, one after the other.
const maxOfIssue = 100

// place finds the session that a call has started before (again), or another one that works on the same issue (taken), or
// else the id of the next one. The ids are computed, so that of calls at once, also at several servers, one starts it.
func (r *Receiver) place(ctx context.Context, d Delivery, in hook.Start) (id string, again, taken bool, err error) {
	subject, comment := cmp.Or(in.Subject, d.identity), in.Labels[hook.LabelComment]
	for n := range maxOfIssue {
		id = hook.SessionID(d.hook, subject+strings.Repeat(" again", n))
		switch {
		case r.teamName(ctx, id) != d.hook.TeamName():
			return id, false, false, nil
		case comment == "": // GitHub sends opened and labeled for an issue that is opened with a label
			return id, true, false, nil
		}
		by, ended, err := r.startedBy(ctx, id)
		if err != nil || by == comment || !ended {
			return id, by == comment, !ended, err
		}
	}
	return id, false, false, conflictf(id, "hook %s has started %d sessions for this issue; open another issue", d.hook.Name,
		maxOfIssue)
}

// startedBy returns the comment that has started a session, and whether the session has ended.
func (r *Receiver) startedBy(ctx context.Context, sessionID string) (comment string, ended bool, err error) {
	w, err := r.reader(sessionID)
	if err != nil {
		return "", false, err
	}
	info, err := r.describeRunning(ctx, w)
	comment = sessionstatus.Memo[map[string]string](info, workflows.MemoLabels)[hook.LabelComment]
	why := ProblemOf(err).Reason
	if why == Lost { // it ended long ago, or is to be resumed
		stored, err := r.Store.State.Execution(ctx, w.Key())
		return stored.Labels[hook.LabelComment], stored.Status.Status.Closed(), err
	}
	if why == Ended {
		return comment, true, nil
	}
	return comment, false, err
}

// wakeNews wakes the session of the hook's team that waits for the pull request that a call is about.
func (r *Receiver) wakeNews(ctx context.Context, d Delivery, n hook.News, otherwise string) (doc Delivered, err error) {
	var rows []state.Delivery
	if n.Number > 0 {
		rows, err = r.Store.State.DeliveriesTo(ctx, r.Namespace, n.Repository, n.Number)
	}
	for i := 0; err == nil && len(rows) == 0 && i < len(n.Branches); i++ {
		rows, err = r.Store.State.Deliveries(ctx, r.key(delivery.SessionOf(n.Branches[i])))
		rows = slices.DeleteFunc(rows, func(row state.Delivery) bool {
			return row.Repository != n.Repository || row.Branch != n.Branches[i]
		})
	}
	if err != nil {
		return doc, err
	}
	return r.wake(ctx, d, rows, otherwise)
}

// wakeSession wakes a session that works on the issue of a call, if it delivers.
func (r *Receiver) wakeSession(ctx context.Context, d Delivery, id string) (doc Delivered, err error) {
	rows, err := r.Store.State.Deliveries(ctx, r.key(id))
	if err != nil {
		return doc, err
	}
	return r.wake(ctx, d, rows, fmt.Sprintf("session %s works on this issue, and has not ended", id))
}

// wake has the sessions of deliveries look at their pull requests now. otherwise is the answer if it wakes none.
func (r *Receiver) wake(ctx context.Context, d Delivery, rows []state.Delivery, otherwise string) (doc Delivered, err error) {
	doc.Hook, doc.Ignored = d.hook.Name, otherwise
	for _, row := range rows {
		if row.State == session.PullMerged || r.teamName(ctx, row.Session) != d.hook.TeamName() {
			continue
		}
		conn, err := r.connected()
		if err != nil {
			return doc, err
		}
		news := workflows.PullRequestNews{Phase: row.Phase}
		err = conn.SignalWorkflow(ctx, row.Session, "", workflows.PullRequestSignal, news)
		switch {
		case temporalutil.NotFound(err):
			doc.Ignored = fmt.Sprintf("session %s has ended", row.Session)
		case err != nil:
			return doc, err
		default:
			doc.Woken = row.Session
		}
	}
	if doc.Woken != "" {
		doc.Ignored = ""
	}
	return doc, nil
}
