package devserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/log/tag"
)

var _ log.WithLogger = (*logger)(nil)

// logger gives Temporal's log to slog, and Temporal's fatal errors to the program: the server would otherwise end
// the process with a stack trace instead of a sentence.
type logger struct {
	sink  *slog.Logger
	fatal func(error)
	// serving is false while services start and stop. What they log then is debug output: they complain that they do not
	// find each other, which is to be expected.
	serving *atomic.Bool
}

func (l *logger) With(tags ...tag.Tag) log.Logger {
	with := *l
	with.sink = slog.New(l.sink.Handler().WithAttrs(attributes(tags)))
	return &with
}

func (l *logger) Debug(msg string, tags ...tag.Tag) { l.log(slog.LevelDebug, msg, tags) }
func (l *logger) Info(msg string, tags ...tag.Tag)  { l.log(slog.LevelInfo, msg, tags) }
func (l *logger) Warn(msg string, tags ...tag.Tag)  { l.log(slog.LevelWarn, msg, tags) }
func (l *logger) Error(msg string, tags ...tag.Tag) { l.log(slog.LevelError, msg, tags) }

// DPanic marks what Temporal's developers hold to be impossible; in production builds it is logged and no more.
func (l *logger) DPanic(msg string, tags ...tag.Tag) { l.log(slog.LevelError, msg, tags) }

func (l *logger) Panic(msg string, tags ...tag.Tag) {
	l.log(slog.LevelError, msg, tags)
	panic(msg)
}

// Fatal never returns, as its callers expect.
func (l *logger) Fatal(msg string, tags ...tag.Tag) {
	err := errors.New(msg)
	for _, t := range tags {
		if cause, ok := tagValue(t).(error); ok {
			err = fmt.Errorf("%s: %w", msg, cause)
			break
		}
	}
	l.fatal(err)
}

func (l *logger) log(level slog.Level, msg string, tags []tag.Tag) {
	ctx := context.Background()
	if !l.serving.Load() {
		level = slog.LevelDebug
	}
	if l.sink.Enabled(ctx, level) {
		l.sink.LogAttrs(ctx, level, msg, attributes(tags)...)
	}
}

func attributes(tags []tag.Tag) []slog.Attr {
	attrs := make([]slog.Attr, len(tags))
	for i, t := range tags {
		attrs[i] = slog.Any(t.Key(), tagValue(t))
	}
	return attrs
}

// tagValue is a tag's value, and for an error the error itself: as a plain value it may be its stack trace.
func tagValue(t tag.Tag) any {
	if field, ok := t.(tag.ZapTag); ok {
		if err, ok := field.Field().Interface.(error); ok {
			return err
		}
	}
	return t.Value()
}
