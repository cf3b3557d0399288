package devserver

import (
	"errors"
	"fmt"
	"sync/atomic"

	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/log/tag"
	"go.uber.org/zap"
)

var _ log.WithLogger = (*logger)(nil)

// logger writes Temporal's errors, and gives fatal ones to the program: the server would otherwise end the process with a stack
// trace instead of a sentence.
type logger struct {
	log.Logger
	fatal func(error)
	// serving is false while services start and stop. What they log then is dropped: they complain that they do not find each
	// other, which is to be expected.
	serving *atomic.Bool
}

func newLogger(fatal func(error), serving *atomic.Bool) *logger {
	lines := log.BuildZapLogger(log.Config{Level: "error", Format: "console"}).WithOptions(zap.AddStacktrace(zap.FatalLevel))
	return &logger{log.NewZapLogger(lines), fatal, serving}
}

func (l *logger) With(tags ...tag.Tag) log.Logger {
	return &logger{log.With(l.Logger, tags...), l.fatal, l.serving}
}

func (l *logger) Error(msg string, tags ...tag.Tag) {
	if l.serving.Load() {
		l.Logger.Error(msg, tags...)
	}
}

// Fatal never returns, as its callers expect.
func (l *logger) Fatal(msg string, tags ...tag.Tag) {
	err := errors.New(msg)
	for _, t := range tags {
		// As a plain value an error may be its stack trace.
		if field, ok := t.(tag.ZapTag); ok {
			if cause, ok := field.Field().Interface.(error); ok {
				err = fmt.Errorf("%s: %w", msg, cause)
				break
			}
		}
	}
	l.fatal(err)
}
