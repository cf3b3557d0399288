package localdev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/models/agent"
	"github.com/maestro-hive/maestro/internal/models/config"
	"github.com/maestro-hive/maestro/internal/platform/buildinfo"
	"github.com/maestro-hive/maestro/internal/platform/logs"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/worker/service"
	"github.com/maestro-hive/maestro/worker/telemetry"
)

// offerPatience bounds the wait for the worker in this process to serve.
const offerPatience = 20 * time.Second

// drainOnOneMachine is how long attempts may continue when server and worker stop
// together: what is not done by then is taken up at the next start.
const drainOnOneMachine = 2 * time.Second

// pollPause lies between two looks for the worker's offer.
const pollPause = 100 * time.Millisecond

// Options say what to run on one machine.
type Options struct {
	// Server is the path of the Temporal server's program; see [FindServer].
	Server string
	// Store is where everything is kept.
	Store *store.Store
	// Port and UIPort are the server's and its Web UI's; 0 takes a free one. Headless
	// leaves the Web UI out.
	Port, UIPort uint16
	Headless     bool
	// Agents finds the worker file.
	Agents func() (path string, err error)
	// Reloads asks for the worker file to be read again.
	Reloads <-chan os.Signal
	// MetricsAddress is where the worker serves metrics; empty: nowhere.
	MetricsAddress string
	// HealthPort is where the worker says how it is, if ServesHealth.
	HealthPort   int
	ServesHealth bool
	// Log is the worker's, and SDKLog that of Temporal's SDK.
	Log, SDKLog *logs.Log
	// Stderr gets the server's own messages, and Say ours about it.
	Stderr io.Writer
	Say    func(format string, args ...any)
	// Getenv reads the environment, Now the clock.
	Getenv func(string) string
	Now    func() time.Time
	// Host is the machine's name, and PID this process's number.
	Host string
	PID  int
}

// A SetupError says that what was asked for, or what a file says, cannot be run.
type SetupError struct{ err error }

func (e *SetupError) Error() string { return e.err.Error() }

// Unwrap returns what is wrong.
func (e *SetupError) Unwrap() error { return e.err }

// setup marks an error as a configuration error, unless it is a listen error.
func setup(err error) error {
	if errors.Is(err, service.ErrServing) {
		return err
	}
	return &SetupError{err}
}

// Stack is a Temporal server and a worker on one machine.
type Stack struct {
	// Store is where everything is kept.
	Store *store.Store
	// Conn is a connection to the server.
	Conn *temporalutil.Connection
	// Telemetry takes what the worker does, and who starts sessions here.
	Telemetry *telemetry.Telemetry
	// Agents is what the worker offers, as of File, the worker file.
	Agents agent.Config
	File   string
	// HealthPort is where the worker says how it is; 0: nowhere.
	HealthPort int

	options Options
	server  *server
	// ended is closed when the worker has ended, and err then says why.
	ended chan struct{}
	err   error

	stops []func()
}

// Start returns when the worker serves what its file offers. The store's directory says from
// then until [Stack.Stop] where the server is; see [temporalutil.FindLocal]. Where it fails, nothing
// is left running, and faults of what was asked for are [SetupError] or of package
// config.
func Start(ctx context.Context, o Options) (_ *Stack, err error) {
	k := &Stack{Store: o.Store, options: o, ended: make(chan struct{})}
	defer func() {
		if err != nil {
			k.Stop()
		}
	}()
	if err := k.prepare(); err != nil {
		return nil, err
	}
	if err := k.startTelemetry(ctx); err != nil {
		return nil, err
	}
	if k.server, err = startServer(ctx, o); err != nil {
		return nil, err
	}
	k.stops = append(k.stops, k.server.stop)
	if k.Conn, err = temporalutil.DialAddress(ctx, k.server.address, "default", o.SDKLog.Logger,
		k.Telemetry.Instrument); err != nil {
		return nil, err
	}
	k.stops = append(k.stops, k.Conn.Close)
	file, err := filepath.Abs(k.File)
	if err != nil {
		return nil, err
	}
	withdraw, err := temporalutil.Announce(o.Store.Dir(), temporalutil.LocalServer{
		Address: k.Conn.Address, Namespace: k.Conn.Namespace, WebUI: k.server.ui, Host: o.Host, PID: o.PID, WorkerFile: file,
		Reloads: o.Reloads != nil,
	})
	if err != nil {
		return nil, err
	}
	k.stops = append(k.stops, withdraw)
	if err := k.startWorker(ctx); err != nil {
		return nil, err
	}
	return k, k.awaitOffer(ctx)
}

