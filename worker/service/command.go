package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/models/agent"
	"github.com/maestro-hive/maestro/internal/models/config"
	"github.com/maestro-hive/maestro/internal/platform/buildinfo"
	"github.com/maestro-hive/maestro/internal/platform/cmdline"
	"github.com/maestro-hive/maestro/internal/platform/httpserver"
	"github.com/maestro-hive/maestro/internal/platform/logs"
	"github.com/maestro-hive/maestro/internal/platform/retryafter"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
	"github.com/maestro-hive/maestro/internal/sandbox/procgroup"
	"github.com/maestro-hive/maestro/internal/sandbox/room"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/state"
	"github.com/maestro-hive/maestro/internal/store/statedir"
	"github.com/maestro-hive/maestro/worker/telemetry"
)

// Process has the process's resources for the worker command.
type Process struct {
	Stderr io.Writer
	Env    temporalutil.Environment
	Host   string
	PID    int
	Now    func() time.Time
}

// Getenv reads a variable; empty if it is not set.
func (p Process) Getenv(name string) string {
	value, _ := p.Env.LookupEnv(name)
	return value
}

// serving has the flags of the worker command.
type serving struct {
	connection                                  temporalutil.Options
	stateDir, agents, metricsServed, healthPort string
	location                                    store.Location
	log                                         logs.Options
	drain                                       time.Duration
	connectTimeout                              time.Duration
}

// MetricsAddressVariable names the variable with the default of --metrics-address.
const MetricsAddressVariable = "MAESTRO_METRICS_ADDRESS"

// MetricsAddressUsage is the help of --metrics-address.
const MetricsAddressUsage = "host:port to serve Prometheus metrics on (default $" + MetricsAddressVariable + ", else nowhere)"

// NewCommand returns the command that serves one store until its context ends.
func NewCommand(p Process) *cobra.Command {
	var s serving
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Serve a store's sessions with the agents of a worker file",
		Long: `Serve a store's sessions with the agents and checks of a worker file.

SIGTERM drains: the worker takes no new work, lets attempts continue for --drain,
then hands unfinished work over to other workers without counting an attempt. A second
one ends it at once. SIGHUP reloads the worker file: if it is valid, new work
uses it; if not, the error is logged and nothing changes.`,
		Args: cmdline.Arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if s.drain < 0 {
				return fmt.Errorf("--drain: %s is less than 0", s.drain)
			}
			var err error
			if s.location, err = s.location.OrFrom(p.Getenv); err != nil {
				return err
			}
			return p.serve(cmd.Context(), s)
		},
	}
	cmdline.AddGroup(cmd.Flags(), temporalutil.FlagHeading, s.connection.AddFlags)
	cmd.Flags().StringVar(&s.stateDir, "state-dir", "",
		"the store's directory (default $MAESTRO_STATE_DIR, else /var/maestro/state)")
	s.location.AddFlags(cmd.Flags())
	cmd.Flags().StringVar(&s.agents, "agents", "", "worker file (default $MAESTRO_AGENTS)")
	cmd.Flags().DurationVar(&s.drain, "drain", DefaultDrain,
		"how long attempts may continue after a stop before they are handed over")
	cmd.Flags().DurationVar(&s.connectTimeout, "connect-timeout", 0,
		"how long to wait for Temporal at the start, like 30s, before giving up with exit code 4; 0: no limit")
	s.log.AddFlags(cmd.Flags(), "info")
	cmd.Flags().StringVar(&s.metricsServed, "metrics-address", "", MetricsAddressUsage)
	cmd.Flags().StringVar(&s.healthPort, "health-port", "", HealthPortUsage)
	cmd.AddCommand(p.newHealth())
	return cmd
}

