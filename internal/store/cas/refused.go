package cas

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"syscall"

	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// RefusedError says that something in a directory cannot be part of a tree.
type RefusedError struct {
	// Path is the refused path, relative to the directory.
	Path string
	// Reason says why, and what to do.
	Reason string
}

// Error names the path and the reason.
func (e *RefusedError) Error() string {
	return strconv.Quote(textfmt.Shorten(e.Path, 120)) + " " + e.Reason
}

// hostErrors are caused by the host, not by the content of a tree.
var hostErrors = []error{
	context.Canceled, context.DeadlineExceeded,
	syscall.EIO, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.ESTALE,
	syscall.EINTR,
}

// ofTree classifies the error of a step that works on an agent's files. Unless it is one of the
// hostErrors, the file at the path is the cause and a retry would fail again, so the error
// becomes a [*RefusedError].
func ofTree(p, what string, err error) error {
	if _, refused := errors.AsType[*RefusedError](err); err == nil || refused {
		return err
	}
	if slices.ContainsFunc(hostErrors, func(host error) bool { return errors.Is(err, host) }) {
		return err
	}
	return &RefusedError{p, "cannot be " + what + ": " + rootCause(err).Error() + "; make it accessible, remove it, or ignore it"}
}

// rootCause returns the innermost error, because the path is named already.
func rootCause(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}
