package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/config"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/telemetry"
	"github.com/maestro-hive/maestro/internal/temporalutil"
	"github.com/maestro-hive/maestro/internal/textfmt"
	"github.com/maestro-hive/maestro/workflows"
)

// newConnectionTopic is a page of help: how commands find Temporal.
func newConnectionTopic() *cobra.Command {
	return &cobra.Command{
		Use: "connection", Short: "How commands find Temporal (help topic)",
		Long: "Commands look for Temporal in this order; the first that is set is used:\n\n" +
			"  1. flags: --address, --namespace, --api-key, --tls-... (`maestro list --help` lists them)\n" +
			"  2. the environment: TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TEMPORAL_API_KEY, TEMPORAL_TLS_...\n" +
			"  3. a profile in temporal.toml: --profile or TEMPORAL_PROFILE, --config-file or TEMPORAL_CONFIG_FILE\n" +
			"  4. the `maestro dev` that runs for the store of --state-dir\n" +
			"  5. 127.0.0.1:7233, namespace default\n\n" +
			"`maestro doctor` shows which address is used and whether it answers.",
	}
}

// dial connects to the Temporal that flags, environment and profile name, else to the one
// that `maestro dev` runs for the store.
func (a *app) dial(ctx context.Context) (*temporalutil.Connection, error) {
	a.temporal.StoreDir, a.temporal.Host = a.stateDirectory(), a.env.Host
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
	return temporalutil.Dial(ctx, &a.temporal, a.environ, nil, a.telemetry.Instrument)
}

// dialToLook connects for a command that does not need Temporal. If it cannot be
// reached, the connection is nil, and a note with the consequence is printed.
func (a *app) dialToLook(ctx context.Context, so string) (*temporalutil.Connection, error) {
	conn, err := a.dial(ctx)
	var unreachable *temporalutil.UnreachableError
	if errors.As(err, &unreachable) {
		a.printErr("%s; %s", textfmt.FirstLine(err.Error()), so)
		return nil, nil
	}
	return conn, err
}

// closeTelemetry exports what is left. What cannot be exported is lost; the
// command's outcome does not change.
func (a *app) closeTelemetry(t *telemetry.Telemetry) {
	if err := t.Close(); err != nil {
		a.printErr("the last metrics and traces could not be exported: %s", textfmt.FirstLine(err.Error()))
	}
}

// attributes returns the search attributes of the connection's namespace.
func (a *app) attributes(conn *temporalutil.Connection) *temporalutil.SearchAttributes {
	return temporalutil.NewSearchAttributes(conn, conn.Namespace, a.env.Now, workflows.SearchAttributes()...)
}

// storeDir is the state directory. With create, a missing one is created, and a
// note says where it is if it is not the default.
func (a *app) storeDir(create bool) (string, error) {
	dir, note, err := config.StateDir(a.stateDir, a.environ.get, create)
	if err != nil {
		return "", usagef("%w", err)
	}
	if note != "" && create {
		a.printErr("%s", note)
	}
	return dir, nil
}

// stateDirectory is the directory of the store, if there is one; empty if none is given
// and the default does not exist.
func (a *app) stateDirectory() string {
	dir, _, err := config.StateDir(a.stateDir, a.environ.get, false)
	if err != nil {
		return ""
	}
	return dir
}

// openStore opens the store that a command reads.
func (a *app) openStore() (*store.Store, error) {
	return a.openStoreWith(store.Options{Clock: a.env.Now, Reading: true})
}

// openStoreToWrite opens the store that a command changes.
func (a *app) openStoreToWrite() (*store.Store, error) {
	return a.openStoreWith(store.Options{Clock: a.env.Now})
}

func (a *app) openStoreWith(o store.Options) (*store.Store, error) {
	dir, err := a.storeDir(false)
	if err != nil {
		return nil, err
	}
	s, err := store.Open(dir, o)
	return s, storeError(err)
}

// createStore opens the store, making it if there is none yet.
func (a *app) createStore(mayChoose bool) (*store.Store, error) {
	dir, err := a.storeDir(mayChoose)
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
// none, for commands that do not need it.
func (a *app) findStore() (*store.Store, error) {
	dir, err := a.storeDir(false)
	if err != nil {
		return nil, err
	}
	s, err := store.Open(dir, store.Options{Clock: a.env.Now, Reading: true})
	if errors.Is(err, session.ErrNotFound) {
		return nil, nil
	}
	return s, err
}

// storeOrTemporal opens the store, if there is one, and connects to Temporal; if that cannot be
// reached and there is a store, it says so and the connection is nil.
func (a *app) storeOrTemporal(ctx context.Context) (*store.Store, *temporalutil.Connection, error) {
	s, err := a.findStore()
	if err != nil {
		return nil, nil, err
	}
	conn, err := a.dial(ctx)
	var unreachable *temporalutil.UnreachableError
	if errors.As(err, &unreachable) && s != nil {
		a.printErr("Temporal cannot be reached; showing what the store in %s has: %s", s.Dir(), textfmt.FirstLine(unreachable.Error()))
		return s, nil, nil
	}
	return s, conn, err
}

// storeAndTemporal opens the store, as open does, and connects to Temporal.
func (a *app) storeAndTemporal(ctx context.Context, open func() (*store.Store, error)) (*store.Store, *temporalutil.Connection, error) {
	s, err := open()
	if err != nil {
		return nil, nil, err
	}
	conn, err := a.dial(ctx)
	return s, conn, err
}
