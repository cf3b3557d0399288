package doctor

import (
	"context"

	"github.com/maestro-hive/maestro/internal/sessionstatus"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/temporalutil"
	"github.com/maestro-hive/maestro/internal/textfmt"
	"github.com/maestro-hive/maestro/workflows"
)

// storeWaits checks whether running sessions wait for the store.
func (d *examination) storeWaits(ctx context.Context, conn *temporalutil.Connection) {
	const check = "store writes"
	if d.store == nil {
		return
	}
	open, err := temporalutil.OpenSessions(ctx, conn, conn.Namespace, workflows.TeamSessionName, spec.WorkflowQueue(d.store.ID()))
	if err != nil {
		d.add(check, Warning, "", "running sessions cannot be listed: %s", textfmt.FirstLine(err.Error()))
		return
	}
	waiting := 0
	for key := range open {
		w := &sessionstatus.Watcher{Conn: conn, Store: d.store, Session: key.Session, Now: d.options.Now}
		wait, err := w.StoreWait(ctx)
		if err != nil || wait == "" { // it may have ended since
			continue
		}
		waiting++
		d.add(check, Warning, "see that "+d.store.Dir()+" is writable and has free space", "session %s: %s", key.Session, wait)
	}
	if waiting == 0 {
		d.add(check, OK, "", "none of %s waits for the store", textfmt.Count(len(open), "running session"))
	}
}
