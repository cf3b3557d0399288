package cas

import (
	"context"
	"errors"
	"strconv"
	"syscall"

	"github.com/maestro-hive/maestro/internal/textfmt"
)

// RefusedError says that something in a directory cannot become part of a tree.
type RefusedError struct {
	// Path is what is refused, relative to the directory.
	Path string
	// Reason says why, and what would be right.
	Reason string
}

// Error names the path and the reason.
func (e *RefusedError) Error() string {
	return strconv.Quote(textfmt.Shorten(e.Path, 120)) + " " + e.Reason
}

// hostErrors are what a host is short of, whatever is in a tree.
var hostErrors = []error{
	context.Canceled, context.DeadlineExceeded,
	syscall.EIO, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.ESTALE, syscall.EINTR,
}

// ofTree is the error of a step that only touches a tree that an agent has left: unless
// it is the host's, what is at the path is to blame, and will be again.
func ofTree(p, what string, err error) error {
	var refused *RefusedError
	if err == nil || errors.As(err, &refused) {
		return err
	}
	for _, h := range hostErrors {
		if errors.Is(err, h) {
			return err
		}
	}
	return &RefusedError{p, "cannot be " + what + ": " + rootCause(err).Error() + "; make it accessible, remove it, or ignore it"}
}

// rootCause leaves out what was done when an error came up: the path is named already.
func rootCause(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}
