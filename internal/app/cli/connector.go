package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/api/serviceerror"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/models/config"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/ops/launch"
	"github.com/maestro-hive/maestro/internal/platform/buildinfo"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/worker/telemetry"
)

// connector opens the store and connects to the Temporal that a command's flags name, and looks at
// sessions in them.
type connector struct {
	*target
	console *console
	now     func() time.Time
	host    string
	// telemetry traces what the command starts; nil until it is connected.
	telemetry *telemetry.Telemetry
	// connected is where Temporal was looked for, for messages.
	connected struct{ address, namespace string }
}

// storeDir is the state directory of this user; root continues as the directory's owner.
func (c *connector) storeDir() (string, error) {
	if c.ownersDir != "" {
		return c.ownersDir, nil
	}
	dir, _, err := config.StateDir(c.stateDir, c.environ.get, false)
	if err != nil {
		return "", usagef("%w", err)
	}
	owners, err := config.BecomeOwner(dir)
	if err != nil {
		return "", usagef("%w", err)
	}
	if owners != nil {
		c.ownersDir, c.environ = dir, slices.Concat(c.environ, owners)
	}
	return dir, nil
}

// workerDir is the state directory of a server and a worker on this machine. A missing one is created. A note is printed
// if it is not the default directory.
func (c *connector) workerDir() (string, error) {
	dir, note, err := config.WorkerStateDir(c.stateDir, c.environ.get, true)
	if err != nil {
		return "", usagef("%w", err)
	}
	if note != "" {
		c.console.printErr("%s", note)
	}
	return dir, nil
}

// stateDirectory is the directory of the store, if there is one; empty if none is given
// and the default does not exist.
func (c *connector) stateDirectory() string {
	dir, _ := c.storeDir() // who opens the store gets the error
	return dir
}

// openStore opens the store.
func (c *connector) openStore() (*store.Store, error) {
	dir, err := c.storeDir()
	if err != nil {
		return nil, err
	}
	o, err := c.storeOptions()
	if err != nil {
		return nil, err
	}
	s, err := store.Open(dir, o)
	return s, storeError(err)
}

// createStore opens the store in the directory that find finds, making it if there is none yet.
func (c *connector) createStore(find func() (string, error)) (*store.Store, error) {
	dir, err := find()
	if err != nil {
		return nil, err
	}
	o, err := c.storeOptions()
	if err != nil {
		return nil, err
	}
	s, err := store.Create(dir, o)
	if err != nil {
		return nil, usagef("%w", err)
	}
	return s, nil
}

// storeOptions are the options of the store that flags and environment name.
func (c *connector) storeOptions() (store.Options, error) {
	at, err := c.location.OrFrom(c.environ.get)
	if err != nil {
		return store.Options{}, usagef("%w", err)
	}
	return store.Options{Clock: c.now, Location: at}, nil
}

// findStore opens the store if there is one; nil without an error if there is
// none, for commands that do not need it.
func (c *connector) findStore() (*store.Store, error) {
	s, err := c.openStore()
	if errors.Is(err, session.ErrNotFound) {
		return nil, nil
	}
	return s, err
}

// stored opens the store, and names a session that is in it.
func (c *connector) stored(ctx context.Context, sessionID string) (*store.Store, session.Key, error) {
	key := session.Key{Session: sessionID}
	if err := spec.CheckSession(sessionID); err != nil {
		return nil, key, usagef("%w", err)
	}
	base, _, err := c.storeBase(ctx)
	if err != nil {
		return nil, key, err
	}
	s := base.Store
	key.Namespace = base.Namespace
	known, err := s.State.HasSession(ctx, key)
	if err != nil {
		return nil, key, err
	}
	if !known {
		stored, _ := s.State.SessionNames(ctx, key.Namespace)
		return nil, key, c.sessionNotFound(sessionID, fmt.Sprintf("the store in %s (namespace %s)", s.Dir(), key.Namespace), stored)
	}
	return s, key, nil
}

// sessionNotFound is the error for a session that is not found, with a suggestion of those
// that exist.
func (c *connector) sessionNotFound(sessionID, where string, known []string) error {
	// its directory may be empty
	hint := textfmt.DidYouMean(sessionID, slices.DeleteFunc(known, func(s string) bool { return s == sessionID }))
	if hint == "" {
		hint = fmt.Sprintf("; `%s` lists all sessions", c.commandLine("list"))
	}
	return usagef("session %q not found in %s%s", sessionID, where, hint)
}

// newest is a session's newest checkpoint that can be read. Damage is printed.
func (c *connector) newest(ctx context.Context, s *store.Store, key session.Key) (store.StoredCheckpoint, error) {
	found, err := s.Newest(ctx, key)
	switch {
	case found.Name == "" && errors.Is(err, session.ErrNotFound):
		return found, failf("session %s has no readable checkpoint: %w", key.Session, err)
	case errors.Is(err, session.ErrCorrupt), errors.Is(err, session.ErrNotFound):
		c.console.printDamage(control.Damage{Damage: err.Error()})
		return found, nil
	}
	return found, err
}

// storedTeam is the team of a session's newest checkpoint. Damage is printed.
func (c *connector) storedTeam(ctx context.Context, s *store.Store, key session.Key) (spec.Team, error) {
	newest, err := c.newest(ctx, s, key)
	if err != nil {
		return spec.Team{}, err
	}
	t, err := launch.TeamOf(ctx, s, newest)
	if err != nil {
		return t, failf("%w; give its file with --team", err)
	}
	return t, nil
}

