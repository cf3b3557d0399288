package activities

import (
	"context"
	"slices"

	"go.temporal.io/sdk/activity"

	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// writeStatus writes the status of a boundary to the session's status document, unless the
// document is of a later one. Costs are not written: the ledger has them. It returns the
// document before the change. It is the only writer of the document.
func writeStatus(sessions Sessions, info activity.Info, b Boundary) (before session.Execution, err error) {
	err = sessions.UpdateExecution(sessionKey(info), func(e *session.Execution) {
		if before = *e; e.IsPast(b.Status.Incarnation, b.At) {
			return
		}
		decisions := e.Decisions
		e.Status, e.BoundaryAt = b.Status.WithoutCosts(), b.At
		if e.Decisions == nil { // only the steps that change them have them
			e.Decisions = decisions
		}
		e.RunID, e.OriginalRun, e.FirstRun, e.Course = info.WorkflowExecution.RunID, b.OriginalRun, b.FirstRun, b.Course
	})
	return before, err
}

// write writes the status of a boundary, and reports the requests that are new in it.
func (b *Boundaries) write(ctx context.Context, at Boundary) error {
	before, err := writeStatus(b.Sessions, activity.GetInfo(ctx), at)
	if err != nil {
		return err
	}
	for _, r := range at.Status.Help {
		if slices.ContainsFunc(before.Help, func(known session.Request) bool { return known.ID == r.ID }) {
			continue
		}
		logRequest(ctx, r)
		if r.Kind == session.ForHelp {
			observerOrNone(b.Observer).HelpRequested(r.Category)
		}
	}
	return nil
}

// failed returns the error of a boundary. It is retried after a wait if the store cannot be
// used.
func (b *Boundaries) failed(ctx context.Context, err error) error {
	if err != nil && !isPermanent(err) {
		attempt := int(activity.GetInfo(ctx).Attempt)
		observerOrNone(b.Observer).StoreWaited(spec.Backoff(textfmt.Duration(storeWait), textfmt.Duration(storeWaitMax), attempt).Std())
	}
	return storeError(err)
}

// end sets the state in the status of a boundary at which the session ends.
func (at *Boundary) end(state session.State) {
	at.Status.Status, at.Status.ClosedAt = state, &at.At
}
