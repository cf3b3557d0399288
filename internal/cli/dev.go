package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/examples"
	"github.com/maestro-hive/maestro/internal/host"
	"github.com/maestro-hive/maestro/internal/store"
)

const (
	defaultPort   = 7233
	defaultUIPort = 8233
	// exampleName is the example that the binary carries and demo runs.
	exampleName = "shortener"
)

func newDev(a *app) *cobra.Command {
	o := stackOptions{port: defaultPort, uiPort: defaultUIPort}
	var agents, healthPort string
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run a Temporal server, its Web UI and a worker on this machine",
		Long: "Run a Temporal server, its Web UI and a worker on this machine, until Ctrl-C. Everything is kept in the state directory, and the next start goes on with it.\n\n" +
			"The server listens on " + loopback + " only. The worker file is --agents, else MAESTRO_AGENTS, else ./agents.yaml, else that of the example that `maestro demo` runs. SIGHUP reads it again.",
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			o.metricsAddress = cmp.Or(o.metricsAddress, a.environ.get(host.MetricsAddressVariable))
			if o.healthPort, o.servesHealth, err = host.HealthPort(healthPort, a.environ.get); err != nil {
				return usagef("%w", err)
			}
			reloads, stop := host.Reloads()
			defer stop()
			o.reloads = reloads
			o.agents = func(s *store.Store) (string, error) { return a.workerFile(s, agents) }
			return a.dev(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&o.port, "port", o.port, "port of the Temporal server; 0 takes a free one")
	flags.IntVar(&o.uiPort, "ui-port", o.uiPort, "port of the Web UI; 0 takes a free one")
	flags.BoolVar(&o.headless, "headless", false, "leave the Web UI out")
	flags.StringVar(&agents, "agents", "", "worker file")
	flags.StringVar(&o.metricsAddress, "metrics-address", "", host.MetricsAddressUsage)
	flags.StringVar(&healthPort, "health-port", "", host.HealthPortUsage)
	o.log.AddFlags(flags, quietly)
	a.addStateDirFlag(cmd)
	return cmd
}

func (a *app) dev(ctx context.Context, o stackOptions) error {
	if err := a.harden(); err != nil {
		return err
	}
	k, err := a.bringUp(ctx, o)
	if err != nil {
		return err
	}
	defer k.stop()
	k.describe()
	a.say("\nStart a session:  maestro run TEAM.yaml \"what to build\"%s", a.reach(k))
	a.say("Stop with Ctrl-C; sessions go on at the next start.")
	if err := k.wait(ctx); err != nil {
		return err
	}
	a.say("stopping: what agents do not finish now is taken up at the next start")
	return nil
}

// reach is the flags with which another command finds the stack, where they are
// needed.
func (a *app) reach(k *stack) string {
	flags := ""
	if k.server.options.port != defaultPort {
		flags += " --address " + k.conn.Address
	}
	return flags + a.stateFlag()
}

// stateFlag is the --state-dir that this command was given, for others.
func (a *app) stateFlag() string {
	if a.stateDir == "" {
		return ""
	}
	return " --state-dir " + a.stateDir
}

// workerFile finds the worker file of a stack.
func (a *app) workerFile(s *store.Store, flag string) (string, error) {
	if flag != "" {
		return flag, nil
	}
	if file := a.environ.get("MAESTRO_AGENTS"); file != "" {
		return file, nil
	}
	here := filepath.Join(a.env.Dir, "agents.yaml")
	if _, err := os.Stat(here); err == nil {
		return here, nil
	}
	dir, err := a.extractExample(s)
	if err != nil {
		return "", err
	}
	a.say("there is no agents.yaml here and no --agents, so the worker has the example's agents, which only play scripts")
	return filepath.Join(dir, "agents.yaml"), nil
}

// extractExample writes the example that the binary carries beside the store.
func (a *app) extractExample(s *store.Store) (string, error) {
	dir := filepath.Join(s.Dir(), "demo")
	if err := extract(examples.FS, dir); err != nil {
		return "", fmt.Errorf("write the example to %s: %w", dir, err)
	}
	return filepath.Join(dir, exampleName), nil
}
