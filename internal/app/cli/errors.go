package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/maestro-hive/maestro/internal/app/localdev"
	"github.com/maestro-hive/maestro/internal/faces/client"
	"github.com/maestro-hive/maestro/internal/models/config"
	"github.com/maestro-hive/maestro/internal/ops/apply"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/ops/sessionstatus"
	"github.com/maestro-hive/maestro/internal/platform/cmdline"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
	"github.com/maestro-hive/maestro/internal/store/cas"
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
	coded, _ := errors.AsType[*codeError](err)
	failed, _ := errors.AsType[*control.Error](err)
	stranger, _ := errors.AsType[*client.RefusedError](err)
	switch {
	case err == nil:
		return exitDone
	case coded != nil:
		return coded.code
	case failed != nil && (failed.Kind == control.Invalid || failed.Kind == control.NotFound), stranger != nil && stranger.Nobody,
		is[*cmdline.UsageError](err), is[*config.Problems](err), is[*temporalutil.ConfigError](err), is[*cas.RefusedError](err),
		is[*sessionstatus.OtherWorkflowError](err), is[*apply.RefusedError](err), is[*client.OptionError](err),
		temporalutil.NoNamespace(err):
		return exitUsage
	case is[*temporalutil.UnreachableError](err), is[*temporalutil.RefusedError](err), lostConnection(err):
		return exitUnreachable
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	case is[*localdev.SetupError](err):
		return exitUsage
	}
	return exitFailed
}

// is reports whether an error is one of a type.
func is[T error](err error) bool {
	_, ok := errors.AsType[T](err)
	return ok
}

// flagOf are the flags of inputs that have other names.
var flagOf = map[string]string{"supplied": "input", "edits": "edit", "decisions": "decision"}

// inputError is an error of an operation, with the flag that gave the wrong input.
func inputError(err error) error {
	// names are arguments
	if wrong, ok := errors.AsType[*control.Error](err); ok && wrong.Kind == control.Invalid && wrong.Field != "" &&
		wrong.Field != "name" {
		return usagef("--%s: %w", cmp.Or(flagOf[wrong.Field], strings.ReplaceAll(wrong.Field, "_", "-")), err)
	}
	return err
}
