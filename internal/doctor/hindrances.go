package doctor

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/maestro-hive/maestro/internal/sessionstatus"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/temporalutil"
	"github.com/maestro-hive/maestro/internal/textfmt"
	"github.com/maestro-hive/maestro/workflows"
)

const (
	// sessionsPatience is how long running sessions are looked at, sessionsAtOnce of them at a time. It is less than lookPatience.
	sessionsPatience = 4 * time.Second
	sessionsAtOnce   = 16
)

// hindrances checks whether running sessions wait for the store or make no progress. Of very many, it looks at some.
func (d *examination) hindrances(ctx context.Context, conn *temporalutil.Connection) {
	const check = "store writes"
	if d.store == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, sessionsPatience)
	defer cancel()
	open, err := temporalutil.OpenSessions(ctx, conn, conn.Namespace, workflows.TeamSessionName, spec.WorkflowQueue(d.store.ID()))
	if err != nil {
		d.add(check, Warning, "", "running sessions cannot be listed: %s", textfmt.FirstLine(err.Error()))
		return
	}
	waits, stuck := map[string]string{}, map[string]string{}
	looked := 0
	var mu sync.Mutex
	var looks errgroup.Group
	looks.SetLimit(sessionsAtOnce)
	for key := range open {
		looks.Go(func() error {
			w := &sessionstatus.Watcher{Conn: conn, Store: d.store, Session: key.Session, Now: d.options.Now}
			wait, why, err := w.Hindrances(ctx)
			mu.Lock()
			defer mu.Unlock()
			if ctx.Err() == nil {
				looked++
			}
			if err == nil && wait != "" { // otherwise it may have ended since
				waits[key.Session] = wait
			}
			if why != "" {
				stuck[key.Session] = why
			}
			return nil
		})
	}
	_ = looks.Wait() // never fails
	for _, id := range slices.Sorted(maps.Keys(waits)) {
		d.add(check, Warning, "see that "+d.store.Dir()+" is writable and has free space", "session %s: %s", id, waits[id])
	}
	for _, id := range slices.Sorted(maps.Keys(stuck)) {
		d.add("session progress", Bad, "see the workers' logs", "session %s: %s", id, stuck[id])
	}
	all := textfmt.Count(len(open), "running session")
	switch {
	case looked < len(open):
		d.add(check, Warning, "", "only %d of %s answered within %s", looked, all, sessionsPatience)
	case len(waits) == 0:
		d.add(check, OK, "", "none of %s waits for the store", all)
	}
}
