package sessionstatus

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// storeWait describes why a step between phases waits for the store, or a merge for its machine;
// empty if none does.
func storeWait(f facts) string {
	for _, p := range f.description.GetPendingActivities() {
		switch activities.Name(p.GetActivityType().GetName()) {
		case activities.AdmitName, activities.AdvanceName, activities.WriteStatusName, activities.ReworkName, activities.RaiseName,
			activities.CloseName,
			activities.StoreValueName, activities.ReadValueName:
			if failure := p.GetLastFailure(); failure != nil {
				return activities.StoreWaitProgress + textfmt.FirstLine(failure.GetMessage())
			}
		case activities.MergeName:
			if failure := p.GetLastFailure(); failure != nil {
				return fmt.Sprintf("the merge waits: %s", textfmt.FirstLine(failure.GetMessage()))
			}
		default: // rounds report it themselves
		}
	}
	return ""
}

// Hindrances describes why the session waits for the store, and why it makes no progress although it has workers; empty:
// it does not wait, and makes progress.
func (w *Reader) Hindrances(ctx context.Context) (store, stuck string, err error) {
	d, err := w.description(ctx)
	if err != nil {
		return "", "", err
	}
	f := facts{description: d}
	return cmp.Or(storeWait(f), roundStoreWait(f)), w.stuck(ctx, d), nil
}

// roundStoreWait describes what a round at work waits for at the store; empty where none does.
func roundStoreWait(f facts) string {
	for _, p := range f.description.GetPendingActivities() {
		if activities.Name(p.GetActivityType().GetName()) != activities.RoundName {
			continue
		}
		if h, beaten := heartbeat(p); beaten && strings.HasPrefix(h.Progress, activities.StoreWaitProgress) {
			return fmt.Sprintf("%s: %s", assignmentOf(p.GetActivityId()), textfmt.FirstLine(h.Progress))
		}
	}
	return ""
}
