package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/faces/client"
	"github.com/maestro-hive/maestro/internal/faces/httpapi"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/ops/launch"
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

func newResume(a *app) *cobra.Command {
	c := resumeCommand{app: a}
	cmd := &cobra.Command{
		Use:   "resume SESSION",
		Short: "Resume a session that is paused, failed, cancelled, or lost by Temporal",
		Long: "Resume a session. One that is paused after a phase of --pause-after continues; one that has ended, or that Temporal " +
			"no longer has, starts again from the store.\n\n" +
			"Finished work is restored and not done again, unless its inputs have changed: the persona, its agent or model, its " +
			"instructions, the requirement, its input files, earlier decisions. The command prints what is restored, what runs, and why.",
		Example: "  maestro resume web-20261121-abcdef --watch\n  maestro resume web-20261121-abcdef --team team.yaml --force " +
			"testing\n" +
			"  maestro resume web-20261121-abcdef --edit design=edited/",
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args[0]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&c.team, "team", "", "team to continue with: a file, or a registered team, NAME or NAME@DIGEST (default: the "+
		"session's)")
	flags.StringSliceVar(&c.force, "force", nil, "run these phases, and those that depend on them, although they are finished")
	flags.StringArrayVar(&c.edits, "edit", nil, "PHASE=PATH: replace files of the phase's work with those of a directory, or one "+
		"file; dependent phases run again; repeatable")
	c.course.add(cmd)
	flags.BoolVar(&c.watch, "watch", false, "follow the session until it ends, and exit with its outcome")
	a.addPlainFlag(flags)
	return a.addServedFlags(cmd)
}

// run asks for the operation [control.Starts.Resume], here or of a server.
func (c *resumeCommand) run(ctx context.Context, sessionID string) (err error) {
	in := control.Resume{PhaseSelection: c.course.PhaseSelection, Force: c.force}
	server, err := c.client()
	if err != nil {
		return err
	}
	if server != nil && len(c.edits) > 0 {
		return usagef("--edit needs Temporal and the store; leave the server out")
	}
	if in.Team, err = c.teamInput(ctx, server, c.team); err != nil {
		return err
	}
	p, err := c.served(c.temporalBase(c.openStore))(ctx)
	if err != nil {
		return err
	}
	defer p.close()
	if in.Edits, err = c.editedFiles(ctx, p, sessionID, in.Team); err != nil {
		return err
	}
	return c.startAndFollow(ctx, p, &sessionID, "", c.watch, func() (control.Started, error) {
		return invoke(ctx, p, httpapi.ResumeSession, httpapi.SessionBody[*control.Resume]{Session: sessionID, Body: &in})
	})
}

// editedFiles stores the files of --edit.
func (c *resumeCommand) editedFiles(ctx context.Context, p *backend, sessionID string,
	in control.TeamInput,
) (map[string]spec.Digest, error) {
	if len(c.edits) == 0 {
		return nil, nil
	}
	s, _, err := c.stored(ctx, sessionID)
	if err != nil {
		return nil, err
	}
	if in.Loaded == nil {
		t, err := c.storedTeam(ctx, p, sessionID)
		if control.ProblemOf(err).Kind == control.Conflict { // the stored team cannot be read
			err = failf("%w; give its file with --team", err)
		}
		if err != nil {
			return nil, err
		}
		in.Loaded = &t
	}
	return phaseFiles(ctx, c.console, c.environ, s, *in.Loaded, "edit", c.edits)
}

// forkCommand is `fork`.
type forkCommand struct {
	*app
	fork  control.Fork
	team  string
	watch bool
}

func newFork(a *app) *cobra.Command {
	c := forkCommand{app: a}
	cmd := &cobra.Command{
		Use:   "fork SESSION --from PHASE",
		Short: "Start a new session from another session's work before a phase",
		Long: "Start a new session that reuses another session's finished work, and runs a phase and all phases that depend on it " +
			"again. The other session is not changed, and may still be running.\n\n" +
			"The cost of reused work stays with the other session and is not in the new session's usage.",
		Example: "  maestro fork web-20261121-abcdef --from implementation --as second-try\n  maestro fork web-20261121-abcdef " +
			"--from design --team other-model.yaml",
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args[0]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&c.fork.From, "from", "", "phase to run again, with all phases that depend on it (required)")
	flags.StringVar(&c.fork.Checkpoint, "checkpoint", "", "checkpoint with the work that is reused, by the beginning of its "+
		"digest (default: the newest)")
	flags.StringVar(&c.fork.As, "as", "", "id of the new session (default: team name, date and a random part)")
	flags.StringVar(&c.team, "team", "", "team of the new session: a file, or a registered team, NAME or NAME@DIGEST (default: "+
		"the other session's)")
	flags.BoolVar(&c.watch, "watch", false, "follow the new session until it ends, and exit with its outcome")
	a.addPlainFlag(flags)
	return a.addServedFlags(cmd)
}