// WebUI is where the Web UI is; empty: there is none.
func (k *Stack) WebUI() string { return k.server.ui }

// prepare does what can fail because of what a person wrote or runs, before
// anything starts.
func (k *Stack) prepare() (err error) {
	o := k.options
	if other, lives := temporalutil.FindLocal(o.Store.Dir(), o.Host); lives {
		return fmt.Errorf("another `maestro dev` or `maestro demo` (process %d) is running on %s; stop it, use it, or choose another "+
			"--state-dir", other.PID, o.Store.Dir())
	}
	if k.File, err = o.Agents(); err != nil {
		return err
	}
	k.Agents, err = config.LoadWorker(k.File)
	return err
}

// startTelemetry begins to export what is asked for. What is left in the end and cannot
// be exported is lost, which does not affect the stack.
func (k *Stack) startTelemetry(ctx context.Context) (err error) {
	o := k.options
	k.Telemetry, err = service.StartTelemetry(ctx, telemetry.Options{
		Service: service.ServiceName, Version: buildinfo.This().Version, MetricsAddress: o.MetricsAddress,
		Getenv: o.Getenv, Clock: o.Now, Logger: o.Log.Logger,
	})
	if err != nil {
		return setup(err)
	}
	k.stops = append(k.stops, func() {
		if err := k.Telemetry.Close(); err != nil {
			o.Say("the last metrics and traces could not be exported: %s", textfmt.FirstLine(err.Error()))
		}
	})
	return nil
}

// startWorker starts the worker in this process.
func (k *Stack) startWorker(ctx context.Context) error {
	o, build := k.options, buildinfo.This()
	w, err := service.Setup{
		Config: k.Agents, File: k.File, Reloads: o.Reloads, StateDir: o.Store.Dir(), Location: o.Store.Location(),
		Connection: k.Conn, Getenv: o.Getenv, Host: o.Host, PID: o.PID, Version: build.String(), Commit: build.Commit,
		Drain: drainOnOneMachine, Telemetry: k.Telemetry, WebUI: k.server.ui, Clock: o.Now, Logger: o.Log.Logger,
	}.Build()
	if err != nil {
		return setup(err)
	}
	o.Log.Mask(w.Mask)
	o.SDKLog.Mask(w.Mask)
	if o.ServesHealth {
		port, stop, err := w.ServeHealth(ctx, o.HealthPort, k.Telemetry)
		if err != nil {
			return setup(err)
		}
		k.HealthPort = port
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
func (k *Stack) awaitOffer(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, offerPatience)
	defer cancel()
	ticker := time.NewTicker(pollPause)
	defer ticker.Stop()
	for {
		offers, _ := k.Store.State.Offers(bounded) // it is asked again
		if slices.ContainsFunc(offers, func(o spec.Offer) bool {
			return o.Host == k.options.Host && o.PID == k.options.PID && o.Live(k.options.Now())
		}) {
			return nil
		}
		select {
		case <-k.ended:
			return fmt.Errorf("the worker ended: %w", k.err)
		case <-ctx.Done():
			return ctx.Err()
		case <-bounded.Done():
			return fmt.Errorf("the worker did not start within %s", offerPatience)
		case <-ticker.C:
		}
	}
}

// Stop stops everything, the worker first.
func (k *Stack) Stop() {
	for _, stop := range slices.Backward(k.stops) {
		stop()
	}
	k.stops = nil
}

// Wait returns when ctx ends, or with an error when the worker does before.
func (k *Stack) Wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-k.ended:
		return fmt.Errorf("the worker ended: %w", errors.Join(k.err, ctx.Err()))
	}
}
