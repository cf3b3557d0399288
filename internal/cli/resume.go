package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/maestro-hive/maestro/internal/cmdline"
	"github.com/maestro-hive/maestro/internal/config"
	"github.com/maestro-hive/maestro/internal/control"
	"github.com/maestro-hive/maestro/internal/launch"
	"github.com/maestro-hive/maestro/internal/safetext"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/sessionstatus"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/temporalutil"
	"github.com/maestro-hive/maestro/workflows"
)

// resumeCommand is `resume`.
type resumeCommand struct {
	*app
	team   string
	force  []string
	course courseFlags
	edits  []string
	watch  bool
}

// changes reports whether the flags change more than resuming does.
func (c *resumeCommand) changes() bool {
	return c.team != "" || len(c.force)+len(c.edits)+len(c.course.pauseAfter) > 0 || c.course.given()
}

func newResume(a *app) *cobra.Command {
	c := resumeCommand{app: a}
	cmd := &cobra.Command{
		Use:   "resume SESSION",
		Short: "Resume a session that is paused, failed, cancelled, or lost by Temporal",
		Long: "Resume a session. One that is paused after a phase of --pause-after continues; one that has ended, or that Temporal no longer has, starts again from the store.\n\n" +
			"Finished work is restored and not done again, unless its inputs have changed: the persona, its agent or model, its instructions, the requirement, its input files, earlier decisions. The command prints what is restored, what runs, and why.",
		Example: "  maestro resume web-20261121-abcdef --watch\n  maestro resume web-20261121-abcdef --team team.yaml --force testing\n" +
			"  maestro resume web-20261121-abcdef --edit design=edited/",
		Args: cmdline.Arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args[0]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&c.team, "team", "", "team file to continue with (default: the session's team)")
	flags.StringSliceVar(&c.force, "force", nil, "run these phases, and those that depend on them, although they are finished")
	flags.StringArrayVar(&c.edits, "edit", nil, "PHASE=PATH: replace files of the phase's work with those of a directory, or one file; dependent phases run again; repeatable")
	c.course.add(cmd)
	flags.BoolVar(&c.watch, "watch", false, "follow the session until it ends, and exit with its outcome")
	a.addPlainFlag(flags)
	a.addSessionFlags(cmd)
	return cmd
}

func (c *resumeCommand) run(ctx context.Context, sessionID string) error {
	if err := spec.CheckSession(sessionID); err != nil {
		return usagef("%w", err)
	}
	conn, err := c.dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	info, err := (&sessionstatus.Watcher{Conn: conn, Session: sessionID, Now: c.env.Now}).Describe(ctx)
	if err != nil && !errors.Is(err, sessionstatus.ErrUnknown) {
		return err
	}
	if info.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return c.resumeRunning(ctx, conn, sessionID)
	}
	s, key, err := c.storedToWrite(sessionID)
	if err != nil {
		return err
	}
	if owner := sessionstatus.Memo[string](info, workflows.MemoStore); owner != "" && owner != s.ID() {
		return usagef("session %s belongs to store %s, not to the store in %s (%s); give its --state-dir", sessionID, owner, s.Dir(), s.ID())
	}
	next, left, err := c.restoration(ctx, s, key)
	if err != nil || !left {
		return err
	}
	l := starter{c.app, launch.Launcher{Conn: conn, Store: s, Now: c.env.Now}}
	if err := l.check(ctx, next); err != nil {
		return err
	}
	return l.start(ctx, next, c.watch)
}

// restoration prepares the next incarnation of a session that has ended; left is false if
// there is nothing left to do.
func (c *resumeCommand) restoration(ctx context.Context, s *store.Store, key session.Key) (next launch.Session, left bool, err error) {
	found, err := lastGood(ctx, c.console, s, key)
	if err != nil {
		return next, false, err
	}
	t, err := teamOf(ctx, s, found.Checkpoint, c.team)
	if err != nil {
		return next, false, err
	}
	course, err := c.course.course(t)
	if err != nil {
		return next, false, err
	}
	course.Force = c.force
	if !c.changes() && found.Finished(t) {
		c.printErr("session %s is completed; nothing is left to run (--force PHASE runs a phase again)", key.Session)
		e := found.Execution
		return next, false, announce(c.console, runDocument{Session: key.Session, RunID: e.RunID, Store: s.ID(), Incarnation: e.Incarnation})
	}
	next, err = found.Next(key.Session, t, course)
	if err != nil {
		return next, false, usagef("%w; select phases with --only", err)
	}
	return next, true, suppliedFlags{edits: c.edits}.store(ctx, c.console, s, t, found.Checkpoint.Tree, &next.Course)
}

