package cli

import (
	"context"
	"errors"
	"fmt"

	"go.temporal.io/api/serviceerror"

	"github.com/maestro-hive/maestro/internal/apply"
	"github.com/maestro-hive/maestro/internal/cas"
	"github.com/maestro-hive/maestro/internal/cmdline"
	"github.com/maestro-hive/maestro/internal/config"
	"github.com/maestro-hive/maestro/internal/localdev"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/sessionstatus"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/temporalutil"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// The exit codes.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitHelp        = 3
	exitUnreachable = 4
	// exitInterrupted is what shells give to a program that was interrupted.
	exitInterrupted = 130
)

// codeError is an error with an exit code. A codeError without an
// error prints nothing.
type codeError struct {
	code int
	err  error
}

func (e *codeError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *codeError) Unwrap() error { return e.err }

// usagef is an error of usage or input.
func usagef(format string, args ...any) error {
	return &codeError{exitUsage, fmt.Errorf(format, args...)}
}

// failf is a failure of an operation.
func failf(format string, args ...any) error {
	return &codeError{exitFailed, fmt.Errorf(format, args...)}
}

// exit ends a command without a further message.
func exit(code int) error {
	if code == exitDone {
		return nil
	}
	return &codeError{code: code}
}

// exitCode is the exit code of an error.
func exitCode(err error) int {
	var coded *codeError
	var typed *cmdline.UsageError
	var faults *config.Problems
	var connection *temporalutil.ConfigError
	var unreachable *temporalutil.UnreachableError
	var refused *temporalutil.RefusedError
	var path *cas.RefusedError
	var other *sessionstatus.OtherWorkflowError
	var setup *localdev.SetupError
	var refusedBranch *apply.RefusedError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &coded):
		return coded.code
	case errors.As(err, &typed), errors.As(err, &faults), errors.As(err, &connection), errors.As(err, &path), errors.As(err, &other), errors.As(err, &refusedBranch), temporalutil.NoNamespace(err):
		return exitUsage
	case errors.As(err, &unreachable), errors.As(err, &refused), temporalutil.Lost(err):
		return exitUnreachable
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.As(err, &setup):
		return exitUsage
	}
	return exitFailed
}

// describeError is an error's text for people.
func (a *app) describeError(err error) string {
	var coded *codeError
	var unreachable *temporalutil.UnreachableError
	switch {
	case errors.As(err, &coded):
		return coded.Error()
	case errors.As(err, &unreachable):
		return unreachable.Error()
	case temporalutil.NoNamespace(err):
		return a.noNamespace(err)
	case errors.Is(err, context.Canceled):
		return "interrupted"
	case temporalutil.Lost(err):
		return fmt.Sprintf("the connection to Temporal was lost (%s); check that it runs, and try again", textfmt.FirstLine(err.Error()))
	}
	return err.Error()
}

func (a *app) noNamespace(err error) string {
	var missing *serviceerror.NamespaceNotFound
	name := a.connected.namespace
	if errors.As(err, &missing) && missing.Namespace != "" {
		name = missing.Namespace
	}
	return fmt.Sprintf("namespace %[2]q not found in Temporal at %[1]s; choose another with --namespace, or create it: temporal operator namespace create --namespace %s",
		a.connected.address, name, name)
}

// storeError adds the exit code to an error of a state directory.
func storeError(err error) error {
	var owner *store.OwnerError
	if errors.Is(err, session.ErrNotFound) || errors.As(err, &owner) {
		return &codeError{exitUsage, err}
	}
	return err
}
