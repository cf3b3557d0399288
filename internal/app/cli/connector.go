package cli

import (
	"context"
	"errors"
	"fmt"

	"go.temporal.io/api/serviceerror"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/ops/sessionstatus"
	"github.com/maestro-hive/maestro/internal/platform/buildinfo"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/worker/telemetry"
)

// connector connects to the Temporal that a command's flags name, and looks at sessions in it
// and in the store.
type connector struct {
	*storeOpener
	host string
	// telemetry traces what the command starts; nil until it is connected.
	telemetry *telemetry.Telemetry
	// connected is where Temporal was looked for, for messages.
	connected struct{ address, namespace string }
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

// dialToLook connects for a command that does not need Temporal. If it cannot be
// reached, the connection is nil, and a note with the consequence is printed.
func (c *connector) dialToLook(ctx context.Context, so string) (*temporalutil.Connection, error) {
	conn, err := c.dial(ctx)
	var unreachable *temporalutil.UnreachableError
	if errors.As(err, &unreachable) {
		c.console.printErr("%s; %s", textfmt.FirstLine(err.Error()), so)
		return nil, nil
	}
	return conn, err
}

// closeTelemetry exports what is left. What cannot be exported is lost; the
// command's outcome does not change.
func (c *connector) closeTelemetry() {
	if err := c.telemetry.Close(); err != nil {
		c.console.printErr("the last metrics and traces could not be exported: %s", textfmt.FirstLine(err.Error()))
	}
}

// storeOrTemporal opens the store, if there is one, and connects to Temporal; if that cannot be
// reached and there is a store, it says so and the connection is nil.
func (c *connector) storeOrTemporal(ctx context.Context) (*store.Store, *temporalutil.Connection, error) {
	s, err := c.findStore()
	if err != nil {
		return nil, nil, err
	}
	conn, err := c.dial(ctx)
	var unreachable *temporalutil.UnreachableError
	if errors.As(err, &unreachable) && s != nil {
		c.console.printErr("Temporal cannot be reached; showing what the store in %s has: %s", s.Dir(), textfmt.FirstLine(unreachable.Error()))
		return s, nil, nil
	}
	return s, conn, err
}

// storeAndTemporal opens the store, as open does, and connects to Temporal.
func (c *connector) storeAndTemporal(ctx context.Context, open func() (*store.Store, error)) (*store.Store, *temporalutil.Connection, error) {
	s, err := open()
	if err != nil {
		return nil, nil, err
	}
	conn, err := c.dial(ctx)
	return s, conn, err
}

// explainLook is the error for an unknown session, with where it was searched and a suggestion.
func (c *connector) explainLook(ctx context.Context, p *plane, sessionID string, err error) error {
	if !errors.Is(err, sessionstatus.ErrUnknown) {
		return err
	}
	return c.sessionNotFound(sessionID, p.where(), p.known(ctx))
}

// explain is [connector.explainIn] for operations of this process.
func (c *connector) explain(ctx context.Context, base *control.Base, err error) error {
	return c.explainIn(ctx, &plane{base: base}, err)
}

// explainIn adds to an error of an operation what a person can do.
func (c *connector) explainIn(ctx context.Context, p *plane, err error) error {
	if unknown, ok := errors.AsType[*control.NotStoredError](err); ok {
		return c.sessionNotFound(unknown.Session, unknown.Where, unknown.Known)
	}
	switch failed := control.ProblemOf(err); failed.Reason {
	case control.Lost:
		return usagef("%w: %s", err, c.commandLine("resume "+failed.Session))
	case control.Slow:
		return failf("%w; check with %s", err, c.commandLine("status "+failed.Session))
	case control.UnknownSession:
		return c.explainLook(ctx, p, failed.Session, err)
	}
	return err
}

// describeError is an error's text for people.
func (c *connector) describeError(err error) string {
	var coded *codeError
	var unreachable *temporalutil.UnreachableError
	switch {
	case errors.As(err, &coded):
		return coded.Error()
	case errors.As(err, &unreachable):
		return unreachable.Error()
	case temporalutil.NoNamespace(err):
		return c.noNamespace(err)
	case errors.Is(err, context.Canceled):
		return "interrupted"
	case temporalutil.Lost(err):
		return fmt.Sprintf("the connection to Temporal was lost (%s); check that it runs, and try again", textfmt.FirstLine(err.Error()))
	}
	return err.Error()
}

func (c *connector) noNamespace(err error) string {
	var missing *serviceerror.NamespaceNotFound
	name := c.connected.namespace
	if errors.As(err, &missing) && missing.Namespace != "" {
		name = missing.Namespace
	}
	return fmt.Sprintf("namespace %[2]q not found in Temporal at %[1]s; choose another with --namespace, or create it: temporal operator namespace create --namespace %s",
		c.connected.address, name, name)
}

// base is what operations work on. Connection and store may be nil. Changes are recorded in the
// store's audit log.
func (c *connector) base(conn *temporalutil.Connection, s *store.Store, namespace string) *control.Base {
	base := &control.Base{Temporal: control.Connected(conn), Store: s, Namespace: namespace, Now: c.now}
	if s != nil {
		base.Audit = access.NewAudit(s.State, c.now)
	}
	return base
}

// reading has the operations that read only the store, or a server.
func (c *connector) reading(ctx context.Context) (*plane, error) {
	return c.plane(ctx, func(context.Context) (*control.Base, func(), error) {
		base, err := c.storeBase()
		return base, func() {}, err
	})
}

// storeBase is what operations work on that need only the store.
func (c *connector) storeBase() (*control.Base, error) {
	s, namespace, err := c.inNamespace(c.openStore)
	if err != nil {
		return nil, err
	}
	return c.base(nil, s, namespace), nil
}

// storeOrTemporalBase is what operations work on that need only one of store and Temporal. The
// returned function ends it.
func (c *connector) storeOrTemporalBase(ctx context.Context) (*control.Base, func(), error) {
	s, conn, err := c.storeOrTemporal(ctx)
	if err != nil {
		return nil, nil, err
	}
	if conn == nil {
		namespace, err := c.namespace()
		return c.base(nil, s, namespace), func() {}, err
	}
	return c.base(conn, s, conn.Namespace), conn.Close, nil
}

// temporalBase is what operations work on that need Temporal. The returned function ends it.
func (c *connector) temporalBase(ctx context.Context) (*control.Base, func(), error) {
	s, conn, err := c.storeAndTemporal(ctx, c.findStore)
	if err != nil {
		return nil, nil, err
	}
	return c.base(conn, s, conn.Namespace), conn.Close, nil
}

// startingBase is what operations work on that start sessions of the store that open opens, once
// Temporal is reached. The returned function ends it.
func (c *connector) startingBase(ctx context.Context, open func() (*store.Store, error)) (*control.Base, func(), error) {
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, nil, err
	}
	s, err := open()
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return c.base(conn, s, conn.Namespace), conn.Close, nil
}

// watcherOf looks at a session.
func watcherOf(base *control.Base, sessionID string) *sessionstatus.Watcher {
	return &sessionstatus.Watcher{Conn: base.Temporal(), Namespace: base.Namespace, Store: base.Store, Session: sessionID, Now: base.Now}
}
