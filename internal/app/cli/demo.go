package cli

import (
	"cmp"
	"context"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/app/localdev"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/models/config"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/ops/launch"
	"github.com/maestro-hive/maestro/internal/ops/sessionstatus"
	"github.com/maestro-hive/maestro/internal/platform/cmdline"
	"github.com/maestro-hive/maestro/internal/store"
)

// demoCommand is `demo`.
type demoCommand struct {
	*app
	stack devStack
	keep  bool
}

func newDemo(a *app) *cobra.Command {
	c := demoCommand{app: a, stack: devStack{console: a.console, storeOpener: a.storeOpener, env: a.env}}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run an example session from start to end, without any setup",
		Long: "Start a Temporal server and a worker on free ports, run the example team on its requirement, and show its progress and results. " +
			"The agents are shell scripts that need no model; what they write is really built and tested. The exit code is the session's.",
		Args: cmdline.Arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
	cmd.Flags().BoolVar(&c.keep, "keep", false, "keep running until Ctrl-C, to look at the Web UI")
	c.stack.log.AddFlags(cmd.Flags(), "error")
	a.addPlainFlag(cmd.Flags())
	a.addStateDirFlag(cmd)
	return cmd
}

func (c *demoCommand) run(ctx context.Context) error {
	if err := c.env.harden(); err != nil {
		return err
	}
	var example string
	k, err := c.stack.start(ctx, func(s *store.Store) (file string, err error) {
		example, err = extractExample(s)
		return filepath.Join(example, "agents.yaml"), err
	})
	if err != nil {
		return err
	}
	defer k.Stop()
	c.stack.describe(k)
	c.printErr("")
	w, err := c.startExample(ctx, k, example)
	if err != nil {
		return err
	}
	v, err := c.show(ctx, w)
	if err != nil {
		return err
	}
	if err := c.printResult(ctx, k, w, v); err != nil {
		return err
	}
	if c.keep {
		dashboard, err := c.stack.startDashboard(ctx, k)
		if err != nil {
			return err
		}
		defer dashboard.Stop(ctx)
		c.printErr("\nRunning until Ctrl-C.")
		if err := k.Wait(ctx); err != nil {
			return err
		}
	}
	return exit(outcomeCode(v.Status.Status))
}

// startExample starts a session of the example's team on its requirement.
func (c *demoCommand) startExample(ctx context.Context, k *localdev.Stack, dir string) (*lookout, error) {
	t, err := config.LoadTeam(filepath.Join(dir, "team.yaml"))
	if err != nil {
		return nil, err
	}
	requirement, err := requirementOf(c.env.Stdin, filepath.Join(dir, "requirement.md"), nil)
	if err != nil {
		return nil, err
	}
	base := c.base(k.Conn, k.Store, k.Conn.Namespace)
	doc, err := control.Starts{Base: base}.Start(ctx, control.NewSession{Team: control.TeamInput{Loaded: &t}, Requirement: requirement})
	if err == nil && !doc.Admitted {
		err = cmp.Or(ctx.Err(), launch.ErrNotAdmitted)
	}
	p := &plane{base: base}
	return p.lookout(doc.Session, c.env.Now), c.explainStart(ctx, p, err)
}

// printResult prints the session's results, and commands to try next.
func (c *demoCommand) printResult(ctx context.Context, k *localdev.Stack, w *lookout, v sessionstatus.Session) error {
	if v.Status.Status != session.Completed {
		c.reportFailure(v.Status)
	}
	c.print("")
	shown, err := w.status(ctx, w.session)
	if err != nil {
		return err
	}
	writeStatus(c.guide, shown)
	key := session.Key{Namespace: k.Conn.Namespace, Session: w.session}
	newest, err := c.newest(ctx, k.Store, key)
	if err != nil {
		return err
	}
	out := filepath.Join(k.Store.Dir(), "demo", w.session)
	files, err := k.Store.Content.Export(ctx, newest.Tree, nil, out, true)
	if err != nil {
		return err
	}
	c.print("\nartifacts    %s in %s", textfmt.Count(len(files), "file"), out)
	c.print("checkpoints  %s", filepath.Join(k.Store.MirrorDir(key), "checkpoint_*.json"))
	flags := c.stateFlag()
	switch {
	case c.keep:
		c.print("Web UI       %s/namespaces/%s/workflows/%s", k.WebUI(), k.Conn.Namespace, w.session)
	default:
		c.print("Web UI       `maestro demo --keep%s` keeps it running; `maestro dev%s` shows this session again", flags, flags)
	}
	c.print("\nmore:\n  maestro logs %[1]s%[2]s\n  maestro artifacts list %[1]s%[2]s\n  maestro checkpoints list %[1]s%[2]s", w.session, flags)
	return nil
}
