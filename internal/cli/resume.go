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
	"github.com/maestro-hive/maestro/internal/launch"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/sessionstatus"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/temporalutil"
	"github.com/maestro-hive/maestro/internal/terminal"
	"github.com/maestro-hive/maestro/workflows"
)

// resumeOptions are the flags of `resume`.
type resumeOptions struct {
	team   string
	force  []string
	course courseFlags
	edits  []string
	watch  bool
}

// changes reports whether the flags change more than resuming does.
func (o resumeOptions) changes() bool {
	return o.team != "" || len(o.force)+len(o.edits)+len(o.course.pauseAfter) > 0 || o.course.given()
}

func newResume(a *app) *cobra.Command {
	var o resumeOptions
	cmd := &cobra.Command{
		Use:   "resume SESSION",
		Short: "Resume a session that is paused, failed, cancelled, or lost by Temporal",
		Long: "Resume a session. One that is paused after a phase of --pause-after continues; one that has ended, or that Temporal no longer has, starts again from the store.\n\n" +
			"Finished work is restored and not done again, unless its inputs have changed: the persona, its agent or model, its instructions, the requirement, its input files, earlier decisions. The command prints what is restored, what runs, and why.",
		Example: "  maestro resume web-20261121-abcdef --watch\n  maestro resume web-20261121-abcdef --team team.yaml --force testing\n" +
			"  maestro resume web-20261121-abcdef --edit design=edited/",
		Args: cmdline.Arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.resume(cmd.Context(), o, args[0]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.team, "team", "", "team file to continue with (default: the session's team)")
	flags.StringSliceVar(&o.force, "force", nil, "run these phases, and those that depend on them, although they are finished")
	flags.StringArrayVar(&o.edits, "edit", nil, "PHASE=PATH: replace files of the phase's work with those of a directory, or one file; dependent phases run again; repeatable")
	o.course.add(cmd)
	flags.BoolVar(&o.watch, "watch", false, "follow the session until it ends, and exit with its outcome")
	a.addPlainFlag(flags)
	a.addSessionFlags(cmd)
	return cmd
}

func (a *app) resume(ctx context.Context, o resumeOptions, sessionID string) error {
	if err := spec.CheckSession(sessionID); err != nil {
		return usagef("%w", err)
	}
	conn, err := a.dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	info, err := a.sessionInfo(ctx, conn, sessionID)
	if err != nil {
		return err
	}
	if info.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return a.resumeRunning(ctx, conn, o, sessionID)
	}
	s, key, err := a.storedToWrite(sessionID)
	if err != nil {
		return err
	}
	if owner := sessionstatus.Memo[string](info, workflows.MemoStore); owner != "" && owner != s.ID() {
		return usagef("session %s belongs to store %s, not to the store in %s (%s); give its --state-dir", sessionID, owner, s.Dir(), s.ID())
	}
	next, left, err := a.restoration(ctx, s, key, o)
	if err != nil || !left {
		return err
	}
	l := starter{a, launch.Launcher{Conn: conn, Store: s, Now: a.env.Now}}
	if err := l.check(ctx, next); err != nil {
		return err
	}
	return l.start(ctx, next, o.watch)
}

// restoration prepares the next incarnation of a session that has ended; left is false if
// there is nothing left to do.
func (a *app) restoration(ctx context.Context, s *store.Store, key session.Key, o resumeOptions) (next launch.Session, left bool, err error) {
	found, err := a.lastGood(ctx, s, key)
	if err != nil {
		return next, false, err
	}
	t, err := a.teamOf(ctx, s, found.Checkpoint, o.team)
	if err != nil {
		return next, false, err
	}
	course, err := o.course.course(t)
	if err != nil {
		return next, false, err
	}
	course.Force = o.force
	if !o.changes() && found.Finished(t) {
		a.printErr("session %s is completed; nothing is left to run (--force PHASE runs a phase again)", key.Session)
		e := found.Execution
		return next, false, a.announce(runDocument{Session: key.Session, RunID: e.RunID, Store: s.ID(), Incarnation: e.Incarnation})
	}
	next, err = found.Next(key.Session, t, course)
	if err != nil {
		return next, false, usagef("%w; select phases with --only", err)
	}
	return next, true, a.supply(ctx, s, t, suppliedFlags{edits: o.edits}, found.Checkpoint.Tree, &next.Course)
}

