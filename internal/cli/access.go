package cli

import (
	"context"
	"errors"

	"github.com/maestro-hive/maestro/internal/config"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/team"
	"github.com/maestro-hive/maestro/internal/telemetry"
	"github.com/maestro-hive/maestro/internal/temporalio"
	"github.com/maestro-hive/maestro/workflows"
)

// dial connects to the Temporal that flags, environment and profile name.
func (a *app) dial(ctx context.Context) (*temporalio.Connection, error) {
	options, err := a.temporal.ClientOptions(a.environ)
	if err != nil {
		return nil, err
	}
	a.connected.address, a.connected.namespace = options.HostPort, options.Namespace
	if a.telemetry == nil {
		a.telemetry, err = telemetry.Start(ctx, telemetry.Options{
			Service: "maestro", Version: buildVersion().Version, TracesOnly: true, Getenv: a.environ.get, Clock: a.env.Now,
		})
		if err != nil {
			return nil, usagef("%w", err)
		}
	}
	return temporalio.Dial(ctx, &a.temporal, a.environ, nil, a.telemetry.Instrument)
}

// dialToLook connects for a command that can do without Temporal. Where it cannot be
// reached, the connection is nil, and a person is told what follows from that.
func (a *app) dialToLook(ctx context.Context, so string) (*temporalio.Connection, error) {
	conn, err := a.dial(ctx)
	var unreachable *temporalio.UnreachableError
	if errors.As(err, &unreachable) {
		a.say("%s; %s", team.FirstLine(err.Error()), so)
		return nil, nil
	}
	return conn, err
}

// closeTelemetry exports what is left. What cannot be exported is lost, and the
// command is none the worse for it.
func (a *app) closeTelemetry(t *telemetry.Telemetry) {
	if err := t.Close(); err != nil {
		a.say("the last metrics and traces are lost: %s", team.FirstLine(err.Error()))
	}
}

// attributes knows the search attributes of the connection's namespace.
func (a *app) attributes(conn *temporalio.Connection) *temporalio.SearchAttributes {
	return temporalio.NewSearchAttributes(conn, conn.Namespace, a.env.Now, workflows.SearchAttributes()...)
}

// storeDir is the state directory. Where it is not the usual one, a person is
// told, unless quiet, and once.
func (a *app) storeDir(create, quiet bool) (string, error) {
	dir, note, err := config.StateDir(a.stateDir, a.environ.get, create)
	if err != nil {
		return "", usagef("%w", err)
	}
	if note != "" && !quiet && !a.noted {
		a.say("%s", note)
		a.noted = true
	}
	return dir, nil
}

// openStore opens the store that a command needs.
func (a *app) openStore() (*store.Store, error) {
	dir, err := a.storeDir(false, false)
	if err != nil {
		return nil, err
	}
	s, err := store.Open(dir, store.Options{Clock: a.env.Now})
	return s, storeError(err)
}

// createStore opens the store, making it if there is none yet.
func (a *app) createStore(mayChoose bool) (*store.Store, error) {
	dir, err := a.storeDir(mayChoose, false)
	if err != nil {
		return nil, err
	}
	s, err := store.Create(dir, store.Options{Clock: a.env.Now})
	if err != nil {
		return nil, usagef("%w", err)
	}
	return s, nil
}

// findStore opens the store if there is one; nil without an error if there is
// none, for commands that can do without.
func (a *app) findStore() (*store.Store, error) {
	dir, err := a.storeDir(false, true)
	if err != nil {
		return nil, err
	}
	s, err := store.Open(dir, store.Options{Clock: a.env.Now})
	if errors.Is(err, team.ErrNotFound) {
		return nil, nil
	}
	return s, err
}

// both opens the store, as open does, and connects to Temporal.
func (a *app) both(ctx context.Context, open func() (*store.Store, error)) (*store.Store, *temporalio.Connection, error) {
	s, err := open()
	if err != nil {
		return nil, nil, err
	}
	conn, err := a.dial(ctx)
	return s, conn, err
}
