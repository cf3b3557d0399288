package temporalutil

import (
	"context"
	"errors"

	"go.temporal.io/api/serviceerror"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Lost reports whether a call failed because the connection did, or the server is
// not there or not ready: the same call may succeed a moment later.
func Lost(err error) bool {
	var unavailable *serviceerror.Unavailable
	var unreachable *UnreachableError
	var deadline *serviceerror.DeadlineExceeded
	return errors.As(err, &unavailable) || errors.As(err, &unreachable) || errors.As(err, &deadline) ||
		errors.Is(err, context.DeadlineExceeded) ||
		status.Code(err) == codes.Unavailable || status.Code(err) == codes.DeadlineExceeded
}

// NotFound reports whether the server knows no such workflow.
func NotFound(err error) bool {
	var notFound *serviceerror.NotFound
	return errors.As(err, &notFound)
}

// NoNamespace reports whether the server knows no such namespace.
func NoNamespace(err error) bool {
	var missing *serviceerror.NamespaceNotFound
	return errors.As(err, &missing)
}

func isUnauthenticated(err error) bool {
	var withStatus interface{ Status() *status.Status }
	if errors.As(err, &withStatus) {
		return withStatus.Status().Code() == codes.Unauthenticated
	}
	return status.Code(err) == codes.Unauthenticated
}
