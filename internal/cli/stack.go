package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/maestro-hive/maestro/internal/agent"
	"github.com/maestro-hive/maestro/internal/buildinfo"
	"github.com/maestro-hive/maestro/internal/config"
	"github.com/maestro-hive/maestro/internal/host"
	"github.com/maestro-hive/maestro/internal/logs"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/team"
	"github.com/maestro-hive/maestro/internal/telemetry"
	"github.com/maestro-hive/maestro/internal/temporalio"
	"github.com/maestro-hive/maestro/workflows"
)

// offerPatience bounds the wait for the worker in this process to serve.
const offerPatience = 20 * time.Second

// drainOnOneMachine is how long attempts may go on when server and worker stop
// together: what is not done by then is taken up at the next start.
const drainOnOneMachine = 2 * time.Second

// quietly is the level of the log where a person looks on.
const quietly = "warn"

// stackOptions say what to run on one machine.
type stackOptions struct {
	port, uiPort int
	headless     bool
	log          host.LogOptions
	// reloads asks for the worker file to be read again.
	reloads <-chan os.Signal
	// metricsAddress is where the worker serves metrics; empty: nowhere.
	metricsAddress string
	// healthPort is where the worker says how it is, if servesHealth.
	healthPort   int
	servesHealth bool
	// agents finds the worker file, once the store is there.
	agents func(s *store.Store) (path string, err error)
}

// stack is a Temporal server and a worker on one machine.
type stack struct {
	app    *app
	store  *store.Store
	server *server
	conn   *temporalio.Connection
	// telemetry takes what the worker does, and who starts sessions here.
	telemetry *telemetry.Telemetry
	agents    agent.Config
	// file is the worker file.
	file string
	// health is the port where the worker says how it is; 0: none.
	health int
	// ended is closed when the worker has ended, and err then says why.
	ended chan struct{}
	err   error
	log   *logs.Log

	stops []func()
}

// bringUp starts server and worker. What it leaves in the state directory is
// taken up by the next.
func (a *app) bringUp(ctx context.Context, o stackOptions) (_ *stack, err error) {
	log, err := o.log.New(a.env.Stderr, a.environ.get)
	if err != nil {
		return nil, usagef("%w", err)
	}
	executable, err := findServer(a.env.Executable)
	if err != nil {
		return nil, err
	}
	k := &stack{app: a, log: log, ended: make(chan struct{})}
	defer func() {
		if err != nil {
			k.stop()
		}
	}()
	if err := k.prepare(ctx, o); err != nil {
		return nil, err
	}
	if err := k.startTelemetry(ctx, o); err != nil {
		return nil, err
	}
	k.server, err = startServer(ctx, serverOptions{
		executable: executable, port: o.port, uiPort: o.uiPort, headless: o.headless,
		database:   filepath.Join(k.store.Dir(), "temporal", "temporal.db"),
		attributes: searchAttributes(), stderr: a.env.Stderr, say: a.say, now: a.env.Now,
	})
	if err != nil {
		return nil, err
	}
	k.stops = append(k.stops, k.server.stop)
	if k.conn, err = temporalio.DialAddress(ctx, k.server.address, "default", k.sdkLogger(o), k.telemetry.Instrument); err != nil {
		return nil, err
	}
	k.stops = append(k.stops, k.conn.Close)
	if err := k.startWorker(ctx, o); err != nil {
		return nil, err
	}
	return k, k.awaitOffer(ctx)
}

// searchAttributes are those of a session.
func searchAttributes() []temporal.SearchAttributeKey {
	return []temporal.SearchAttributeKey{
		workflows.AttributeTeam, workflows.AttributeStatus, workflows.AttributePhase, workflows.AttributeTokens,
	}
}

// prepare does what can fail because of what a person wrote or runs, before
// anything starts.
func (k *stack) prepare(ctx context.Context, o stackOptions) (err error) {
	if k.store, err = k.app.createStore(true); err != nil {
		return err
	}
	release, err := occupy(filepath.Join(k.store.Dir(), "temporal"), k.app.env.PID)
	if err != nil {
		return err
	}
	k.stops = append(k.stops, release)
	if err := checkPort(ctx, "port", o.port); err != nil {
		return err
	}
	if !o.headless {
		if err := checkPort(ctx, "ui-port", o.uiPort); err != nil {
			return err
		}
	}
	if k.file, err = o.agents(k.store); err != nil {
		return err
	}
	k.agents, err = config.LoadWorker(k.file)
	return err
}

// sdkLogger drops the SDK's warnings, unless more than the usual is asked for: a
// server of our own that comes and goes is told of where it is supervised.
func (k *stack) sdkLogger(o stackOptions) *slog.Logger {
	if o.log.AtLeast(k.app.environ.get) != quietly {
		return k.log.Logger
	}
	return slog.New(errorsOnly{k.log.Handler()})
}

