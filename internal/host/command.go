package host

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/agent"
	"github.com/maestro-hive/maestro/internal/config"
	"github.com/maestro-hive/maestro/internal/temporalio"
)

// Process is what the worker command needs of the process that it runs in.
type Process struct {
	Stderr io.Writer
	Env    temporalio.Environment
	Host   string
	PID    int
	Now    func() time.Time
}

// Getenv reads a variable; empty if it is not set.
func (p Process) Getenv(name string) string {
	value, _ := p.Env.LookupEnv(name)
	return value
}

// NewCommand returns the command that serves one store until its context ends.
func NewCommand(p Process) *cobra.Command {
	var connection temporalio.Options
	var stateDir, agents, logFormat string
	var drain time.Duration
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Serve a store's sessions with the agents of a worker file",
		Long: `Serve a store's sessions with the agents and checks of a worker file.

SIGTERM drains: the worker takes no new work, lets attempts go on for --drain,
and hands over what is left to other workers, at no cost in attempts.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			logger, err := newLogger(p.Stderr, logFormat)
			if err != nil {
				return err
			}
			cfg, err := loadAgents(agents, p.Getenv)
			if err != nil {
				return err
			}
			dir, note, err := config.StateDir(stateDir, p.Getenv, false)
			if err != nil {
				return err
			}
			if note != "" {
				logger.Info(note)
			}
			tasks := &begun{}
			conn, err := temporalio.Dial(cmd.Context(), &connection, p.Env, logger, tasks.intercept)
			if err != nil {
				return err
			}
			defer conn.Close()
			w, err := Setup{
				Config: cfg, StateDir: dir, Connection: conn, Getenv: p.Getenv,
				Host: p.Host, PID: p.PID, Version: Version(), Drain: drain, Clock: p.Now, Logger: logger, tasks: tasks,
			}.Build()
			if err != nil {
				return err
			}
			return w.Run(cmd.Context())
		},
	}
	connection.AddFlags(cmd.Flags())
	cmd.Flags().StringVar(&stateDir, "state-dir", "", "the store's directory (default $MAESTRO_STATE_DIR, else /var/maestro/state)")
	cmd.Flags().StringVar(&agents, "agents", "", "worker file (default $MAESTRO_AGENTS)")
	cmd.Flags().DurationVar(&drain, "drain", DefaultDrain, "how long attempts may go on after a stop before they are handed over")
	cmd.Flags().StringVar(&logFormat, "log-format", "text", "text or json")
	return cmd
}

func loadAgents(path string, getenv func(string) string) (agent.Config, error) {
	if path == "" {
		path = getenv("MAESTRO_AGENTS")
	}
	if path == "" {
		return agent.Config{}, fmt.Errorf("no worker file: name one with --agents or MAESTRO_AGENTS")
	}
	return config.LoadWorker(path)
}

func newLogger(w io.Writer, format string) (*slog.Logger, error) {
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, nil)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, nil)), nil
	}
	return nil, fmt.Errorf("--log-format %s is neither text nor json", format)
}

// Version is the build's version, as the module system knows it.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}

// Main runs the worker command in this process and returns its exit code. It
// has to be called first in main: the same executable also is the shim that
// agents run behind.
func Main() int {
	agent.Shim()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := agent.Harden(); err != nil {
		fmt.Fprintln(os.Stderr, "maestro-worker:", err)
		return 1
	}
	name, err := os.Hostname()
	if err != nil {
		name = "localhost"
	}
	cmd := NewCommand(Process{Stderr: os.Stderr, Env: osEnvironment{}, Host: name, PID: os.Getpid(), Now: time.Now})
	cmd.Use, cmd.SilenceErrors, cmd.SilenceUsage = "maestro-worker", true, true
	if err := cmd.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "maestro-worker:", err)
		return exitCode(err)
	}
	return 0
}

type osEnvironment struct{}

func (osEnvironment) Environ() []string                    { return os.Environ() }
func (osEnvironment) LookupEnv(name string) (string, bool) { return os.LookupEnv(name) }