// lastGood finds what the store has of a session that is to go on. Damage is printed; the
// plan shows what has to run again.
func lastGood(ctx context.Context, out *console, s *store.Store, key session.Key) (launch.Stored, error) {
	found, err := launch.LastGood(ctx, s, key)
	for _, f := range found.Faults {
		out.printErr("damaged: %s", strings.ReplaceAll(f.Error(), "\n", "\n  "))
	}
	var none *launch.NoCheckpointError
	if errors.As(err, &none) {
		err = errors.Join(failf("session %s has no readable checkpoint and cannot be resumed; start a new session with `maestro run`", key.Session), none.Cause)
	}
	return found, err
}

// teamOf loads the team: that of a file or, without one, that of
// the checkpoint.
func teamOf(ctx context.Context, s *store.Store, from store.StoredCheckpoint, file string) (spec.Team, error) {
	if file != "" {
		return config.LoadTeam(file)
	}
	t, err := launch.TeamOf(ctx, s, from)
	if err != nil {
		return t, failf("%w; give its file with --team", err)
	}
	return t, nil
}

// resumeRunning continues a running session that is paused.
func (c *resumeCommand) resumeRunning(ctx context.Context, conn *temporalutil.Connection, sessionID string) error {
	w := &sessionstatus.Watcher{Conn: conn, Session: sessionID, Now: c.env.Now}
	var err error
	if w.Store, err = c.findStore(); err != nil {
		return err
	}
	v, err := w.Look(ctx)
	if err != nil {
		return c.explainLook(ctx, w, err)
	}
	if c.changes() {
		return usagef("session %s has not ended (%s), so its work cannot be changed; cancel it first: %s", sessionID, v.Status.Status, c.commandLine("cancel "+sessionID))
	}
	if s := w.Query(ctx); s != nil { // also from other stores
		v.Phases, v.Help = s.Phases, s.Help
	}
	parked := c.pausedAfter(ctx, w, v)
	for _, phase := range parked {
		if err := c.sendContinue(ctx, conn, sessionID, phase); err != nil {
			return err
		}
	}
	if len(parked) == 0 {
		if len(v.Help) > 0 {
			return c.checkNoOpenRequest(sessionID, v.Help)
		}
		c.printErr("session %s is already running; nothing was changed", sessionID)
	}
	doc := runDocument{Session: sessionID, RunID: v.RunID, Incarnation: v.Incarnation}
	if w.Store != nil {
		doc.Store = w.Store.ID()
	}
	if err := announce(c.console, doc); err != nil || !c.watch {
		return err
	}
	return c.follow(ctx, w)
}

// pausedAfter lists the phases after which the session is paused only because it
// was started with --pause-after. A phase that the team wants approved is not among
// them: that takes `approve`.
func (c *resumeCommand) pausedAfter(ctx context.Context, w *sessionstatus.Watcher, v sessionstatus.Session) []string {
	var parked []string
	for _, p := range v.Phases {
		asked := slices.ContainsFunc(v.Help, func(h session.Request) bool { return h.Kind.OfPhase() && h.Phase == p.Name })
		if p.Status == session.AwaitingApproval && (!asked || !c.needsApproval(ctx, w, p.Name)) {
			parked = append(parked, p.Name)
		}
	}
	return parked
}

// needsApproval reports whether a session's team has a phase approved. Where the
// session's store is not at hand, it may.
func (c *resumeCommand) needsApproval(ctx context.Context, w *sessionstatus.Watcher, phase string) bool {
	if w.Store == nil {
		return true
	}
	newest, err := c.newest(ctx, w.Store, w.Key())
	if err != nil {
		return true
	}
	t, err := teamOf(ctx, w.Store, newest, "")
	if err != nil {
		return true
	}
	p, ok := t.Phase(phase)
	return !ok || p.Approve.Wanted()
}

// checkNoOpenRequest rejects resuming a session that waits for an answer,
// and names the commands that answer it.
func (c *resumeCommand) checkNoOpenRequest(sessionID string, open []session.Request) error {
	var b strings.Builder
	for _, h := range open {
		fmt.Fprintf(&b, "\n%s %s: %s", h.Subject(), h.Need(), safetext.Clip(messageOf(h), 200))
		if answer := c.firstCommand(sessionID, h, open); answer != "" {
			fmt.Fprintf(&b, "\n  answer with: %s", answer)
		}
	}
	return usagef("session %s is running and waits for an answer, which `resume` cannot give:%s", sessionID, &b)
}

// sendContinue continues a paused session.
func (c *resumeCommand) sendContinue(ctx context.Context, conn *temporalutil.Connection, sessionID, phase string) error {
	answered, err := control.Requests{Base: c.base(conn, nil, conn.Namespace)}.Continue(ctx, sessionID, phase)
	switch {
	case err != nil:
		return err
	case answered:
		c.printErr("session %s continues after phase %s", sessionID, phase)
	default:
		c.printErr("no worker answered within %s; session %s continues after phase %s as soon as one does", control.AnswerTimeout, sessionID, phase)
	}
	return nil
}