// errorsOnly is a handler that drops what is no error.
type errorsOnly struct{ slog.Handler }

func (h errorsOnly) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelError && h.Handler.Enabled(ctx, l)
}

func (h errorsOnly) WithAttrs(attrs []slog.Attr) slog.Handler {
	return errorsOnly{h.Handler.WithAttrs(attrs)}
}

func (h errorsOnly) WithGroup(name string) slog.Handler { return errorsOnly{h.Handler.WithGroup(name)} }

// startTelemetry begins to export what is asked for.
func (k *stack) startTelemetry(ctx context.Context, o stackOptions) (err error) {
	a := k.app
	k.telemetry, err = host.StartTelemetry(ctx, telemetry.Options{
		Service: host.ServiceName, Version: buildVersion().Version, MetricsAddress: o.metricsAddress,
		Getenv: a.environ.get, Clock: a.env.Now, Logger: k.log.Logger,
	})
	if err != nil {
		return a.served(err)
	}
	k.stops = append(k.stops, func() { a.closeTelemetry(k.telemetry) })
	return nil
}

// startWorker starts the worker in this process.
func (k *stack) startWorker(ctx context.Context, o stackOptions) error {
	env, build := k.app.env, buildinfo.This()
	w, err := host.Setup{
		Config: k.agents, File: k.file, Reloads: o.reloads, StateDir: k.store.Dir(), Connection: k.conn, Getenv: k.app.environ.get,
		Host: env.Host, PID: env.PID, Version: build.String(), Commit: build.Commit, Drain: drainOnOneMachine,
		Telemetry: k.telemetry, WebUI: k.server.ui, Clock: env.Now, Logger: k.log.Logger,
	}.Build()
	if err != nil {
		return &codeError{exitUsage, err}
	}
	k.log.Mask(w.Mask)
	if o.servesHealth {
		port, stop, err := w.ServeHealth(ctx, o.healthPort, k.telemetry)
		if err != nil {
			return k.app.served(err)
		}
		k.health = port
		k.stops = append(k.stops, stop)
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer close(k.ended)
		k.err = w.Run(life)
	}()
	k.stops = append(k.stops, func() {
		end()
		<-k.ended
	})
	return nil
}

// awaitOffer waits until the worker says in the store what it offers: sessions
// are admitted from then on.
func (k *stack) awaitOffer(ctx context.Context) error {
	env := k.app.env
	bounded, cancel := context.WithTimeout(ctx, offerPatience)
	defer cancel()
	ticker := time.NewTicker(admissionPause)
	defer ticker.Stop()
	for {
		offers, err := k.store.Offers(bounded)
		if slices.ContainsFunc(offers, func(o team.Offer) bool {
			return o.Host == env.Host && o.PID == env.PID && o.Live(env.Now())
		}) {
			return nil
		}
		select {
		case <-k.ended:
			return fmt.Errorf("the worker ended: %w", k.err)
		case <-ctx.Done():
			return ctx.Err()
		case <-bounded.Done():
			return errors.Join(failf("the worker did not come up within %s", offerPatience), err)
		case <-ticker.C:
		}
	}
}

// stop stops everything, the worker first.
func (k *stack) stop() {
	for _, stop := range slices.Backward(k.stops) {
		stop()
	}
	k.stops = nil
}

// wait returns when ctx ends, or with an error when the worker does before.
func (k *stack) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-k.ended:
		return fmt.Errorf("the worker ended: %w", errors.Join(k.err, ctx.Err()))
	}
}

// describe says where everything is.
func (k *stack) describe() {
	a := k.app
	a.say("Maestro is up")
	a.say("  Temporal  %s, namespace %s", k.conn.Address, k.conn.Namespace)
	if k.server.ui != "" {
		a.say("  Web UI    %s", k.server.ui)
	}
	a.say("  store     %s in %s", k.store.ID(), k.store.Dir())
	if k.telemetry.Address() != "" {
		a.say("  metrics   %s", k.telemetry.URL())
	}
	if k.health != 0 {
		a.say("  health    http://%s:%d%s and %s", loopback, k.health, host.HealthPath, host.ReadyPath)
	}
	var agents []string
	for _, name := range slices.Sorted(maps.Keys(k.agents.Agents)) {
		agents = append(agents, fmt.Sprintf("%s (%s)", name, k.agents.Agents[name].Kind))
	}
	a.say("  agents    %s, from %s", strings.Join(agents, ", "), k.file)
}

// extract writes an embedded tree into a directory, replacing what it wrote
// there before.
func extract(from fs.FS, dir string) error {
	return fs.WalkDir(from, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(dir, filepath.FromSlash(path))
		if d.IsDir() {
			return os.MkdirAll(target, 0o700)
		}
		data, err := fs.ReadFile(from, path)
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o600)
		if strings.HasSuffix(path, ".sh") {
			mode = 0o700
		}
		return os.WriteFile(target, data, mode)
	})
}
