package cli

import (
	"context"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/cas"
	"github.com/maestro-hive/maestro/internal/cmdline"
	"github.com/maestro-hive/maestro/internal/config"
	"github.com/maestro-hive/maestro/internal/launch"
	"github.com/maestro-hive/maestro/internal/localdev"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/sessionstatus"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/textfmt"
	"github.com/maestro-hive/maestro/worker/service"
)

func newDemo(a *app) *cobra.Command {
	var keep bool
	var log service.LogOptions
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run an example session from start to end, without any setup",
		Long: "Start a Temporal server and a worker on free ports, run the example team on its requirement, and show its progress and results. " +
			"The agents are shell scripts that need no model; what they write is really built and tested. The exit code is the session's.",
		Args: cmdline.Arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.demo(cmd.Context(), keep, log) },
	}
	cmd.Flags().BoolVar(&keep, "keep", false, "keep running until Ctrl-C, to look at the Web UI")
	log.AddFlags(cmd.Flags(), "error")
	a.addPlainFlag(cmd.Flags())
	a.addStateDirFlag(cmd)
	return cmd
}

func (a *app) demo(ctx context.Context, keep bool, log service.LogOptions) error {
	if err := a.harden(); err != nil {
		return err
	}
	var example string
	k, err := a.startStack(ctx, devOptions{log: log}, func(s *store.Store) (file string, err error) {
		example, err = a.extractExample(s)
		return filepath.Join(example, "agents.yaml"), err
	})
	if err != nil {
		return err
	}
	defer k.Stop()
	a.describeStack(k)
	a.printErr("")
	w, err := a.startExample(ctx, k, example)
	if err != nil {
		return err
	}
	v, err := a.show(ctx, w)
	if err != nil {
		return err
	}
	if err := a.printDemoResult(ctx, k, w, v, keep); err != nil {
		return err
	}
	if keep {
		a.printErr("\nRunning until Ctrl-C.")
		if err := k.Wait(ctx); err != nil {
			return err
		}
	}
	return exit(outcomeCode(v.Status.Status))
}

// startExample starts a session of the example's team on its requirement.
func (a *app) startExample(ctx context.Context, k *localdev.Stack, dir string) (*sessionstatus.Watcher, error) {
	t, err := config.LoadTeam(filepath.Join(dir, "team.yaml"))
	if err != nil {
		return nil, err
	}
	requirement, err := a.requirement(filepath.Join(dir, "requirement.md"), nil)
	if err != nil {
		return nil, err
	}
	l := starter{a, launch.Launcher{Conn: k.Conn, Store: k.Store, Now: a.env.Now}}
	example := launch.Session{Team: t, Requirement: requirement}
	if err := l.check(ctx, example); err != nil {
		return nil, err
	}
	if example.Workspace, err = k.Store.PutManifest(ctx, cas.Manifest{}); err != nil {
		return nil, err
	}
	started, _, err := l.startAndAwait(ctx, example)
	return l.watcher(started.Session), err
}

// printDemoResult prints the session's results, and commands to try next.
func (a *app) printDemoResult(ctx context.Context, k *localdev.Stack, w *sessionstatus.Watcher, v sessionstatus.Session, keep bool) error {
	if v.Status.Status != session.Completed {
		a.reportFailure(v.Status)
	}
	a.print("")
	addDurations(ctx, w, &v)
	writeStatus(a.guide, v)
	key := w.Key()
	c, err := a.newest(ctx, k.Store, key)
	if err != nil {
		return err
	}
	out := filepath.Join(k.Store.Dir(), "demo", w.Session)
	files, err := k.Store.Export(ctx, c.Tree, nil, out, true)
	if err != nil {
		return err
	}
	checkpoints, err := k.Store.SessionDir(key)
	if err != nil {
		return err
	}
	a.print("\nartifacts    %s in %s", textfmt.Count(len(files), "file"), out)
	a.print("checkpoints  %s", filepath.Join(checkpoints, "checkpoint_*.json"))
	flags := a.stateFlag()
	switch {
	case keep:
		a.print("Web UI       %s/namespaces/%s/workflows/%s", k.WebUI(), k.Conn.Namespace, w.Session)
	default:
		a.print("Web UI       `maestro demo --keep%s` keeps it running; `maestro dev%s` shows this session again", flags, flags)
	}
	a.print("\nmore:\n  maestro logs %[1]s%[2]s\n  maestro artifacts list %[1]s%[2]s\n  maestro checkpoints list %[1]s%[2]s", w.Session, flags)
	return nil
}