// lastGood finds what the store has of a session that is to go on. Damage is printed; the
// plan shows what has to run again.
func (a *app) lastGood(ctx context.Context, s *store.Store, key session.Key) (launch.Stored, error) {
	found, err := launch.LastGood(ctx, s, key)
	for _, f := range found.Faults {
		a.printErr("damaged: %s", strings.ReplaceAll(f.Error(), "\n", "\n  "))
	}
	var none *launch.NoCheckpointError
	if errors.As(err, &none) {
		err = errors.Join(failf("session %s has no readable checkpoint and cannot be resumed; start a new session with `maestro run`", key.Session), none.Cause)
	}
	return found, err
}

// teamOf loads the team: that of a file or, without one, that of
// the checkpoint.
func (a *app) teamOf(ctx context.Context, s *store.Store, from store.StoredCheckpoint, file string) (spec.Team, error) {
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
func (a *app) resumeRunning(ctx context.Context, conn *temporalutil.Connection, o resumeOptions, sessionID string) error {
	w := &sessionstatus.Watcher{Conn: conn, Session: sessionID, Now: a.env.Now}
	var err error
	if w.Store, err = a.findStore(); err != nil {
		return err
	}
	v, err := w.Look(ctx)
	if err != nil {
		return a.explainLook(ctx, w, err)
	}
	if o.changes() {
		return usagef("session %s has not ended (%s), so its work cannot be changed; cancel it first: %s", sessionID, v.Status.Status, a.commandLine("cancel "+sessionID))
	}
	if s := w.Query(ctx); s != nil { // also from other stores
		v.Phases, v.Help = s.Phases, s.Help
	}
	parked := a.pausedAfter(ctx, w, v)
	for _, phase := range parked {
		if err := a.sendContinue(ctx, conn, sessionID, phase); err != nil {
			return err
		}
	}
	if len(parked) == 0 {
		if len(v.Help) > 0 {
			return a.checkNoOpenRequest(sessionID, v.Help)
		}
		a.printErr("session %s is already running; nothing was changed", sessionID)
	}
	doc := runDocument{Session: sessionID, RunID: v.RunID, Incarnation: v.Incarnation}
	if w.Store != nil {
		doc.Store = w.Store.ID()
	}
	if err := a.announce(doc); err != nil || !o.watch {
		return err
	}
	return a.follow(ctx, w)
}

// pausedAfter lists the phases after which the session is paused only because it
// was started with --pause-after. A phase that the team wants approved is not among
// them: that takes `approve`.
func (a *app) pausedAfter(ctx context.Context, w *sessionstatus.Watcher, v sessionstatus.Session) []string {
	var parked []string
	for _, p := range v.Phases {
		asked := slices.ContainsFunc(v.Help, func(h session.HelpRequest) bool { return kindOf(h).OfPhase() && h.Phase == p.Name })
		if p.Status == session.AwaitingApproval && (!asked || !a.needsApproval(ctx, w, p.Name)) {
			parked = append(parked, p.Name)
		}
	}
	return parked
}

// needsApproval reports whether a session's team has a phase approved. Where the
// session's store is not at hand, it may.
func (a *app) needsApproval(ctx context.Context, w *sessionstatus.Watcher, phase string) bool {
	if w.Store == nil {
		return true
	}
	c, err := a.newest(ctx, w.Store, w.Key())
	if err != nil {
		return true
	}
	t, err := a.teamOf(ctx, w.Store, c, "")
	if err != nil {
		return true
	}
	p, ok := t.Phase(phase)
	return !ok || p.Approve
}

// checkNoOpenRequest rejects resuming a session that waits for an answer,
// and names the commands that answer it.
func (a *app) checkNoOpenRequest(sessionID string, open []session.HelpRequest) error {
	var b strings.Builder
	for _, h := range open {
		fmt.Fprintf(&b, "\n%s %s: %s", subject(h), h.Need(), terminal.Clip(messageOf(h), 200))
		if c := a.firstCommand(sessionID, h, open); c != "" {
			fmt.Fprintf(&b, "\n  answer with: %s", c)
		}
	}
	return usagef("session %s is running and waits for an answer, which `resume` cannot give:%s", sessionID, &b)
}

// sendContinue continues a paused session.
func (a *app) sendContinue(ctx context.Context, conn *temporalutil.Connection, sessionID, phase string) error {
	answered, err := a.send(ctx, conn, sessionID, message{update: workflows.ApprovePhaseUpdate, argument: workflows.ApprovePhase{Phase: phase, By: a.person()}}, nil)
	switch {
	case err != nil:
		return err
	case answered:
		a.printErr("session %s continues after phase %s", sessionID, phase)
	default:
		a.printErr("no worker answered within %s; session %s continues after phase %s as soon as one does", answerPatience, sessionID, phase)
	}
	return nil
}

func (a *app) person() string { return a.env.person() }