func (c *forkCommand) run(ctx context.Context, sessionID string) error {
	if c.fork.From == "" {
		return usagef("--from is missing; give the phase to run again")
	}
	server, err := c.client()
	if err != nil {
		return err
	}
	if c.fork.Team, err = c.teamInput(ctx, server, c.team); err != nil {
		return err
	}
	p, err := c.served(c.temporalBase(c.openStore))(ctx)
	if err != nil {
		return err
	}
	defer p.close()
	team := ""
	switch {
	case c.fork.Team.Loaded != nil:
		team = c.fork.Team.Loaded.Name
	case server != nil:
		v, err := p.status(ctx, sessionID)
		if err != nil {
			return c.explainStart(ctx, p, err)
		}
		team = v.Team
	}
	return c.startAndFollow(ctx, p, &c.fork.As, team, c.watch, func() (control.Started, error) {
		return invoke(ctx, p, httpapi.ForkSession, httpapi.SessionBody[control.Fork]{Session: sessionID, Body: c.fork})
	})
}

// teamInput is the team of a file or a registered one; without a name it names none.
func (c *connector) teamInput(ctx context.Context, server *client.Client, name string) (control.TeamInput, error) {
	if name == "" {
		return control.TeamInput{}, nil
	}
	t, reference, err := c.teamFor(ctx, server, name)
	return control.TeamInput{Name: reference, Loaded: &t}, err
}

// conflictOf reports whether an operation was refused because of the state of what a field names.
func conflictOf(err error, field string) bool {
	failed, ok := errors.AsType[*control.Error](err)
	return ok && failed.Kind == control.Conflict && failed.Field == field
}

// printUnchanged prints the state of a session that was not started again.
func (a *app) printUnchanged(doc control.Started) {
	for _, phase := range doc.Continued {
		if doc.Admitted {
			a.printErr("session %s continues after phase %s", doc.Session, phase)
		} else {
			a.printErr("no worker answered within %s; session %s continues after phase %s as soon as one does", control.AcceptTimeout,
				doc.Session, phase)
		}
	}
	switch {
	case doc.Unchanged == session.Completed:
		a.printErr("session %s is completed; nothing is left to run (--force PHASE runs a phase again)", doc.Session)
	case doc.Unchanged != "":
		a.printErr("session %s is already running; nothing was changed", doc.Session)
	}
}

// explainStart adds a remedy to the error of a start.
func (a *app) explainStart(ctx context.Context, p *backend, err error) error {
	if none, ok := errors.AsType[*launch.NoCheckpointError](err); ok {
		return failf("%w; a session without one cannot be resumed; start a new session with `maestro run`", none)
	}
	if elsewhere, ok := errors.AsType[*control.OtherStoreError](err); ok {
		return usagef("%w; give its --state-dir", elsewhere)
	}
	failed := control.ProblemOf(err)
	switch {
	case failed.Reason == control.AtWork:
		return usagef("%w: %s", err, a.commandLine("cancel "+failed.Session))
	case failed.Reason == control.AwaitsAnswer:
		open, _ := p.open(ctx, failed.Session)
		return a.openRequests(failed.Session, open.Requests)
	case conflictOf(err, "session"):
		return usagef("%w; choose another --session, or show it with `%s`", err, a.commandLine("status "+failed.Session))
	case conflictOf(err, "run"):
		return usagef("%w", err)
	}
	return a.explain(inputError(err))
}

// openRequests is the error of resuming a session that waits for answers, with the commands that
// answer.
func (a *app) openRequests(sessionID string, open []session.Request) error {
	var b strings.Builder
	for _, h := range open {
		fmt.Fprintf(&b, "\n%s %s: %s", h.Subject(), h.Need(), safetext.Clip(messageOf(h), 200))
		if answer := a.firstCommand(sessionID, h, open); answer != "" {
			fmt.Fprintf(&b, "\n  answer with: %s", answer)
		}
	}
	return usagef("session %s is running and waits for an answer, which `resume` cannot give:%s", sessionID, &b)
}

// printPlan prints what is restored and what runs, and why.
func (a *app) printPlan(plan []session.PlanEntry) {
	words := map[session.PlanAction]string{
		session.Restore: "restores", session.RunIt: "runs", session.SupplyIt: "takes", session.Leave: "leaves", session.Drop: "drops",
	}
	for _, p := range plan {
		a.printErr("%-9s %s: %s", words[p.Action], p.AssignmentID, safetext.Line(p.Reason))
	}
}
