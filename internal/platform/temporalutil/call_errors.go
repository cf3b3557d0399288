package temporalutil

import (
	"context"
	"errors"

	"go.temporal.io/api/serviceerror"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Unreachable reports whether a call failed because the connection did, or the server is
// not there or not ready: the same call may succeed a moment later.
func Unreachable(err error) bool {
	return is[*serviceerror.Unavailable](err) || is[*serviceerror.DeadlineExceeded](err) || is[*UnreachableError](err) ||
		errors.Is(err, context.DeadlineExceeded) ||
		status.Code(err) == codes.Unavailable || status.Code(err) == codes.DeadlineExceeded
}

// NotFound reports whether the server knows no such workflow.
func NotFound(err error) bool { return is[*serviceerror.NotFound](err) }

// NoNamespace reports whether the server knows no such namespace.
func NoNamespace(err error) bool { return is[*serviceerror.NamespaceNotFound](err) }

// is reports whether an error is of a type, or wraps one.
func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

func isUnauthenticated(err error) bool {
	var withStatus interface{ Status() *status.Status }
	if errors.As(err, &withStatus) {
		return withStatus.Status().Code() == codes.Unauthenticated
	}
	return status.Code(err) == codes.Unauthenticated
}