// serve waits for Temporal, then makes a worker and runs it.
func (p Process) serve(ctx context.Context, s serving) error {
	reloads, stop := Reloads()
	defer stop()
	log, err := s.log.New(p.Stderr, p.Getenv)
	if err != nil {
		return err
	}
	logger := log.Logger
	port, healthWanted, err := HealthPort(s.healthPort, p.Getenv)
	if err != nil {
		return err
	}
	file, cfg, err := loadAgents(s.agents, p.Getenv)
	if err != nil {
		return err
	}
	dir, note, err := statedir.ForWorker(s.stateDir, p.Getenv, false)
	if err != nil {
		return err
	}
	if note != "" {
		logger.Info(note)
	}
	build := buildinfo.This()
	t, err := StartTelemetry(ctx, telemetry.Options{
		Service: ServiceName, Version: build.Version, MetricsAddress: cmp.Or(s.metricsServed, p.Getenv(MetricsAddressVariable)),
		Getenv: p.Getenv, Clock: p.Now, Logger: logger,
	})
	if err != nil {
		return err
	}
	defer func() {
		if err := t.Close(); err != nil {
			logger.Warn("the last metrics and traces are lost", "error", err)
		}
	}()
	s.connection.StoreDir, s.connection.Host = dir, p.Host
	health := newHealth(build.String(), build.Commit, p.Now)
	if healthWanted {
		_, stop, err := health.serve(ctx, port, t, logger)
		if err != nil {
			return err
		}
		defer stop()
	}
	conn, err := connect(ctx, s.connectTimeout, health, logger, func() (*temporalutil.Connection, error) {
		return temporalutil.Dial(ctx, &s.connection, p.Env, logger, t.Instrument)
	})
	if err != nil || conn == nil { // nil: it was stopped before Temporal answered
		return err
	}
	defer conn.Close()
	setup := Setup{
		Config: cfg, File: file, Reloads: reloads, StateDir: dir, Location: s.location, Connection: conn, Getenv: p.Getenv,
		Host: p.Host, PID: p.PID, Version: build.String(), Commit: build.Commit, Drain: s.drain, Telemetry: t, Clock: p.Now,
		Logger: logger, health: health,
	}
	w, err := setup.buildWhenCurrent(ctx)
	if err != nil || w == nil { // nil: it was stopped before
		return err
	}
	log.Mask(w.Mask)
	return w.Run(ctx)
}

// schemaWait is how often a worker tries to open a database that a newer worker has migrated.
const schemaWait = 10 * time.Second

// buildWhenCurrent makes the worker. A worker that is older than the database waits, because it is about to be replaced: if it
// ended, its supervisor would only start it again. The worker is nil if the context has ended.
func (s Setup) buildWhenCurrent(ctx context.Context) (*Worker, error) {
	for {
		w, err := s.Build()
		if !errors.Is(err, state.ErrNewerSchema) {
			return w, err
		}
		s.Logger.Warn("the worker waits until it is replaced", "error", err)
		if !retryafter.Wait(ctx, schemaWait) {
			return nil, nil
		}
	}
}

func loadAgents(path string, getenv func(string) string) (file string, cfg agent.Config, err error) {
	if file = cmp.Or(path, getenv("MAESTRO_AGENTS")); file == "" {
		return "", cfg, fmt.Errorf("missing worker file; give it with --agents or MAESTRO_AGENTS")
	}
	cfg, err = config.LoadWorker(file)
	return file, cfg, err
}

// ServiceName is a worker's service.name, unless OTEL_SERVICE_NAME is another.
const ServiceName = "maestro-worker"

// StartTelemetry starts the exporters that the environment configures, and serves
// metrics on an address, if one is given. If it cannot listen there, the error is
// an [ErrServing].
func StartTelemetry(ctx context.Context, o telemetry.Options) (*telemetry.Telemetry, error) {
	t, err := telemetry.Start(ctx, o)
	if errors.Is(err, httpserver.ErrListen) {
		return nil, fmt.Errorf("%w: %w", ErrServing, err)
	}
	if t.Address() != "" && o.Logger != nil {
		o.Logger.Info("metrics are served", "url", t.URL())
	}
	return t, err
}

// The exit codes of the worker, as of all commands.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitUnreachable = 4
)

// exitCode distinguishes an unreachable Temporal from a worker that could not be set up
// because of wrong input.
func exitCode(err error) int {
	var unreachable *temporalutil.UnreachableError
	var refused *temporalutil.RefusedError
	switch {
	case errors.As(err, &unreachable), errors.As(err, &refused):
		return exitUnreachable
	case errors.Is(err, ErrServing), errors.Is(err, ErrNotReady):
		return exitFailed
	}
	return exitUsage
}

// Main runs the worker command in this process and returns its exit code. It
// must be called first in main: the same executable is also the shim of agents.
func Main() int {
	room.Shim()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := procgroup.Harden(); err != nil {
		fmt.Fprintln(os.Stderr, "maestro-worker:", err)
		return 1
	}
	name, err := os.Hostname()
	if err != nil {
		name = "localhost"
	}
	cmd := NewCommand(Process{Stderr: os.Stderr, Env: osEnvironment{}, Host: name, PID: os.Getpid(), Now: time.Now})
	cmd.Use, cmd.SilenceErrors, cmd.SilenceUsage = "maestro-worker", true, true
	cmdline.Prepare(cmd, buildinfo.This().Line(cmd.Use))
	if err := cmd.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "maestro-worker:", err)
		return exitCode(err)
	}
	return 0
}

type osEnvironment struct{}

func (osEnvironment) Environ() []string                    { return os.Environ() }
func (osEnvironment) LookupEnv(name string) (string, bool) { return os.LookupEnv(name) }
