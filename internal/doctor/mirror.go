package doctor

import (
	"context"

	"github.com/maestro-hive/maestro/internal/sessionstatus"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/temporalutil"
	"github.com/maestro-hive/maestro/internal/textfmt"
	"github.com/maestro-hive/maestro/workflows"
)

// mirrors checks whether the mirrored state of running sessions is up to date.
func (d *examination) mirrors(ctx context.Context, conn *temporalutil.Connection) {
	if d.store == nil {
		return
	}
	open, err := temporalutil.OpenSessions(ctx, conn, conn.Namespace, workflows.TeamSessionName, spec.WorkflowQueue(d.store.ID()))
	if err != nil {
		d.add("mirror", Warning, "", "running sessions cannot be listed: %s", textfmt.FirstLine(err.Error()))
		return
	}
	behind := 0
	for key := range open {
		w := &sessionstatus.Watcher{Conn: conn, Store: d.store, Session: key.Session, Now: d.options.Now}
		lags, err := w.Lags(ctx)
		if err != nil {
			continue // it may have ended since
		}
		for _, what := range lags {
			behind++
			d.add("mirror", Warning, "see that "+d.store.Dir()+" is writable and has free space", "session %s: %s", key.Session, what)
		}
	}
	if behind == 0 {
		d.add("mirror", OK, "", "up to date with %s", textfmt.Count(len(open), "running session"))
	}
}
