package service

import (
	"errors"

	"github.com/maestro-hive/maestro/internal/temporalutil"
)

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
