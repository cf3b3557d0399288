package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/faces/httpapi"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/platform/cmdline"
	"github.com/maestro-hive/maestro/internal/store"
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
		Long: "Resume a session. One that is paused after a phase of --pause-after continues; one that has ended, or that Temporal no longer has, starts again from the store.\n\n" +
			"Finished work is restored and not done again, unless its inputs have changed: the persona, its agent or model, its instructions, the requirement, its input files, earlier decisions. The command prints what is restored, what runs, and why.",
		Example: "  maestro resume web-20261121-abcdef --watch\n  maestro resume web-20261121-abcdef --team team.yaml --force testing\n" +
			"  maestro resume web-20261121-abcdef --edit design=edited/",
		Args: cmdline.Arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args[0]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&c.team, "team", "", "team to continue with: a file, or a registered team, NAME or NAME@DIGEST (default: the session's)")
	flags.StringSliceVar(&c.force, "force", nil, "run these phases, and those that depend on them, although they are finished")
	flags.StringArrayVar(&c.edits, "edit", nil, "PHASE=PATH: replace files of the phase's work with those of a directory, or one file; dependent phases run again; repeatable")
	c.course.add(cmd)
	flags.BoolVar(&c.watch, "watch", false, "follow the session until it ends, and exit with its outcome")
	a.addPlainFlag(flags)
	a.addServedFlags(cmd)
	return cmd
}

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
	var missing error
	p, err := c.plane(ctx, func(ctx context.Context) (*control.Base, func(), error) {
		return c.startingBase(ctx, func() (*store.Store, error) {
			s, err := c.openStore()
			if errors.Is(err, session.ErrNotFound) { // a session that runs needs none
				missing = err
				return nil, nil
			}
			return s, err
		})
	})
	if err != nil {
		return err
	}
	defer p.close()
	resume := func() (control.Started, error) {
		return invoke(ctx, p, httpapi.ResumeSession, httpapi.SessionBody[*control.Resume]{Session: sessionID, Body: &in})
	}
	if server != nil {
		doc, err := c.startServed(ctx, &sessionID, "", resume)
		return c.begun(ctx, p, doc, err, c.watch)
	}
	if in.Edits, err = c.editedFiles(ctx, p.base, sessionID, in.Team); err != nil {
		return err
	}
	doc, err := resume()
	var failed *control.Error
	if missing != nil && errors.As(err, &failed) && failed.Kind == control.Unavailable {
		err = missing
	}
	return c.begun(ctx, p, doc, err, c.watch)
}

// editedFiles stores the files of --edit.
func (c *resumeCommand) editedFiles(ctx context.Context, base *control.Base, sessionID string, in control.TeamInput) (map[string]spec.Digest, error) {
	if len(c.edits) == 0 {
		return nil, nil
	}
	s, key, err := c.stored(sessionID)
	if err != nil {
		return nil, err
	}
	if in.Loaded == nil {
		t, err := c.storedTeam(ctx, s, key)
		if err != nil {
			return nil, err
		}
		in.Loaded = &t
	}
	return phaseFiles(ctx, c.console, c.environ, base.Store, *in.Loaded, "edit", c.edits)
}
