package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/api/serviceerror"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/ops/control"
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

// stored opens the store, and names a session that is in it.
func (c *connector) stored(ctx context.Context, sessionID string) (*store.Store, session.Key, error) {
	base, _, err := c.storeBase(ctx)
	if err != nil {
		return nil, session.Key{}, err
	}
	s, key, err := base.InStore(ctx, sessionID)
	return s, key, c.explain(err)
}

// storedTeam is the team of a session's newest checkpoint. Damage is printed.
func (c *connector) storedTeam(ctx context.Context, p *backend, sessionID string) (spec.Team, error) {
	t, damage, err := p.base.TeamOf(ctx, sessionID)
	c.console.printDamage(damage)
	return t, c.explain(err)
}

// storeError adds the exit code to an error of a state directory.
func storeError(err error) error {
	if errors.Is(err, session.ErrNotFound) {
		return &codeError{exitUsage, err}
	}
	return err
}

// closeTelemetry exports what is left. What cannot be exported is lost; the
// command's outcome does not change.
func (c *connector) closeTelemetry() {
	if err := c.telemetry.Close(); err != nil {
		c.console.printErr("the last metrics and traces could not be exported: %s", textfmt.FirstLine(err.Error()))
	}
}

// explain adds to an error of an operation what a person can do.
func (c *connector) explain(err error) error {
	switch failed := control.ProblemOf(err); failed.Reason {
	case control.Lost:
		return usagef("%w: %s", err, c.commandLine("resume "+failed.Session))
	case control.Slow:
		return failf("%w; check with %s", err, c.commandLine("status "+failed.Session))
	case control.UnknownSession:
		if strings.Contains(err.Error(), "did you mean") {
			return usagef("%w", err)
		}
		return usagef("%w; `%s` lists all sessions", err, c.commandLine("list"))
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

// storeBase opens the store, for operations that need nothing else.
func (c *connector) storeBase(context.Context) (*control.Base, func(), error) {
	s, err := c.openStore()
	if err != nil {
		return nil, nil, err
	}
	return c.connectedBase(nil, s)
}

// shownBase is for operations that show what the store has if Temporal cannot be reached.
func (c *connector) shownBase(ctx context.Context) (*control.Base, func(), error) {
	return c.lookBase(c.openStore, "showing what the store in "+c.stateDirectory()+" has")(ctx)
}
