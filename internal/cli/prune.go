package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/cmdline"
	"github.com/maestro-hive/maestro/internal/entityworkflow"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/temporalutil"
	"github.com/maestro-hive/maestro/internal/terminal"
	"github.com/maestro-hive/maestro/internal/textfmt"
	"github.com/maestro-hive/maestro/workflows"
)

// scheduleOff is the --schedule that ends a schedule.
const scheduleOff = "off"

// leastSchedule is the shortest time between two prunes.
const leastSchedule = time.Minute

// pruneFlags are what `checkpoints prune` is a usage error.
type pruneFlags struct {
	keep      int
	olderThan time.Duration
	dryRun    bool
	schedule  string
}

func newCheckpointsPrune(a *app) *cobra.Command {
	var f pruneFlags
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Remove old checkpoints of closed sessions, and unused blobs",
		Long: "Remove the working directories of ended sessions, old checkpoints of closed sessions, and unused blobs. " +
			"Everything that a kept checkpoint, a record or an open session needs stays, and so does every blob younger than a day. " +
			"Sessions may run at the same time.\n\n" +
			"With --schedule DURATION, a Temporal Schedule prunes at that interval on the store's workers; --schedule off removes the schedule.",
		Args: cmdline.Arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(cmd.Flags().Changed); err != nil {
				return err
			}
			if f.schedule != "" {
				return a.schedulePrune(cmd.Context(), f, cmd.Flags().Changed)
			}
			return a.prune(cmd.Context(), f)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&f.keep, "keep", store.DefaultKeep, "newest checkpoints to keep of each session")
	flags.DurationVar(&f.olderThan, "older-than", store.DefaultOlderThan, "keep checkpoints younger than this")
	flags.BoolVar(&f.dryRun, "dry-run", false, "only list what would be removed")
	flags.StringVar(&f.schedule, "schedule", "", "prune at this interval from now on, like 24h; off removes the schedule")
	a.addSessionFlags(cmd)
	return cmd
}

func (f pruneFlags) check(given func(string) bool) error {
	switch {
	case f.keep < 1:
		return usagef("--keep: %d is less than 1; a session is resumed from its newest checkpoint", f.keep)
	case f.olderThan <= 0:
		return usagef("--older-than: %s is not positive; give a duration like 168h", f.olderThan)
	case f.schedule != "" && f.dryRun:
		return usagef("--dry-run and --schedule exclude each other; leave one out")
	case f.schedule == scheduleOff && (given("keep") || given("older-than")):
		return usagef("--schedule off excludes --keep and --older-than")
	}
	return nil
}

func (a *app) prune(ctx context.Context, f pruneFlags) error {
	s, conn, err := a.storeAndTemporal(ctx, a.openStoreToWrite)
	if err != nil {
		return err
	}
	defer conn.Close()
	open, err := temporalutil.OpenSessions(ctx, conn, conn.Namespace, workflows.TeamSessionName, spec.WorkflowQueue(s.ID()))
	if err != nil {
		return err
	}
	report, err := s.Prune(ctx, session.PruneOptions{
		Keep: f.keep, OlderThan: f.olderThan, DryRun: f.dryRun, Namespace: conn.Namespace, Running: open,
	})
	if errors.Is(err, store.ErrPruning) {
		return failf("another process is pruning the store in %s; try again when it has finished", s.Dir())
	}
	if err != nil {
		return failf("%w", err)
	}
	return a.result(report, func() { a.writePruned(report) })
}

func (a *app) writePruned(r session.PruneReport) {
	did := "removed"
	if r.DryRun {
		did = "would be removed"
	}
	if len(r.Pruned)+len(r.Spared) > 0 {
		t := terminal.NewTable(a.palette)
		t.Head("SESSION", "CHECKPOINTS", "")
		for _, p := range r.Pruned {
			t.Add(terminal.Plain(p.Session), terminal.Plain(fmt.Sprint(len(p.Checkpoints))), terminal.Plain(did))
		}
		for _, p := range r.Spared {
			t.Add(terminal.Plain(p.Session), terminal.Plain("-"), terminal.Painted("nothing removed: "+p.Reason, terminal.Dim))
		}
		t.Write(a.env.Stdout)
		a.print("")
	}
	a.print("%s checked: %s, %s (%s) and the working directories of %s %s; %s kept", textfmt.Count(r.Sessions, "session"),
		textfmt.Count(r.Checkpoints, "checkpoint"), textfmt.Count(r.Blobs, "blob"), textfmt.Size(r.Bytes), textfmt.Count(r.WorkDirs, "session"), did,
		textfmt.Count(r.Kept, "checkpoint"))
}

// pruneScheduled is the document of `checkpoints prune --schedule -o json`.
type pruneScheduled struct {
	// Schedule is the id of the schedule; Every is empty where it was ended.
	Schedule string `json:"schedule"`
	Every    string `json:"every"`
}

// schedulePrune makes, changes or ends the schedule that prunes the store.
func (a *app) schedulePrune(ctx context.Context, f pruneFlags, given func(string) bool) error {
	every, err := time.ParseDuration(f.schedule)
	if f.schedule != scheduleOff && (err != nil || every < leastSchedule) {
		return usagef("--schedule: %q is neither a duration of at least %s, like 24h, nor off", f.schedule, leastSchedule)
	}
	s, conn, err := a.storeAndTemporal(ctx, a.openStore)
	if err != nil {
		return err
	}
	defer conn.Close()
	doc := pruneScheduled{Schedule: workflows.PruneID(s.ID())}
	said := fmt.Sprintf("the schedule of store %s is removed", s.ID())
	if f.schedule == scheduleOff {
		err = conn.ScheduleClient().GetHandle(ctx, doc.Schedule).Delete(ctx)
		if temporalutil.NotFound(err) {
			err = nil
		}
	} else {
		in := activities.PruneInput{Store: s.ID()}
		if given("keep") {
			in.Keep = f.keep
		}
		if given("older-than") {
			in.OlderThan = textfmt.Duration(f.olderThan)
		}
		doc.Every = every.String()
		said = fmt.Sprintf("the store %s is pruned every %s by schedule %s", s.ID(), every, doc.Schedule)
		err = putSchedule(ctx, conn.ScheduleClient(), every, in)
	}
	if err != nil {
		return err
	}
	return a.result(doc, func() { a.print("%s", said) })
}

// putSchedule makes the schedule, or changes the one that is missing.
func putSchedule(ctx context.Context, schedules client.ScheduleClient, every time.Duration, in activities.PruneInput) error {
	id := workflows.PruneID(in.Store)
	given := client.ScheduleSpec{Intervals: []client.ScheduleIntervalSpec{{Every: every}}}
	action := &client.ScheduleWorkflowAction{
		ID: id, Workflow: workflows.PruneStoreName, Args: []any{in}, TaskQueue: spec.WorkflowQueue(in.Store),
		WorkflowTaskTimeout: entityworkflow.WorkflowTaskTimeout, StaticSummary: "prune the store " + in.Store,
	}
	_, err := schedules.Create(ctx, client.ScheduleOptions{
		ID: id, Spec: given, Action: action, Note: "created by `maestro checkpoints prune --schedule`",
	})
	if !errors.Is(err, temporal.ErrScheduleAlreadyRunning) {
		return err
	}
	return schedules.GetHandle(ctx, id).Update(ctx, client.ScheduleUpdateOptions{
		DoUpdate: func(old client.ScheduleUpdateInput) (*client.ScheduleUpdate, error) {
			changed := old.Description.Schedule
			changed.Spec, changed.Action = &given, action
			return &client.ScheduleUpdate{Schedule: &changed}, nil
		},
	})
}