// storeError adds the exit code to an error of a state directory.
func storeError(err error) error {
	if errors.Is(err, session.ErrNotFound) {
		return &codeError{exitUsage, err}
	}
	return err
}

// dial connects to the Temporal that flags, environment and profile name, else to the one
// that `maestro dev` runs for the store.
func (c *connector) dial(ctx context.Context) (*temporalutil.Connection, error) {
	c.temporal.StoreDir, c.temporal.Host = c.stateDirectory(), c.host
	options, err := c.temporal.ClientOptions(c.environ)
	if err != nil {
		return nil, err
	}
	c.connected.address, c.connected.namespace = options.HostPort, options.Namespace
	if c.telemetry == nil {
		c.telemetry, err = telemetry.Start(ctx, telemetry.Options{
			Service: "maestro", Version: buildinfo.This().Version, TracesOnly: true, Getenv: c.environ.get, Clock: c.now,
		})
		if err != nil {
			return nil, usagef("%w", err)
		}
	}
	return temporalutil.Dial(ctx, &c.temporal, c.environ, nil, c.telemetry.Instrument)
}

// closeTelemetry exports what is left. What cannot be exported is lost; the
// command's outcome does not change.
func (c *connector) closeTelemetry() {
	if err := c.telemetry.Close(); err != nil {
		c.console.printErr("the last metrics and traces could not be exported: %s", textfmt.FirstLine(err.Error()))
	}
}

// explain adds to an error of an operation what a person can do.
func (c *connector) explain(ctx context.Context, p *plane, err error) error {
	if unknown, ok := errors.AsType[*control.NotStoredError](err); ok {
		return c.sessionNotFound(unknown.Session, unknown.Where, unknown.Known)
	}
	switch failed := control.ProblemOf(err); failed.Reason {
	case control.Lost:
		return usagef("%w: %s", err, c.commandLine("resume "+failed.Session))
	case control.Slow:
		return failf("%w; check with %s", err, c.commandLine("status "+failed.Session))
	case control.UnknownSession:
		return c.sessionNotFound(failed.Session, p.where(), p.known(ctx))
	default:
		return err
	}
}

// describeError is an error's text for people.
func (c *connector) describeError(err error) string {
	if coded, ok := errors.AsType[*codeError](err); ok {
		return coded.Error()
	}
	if unreachable, ok := errors.AsType[*temporalutil.UnreachableError](err); ok {
		return unreachable.Error()
	}
	switch {
	case temporalutil.NoNamespace(err):
		return c.noNamespace(err)
	case errors.Is(err, context.Canceled):
		return "interrupted"
	case temporalutil.Unreachable(err):
		return fmt.Sprintf("the connection to Temporal was lost (%s); check that it runs, and try again",
			textfmt.FirstLine(err.Error()))
	}
	return err.Error()
}

func (c *connector) noNamespace(err error) string {
	name := c.connected.namespace
	if missing, ok := errors.AsType[*serviceerror.NamespaceNotFound](err); ok && missing.Namespace != "" {
		name = missing.Namespace
	}
	return fmt.Sprintf("namespace %[2]q not found in Temporal at %[1]s; choose another with --namespace, or create it: temporal "+
		"operator namespace create --namespace %s",
		c.connected.address, name, name)
}

// opener opens what operations of this process work on. The returned function ends it.
type opener func(ctx context.Context) (*control.Base, func(), error)

// storeBase opens the store, for operations that need nothing else.
func (c *connector) storeBase(context.Context) (*control.Base, func(), error) {
	s, err := c.openStore()
	if err != nil {
		return nil, nil, err
	}
	return c.connectedBase(nil, s)
}

// temporalBase connects to Temporal and then opens the store, as open does: a start makes no store in vain.
func (c *connector) temporalBase(open func() (*store.Store, error)) opener {
	return c.lookBase(open, "")
}

// lookBase is like temporalBase, for operations that change nothing: if Temporal cannot be reached and there is a store,
// a note with the consequence is printed. Without a consequence it is an error.
func (c *connector) lookBase(open func() (*store.Store, error), so string) opener {
	return func(ctx context.Context) (*control.Base, func(), error) {
		conn, away := c.dial(ctx)
		if away != nil && (so == "" || !is[*temporalutil.UnreachableError](away)) {
			return nil, nil, away
		}
		s, err := open()
		switch {
		case err == nil && away != nil && s == nil:
			err = away
		case err == nil && away != nil:
			c.console.printErr("%s; %s", textfmt.FirstLine(away.Error()), so)
		}
		if err != nil {
			if conn != nil {
				conn.Close()
			}
			return nil, nil, err
		}
		return c.connectedBase(conn, s)
	}
}

// storeOrTemporalBase needs only one of store and Temporal.
func (c *connector) storeOrTemporalBase(ctx context.Context) (*control.Base, func(), error) {
	return c.lookBase(c.findStore, "showing what the store in "+c.stateDirectory()+" has")(ctx)
}

// connectedBase is what operations work on. Connection and store may be nil. Changes are recorded in the store's audit
// log.
func (c *connector) connectedBase(conn *temporalutil.Connection, s *store.Store) (base *control.Base, done func(), err error) {
	base, done = &control.Base{Temporal: control.Connected(conn), Store: s, Now: c.now}, func() {}
	if s != nil {
		base.Audit = access.NewAudit(s.State, c.now)
	}
	if conn == nil {
		base.Namespace, err = c.namespace()
		return base, done, err
	}
	base.Namespace = conn.Namespace
	return base, conn.Close, nil
}
