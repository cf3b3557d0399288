package cli

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/team"
	"github.com/maestro-hive/maestro/internal/temporalio"
)

// watchEvery is how often a watched session is looked at.
const watchEvery = time.Second

func newWatch(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "watch SESSION",
		Short: "Follow a session until it ends, and exit with its outcome",
		Long: "Follow a session until it ends or needs a person: a line for each change. The exit code is the session's outcome: " +
			"0 completed, 1 failed or cancelled, 3 help or approval awaited. Ctrl-C ends the watching, not the session.",
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			w, done, err := a.watch(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			defer done()
			return a.follow(cmd.Context(), w)
		},
	}
	a.addTemporalFlags(cmd)
	a.addStateDirFlag(cmd)
	cmd.ValidArgsFunction = a.completeSessions
	return cmd
}

// follow prints a line for each change of a session until it ends or parks, and
// returns its outcome as an exit code.
func (a *app) follow(ctx context.Context, w *watcher) error {
	v, err := a.track(ctx, w)
	if ctx.Err() != nil {
		a.say("session %s goes on; watch it again: %s", w.session, a.again("watch "+w.session))
		return exit(exitInterrupted)
	}
	if err != nil {
		return a.explainLook(w, err)
	}
	code := outcomeCode(v.Status.Status)
	if code != exitDone {
		a.reportFailure(v.Status)
	}
	return exit(code)
}

// track prints a session's changes until it ends, parks or ctx ends, and returns
// the last view. A lost connection is waited out.
func (a *app) track(ctx context.Context, w *watcher) (view, error) {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	var last view
	var said []string
	lost, known, unexplained := false, false, false
	for {
		v, err := w.look(ctx)
		switch {
		case ctx.Err() != nil:
			return last, ctx.Err()
		case err == nil:
			if lost {
				a.say("the connection is back")
			}
			lost, known = false, true
			said = a.tell(last.Status, v, said)
			last = v
			if settled(v.Status.Status) {
				// What a session waits for is mirrored a moment after that it waits.
				if v.Status.Status.Closed() || len(v.Help) > 0 || unexplained {
					return v, nil
				}
				unexplained = true
			}
		case !temporalio.Lost(err) && (!known || !errors.Is(err, errUnknown)):
			return last, err
		case !lost:
			lost = true
			a.say("lost the connection to Temporal at %s; trying again until it is back (the session is safe)", w.conn.Address)
		}
		select {
		case <-ctx.Done():
			return last, ctx.Err()
		case <-ticker.C:
		}
	}
}

// tell prints what has changed, and notes that have not been said already.
func (a *app) tell(before team.Status, now view, said []string) []string {
	stamp := a.paint.paint(dim, a.env.Now().Local().Format(time.TimeOnly))
	for _, line := range changes(a.paint, before, now.Status) {
		a.print("%s  %s", stamp, line)
	}
	for _, note := range now.Notes {
		if !slices.Contains(said, note) {
			a.say("%s", note)
		}
	}
	return now.Notes
}
