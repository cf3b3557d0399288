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
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/platform/entityworkflow"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
	"github.com/maestro-hive/maestro/internal/sandbox/workdir"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/workflows"
)

// scheduleOff is the --schedule that ends a schedule.
const scheduleOff = "off"

// leastSchedule is the shortest time between two prunes.
const leastSchedule = time.Minute

// pruneCommand is `checkpoints prune`.
type pruneCommand struct {
	*app
	// given reports whether a flag was given.
	given     func(flag string) bool
	keep      int
	olderThan time.Duration
	dryRun    bool
	schedule  string
}

func newCheckpointsPrune(a *app) *cobra.Command {
	c := pruneCommand{app: a}
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Remove old checkpoints of closed sessions, and unused blobs",
		Long: "Remove the working directories of ended sessions, old checkpoints of closed sessions, and unused blobs. " +
			"Everything that a kept checkpoint, a record or an open session needs stays, and so does every blob younger than a day. " +
			"Sessions may run at the same time.\n\n" +
			"With --schedule DURATION, a Temporal Schedule prunes at that interval on the store's workers; --schedule off removes the " +
			"schedule.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.given = cmd.Flags().Changed
			if err := c.check(); err != nil {
				return err
			}
			if c.schedule != "" {
				return c.setSchedule(cmd.Context())
			}
			return c.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&c.keep, "keep", store.DefaultKeep, "newest checkpoints to keep of each session")
	flags.DurationVar(&c.olderThan, "older-than", store.DefaultOlderThan, "keep checkpoints younger than this")
	flags.BoolVar(&c.dryRun, "dry-run", false, "only list what would be removed")
	flags.StringVar(&c.schedule, "schedule", "", "prune at this interval from now on, like 24h; off removes the schedule")
	cmd.MarkFlagsMutuallyExclusive("dry-run", "schedule")
	return a.addSessionFlags(cmd)
}

func (c *pruneCommand) check() error {
	switch {
	case c.keep < 1:
		return usagef("--keep: %d is less than 1; a session is resumed from its newest checkpoint", c.keep)
	case c.olderThan <= 0:
		return usagef("--older-than: %s is not positive; give a duration like 168h", c.olderThan)
	case c.schedule == scheduleOff && (c.given("keep") || c.given("older-than")):
		return usagef("--schedule off excludes --keep and --older-than")
	}
	return nil
}

func (c *pruneCommand) run(ctx context.Context) error {
	base, done, err := c.temporalBase(c.openStore)(ctx)
	if err != nil {
		return err
	}
	defer done()
	s, conn := base.Store, base.Temporal()
	open, err := temporalutil.OpenSessions(ctx, conn, conn.Namespace, workflows.TeamSessionName, spec.WorkflowQueue(s.ID()))
	if err != nil {
		return err
	}
	report, err := s.Prune(ctx, session.PruneOptions{
		Keep: c.keep, OlderThan: c.olderThan, DryRun: c.dryRun, Namespace: conn.Namespace, Running: open, WorkDirs: workDirs(s),
	})
	if errors.Is(err, store.ErrPruning) {
		return failf("another process is pruning the store in %s; try again when it has finished", s.Dir())
	}
	if err != nil {
		return failf("%w", err)
	}
	return c.result(report, func() { c.write(report) })
}

// workDirs are the directories on this host in which agents work: as their worker's user, or as that of run_as.
func workDirs(s *store.Store) []session.PrunableDirs {
	return []session.PrunableDirs{
		workdir.New(workdir.Options{Root: workdir.DefaultRoot(s.Dir())}),
		workdir.New(workdir.Options{Root: workdir.SharedRoot(s.Dir())}),
	}
}

func (c *pruneCommand) write(r session.PruneReport) {
	did := "removed"
	if r.DryRun {
		did = "would be removed"
	}
	if len(r.Pruned)+len(r.Spared) > 0 {
		t := c.table("SESSION", "CHECKPOINTS", "")
		for _, p := range r.Pruned {
			t.Add(p.Session, len(p.Checkpoints), did)
		}
		for _, p := range r.Spared {
			t.Add(p.Session, "-", terminal.Painted("nothing removed: "+p.Reason, terminal.Dim))
		}
		t.Write(c.stdout)
		c.print("")
	}
	c.print("%s checked: %s, %s (%s) and the working directories of %s %s; %s kept", textfmt.Count(r.Sessions, "session"),
		textfmt.Count(r.Checkpoints, "checkpoint"), textfmt.Count(r.Blobs, "blob"), textfmt.Size(r.Bytes),
		textfmt.Count(r.WorkDirs, "session"), did,
		textfmt.Count(r.Kept, "checkpoint"))
}

// pruneScheduled is the document of `checkpoints prune --schedule -o json`.
type pruneScheduled struct {
	// Schedule is the id of the schedule; Every is empty where it was ended.
	Schedule string `json:"schedule"`
	Every    string `json:"every"`
}

// setSchedule makes, changes or ends the schedule that prunes the store.
func (c *pruneCommand) setSchedule(ctx context.Context) error {
	every, err := time.ParseDuration(c.schedule)
	if c.schedule != scheduleOff && (err != nil || every < leastSchedule) {
		return usagef("--schedule: %q is neither a duration of at least %s, like 24h, nor off", c.schedule, leastSchedule)
	}
	base, done, err := c.temporalBase(c.openStore)(ctx)
	if err != nil {
		return err
	}
	defer done()
	s, conn := base.Store, base.Temporal()
	doc := pruneScheduled{Schedule: workflows.PruneID(s.ID())}
	said := fmt.Sprintf("the schedule of store %s is removed", s.ID())
	if c.schedule == scheduleOff {
		err = conn.ScheduleClient().GetHandle(ctx, doc.Schedule).Delete(ctx)
		if temporalutil.NotFound(err) {
			err = nil
		}
	} else {
		in := activities.PruneInput{Store: s.ID()}
		if c.given("keep") {
			in.Keep = c.keep
		}
		if c.given("older-than") {
			in.OlderThan = textfmt.Duration(c.olderThan)
		}
		doc.Every = every.String()
		said = fmt.Sprintf("the store %s is pruned every %s by schedule %s", s.ID(), every, doc.Schedule)
		err = putSchedule(ctx, conn.ScheduleClient(), every, in)
	}
	if err != nil {
		return err
	}
	return c.result(doc, func() { c.print("%s", said) })
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
