package devserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"

	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/log/tag"
)

var _ log.WithLogger = (*logger)(nil)

// logger gives Temporal's log to slog, and turns Temporal's fatal faults into an error: the server would otherwise end
// the process from wherever it happens to be, with a stack trace instead of a sentence.
type logger struct {
	sink *slog.Logger
	life *lifecycle
}

// lifecycle is what a server's logger has to know about its server, and what a server hears from its logger.
type lifecycle struct {
	// serving is false while services come and go. What they log then is debug output: they complain that they do not
	// find each other, which is to be expected.
	serving atomic.Bool

	once sync.Once
	died chan struct{}
	err  error // the first fatal fault; to be read once died is closed
}

func newLifecycle() *lifecycle { return &lifecycle{died: make(chan struct{})} }

func (l *lifecycle) die(err error) {
	l.once.Do(func() {
		l.err = err
		close(l.died)
	})
}

// absorb, deferred, ends the panic that follows a fatal fault: a sync.OnceValue under which Fatal ends the goroutine
// panics. Other panics continue.
func (l *lifecycle) absorb() {
	select {
	case <-l.died:
		_ = recover()
	default:
	}
}

func (l *logger) With(tags ...tag.Tag) log.Logger {
	return &logger{sink: slog.New(l.sink.Handler().WithAttrs(attributes(tags))), life: l.life}
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

// Fatal never returns, as its callers expect: it records the fault and ends the calling goroutine.
func (l *logger) Fatal(msg string, tags ...tag.Tag) {
	l.log(slog.LevelDebug, msg, tags)
	l.life.die(fatalError(msg, tags))
	runtime.Goexit()
}

func (l *logger) log(level slog.Level, msg string, tags []tag.Tag) {
	ctx := context.Background()
	if !l.life.serving.Load() {
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

// tagValue is a tag's value, and for a fault the error itself: as a plain value it may be its stack trace.
func tagValue(t tag.Tag) any {
	if field, ok := t.(tag.ZapTag); ok {
		if err, ok := field.Field().Interface.(error); ok {
			return err
		}
	}
	return t.Value()
}

func fatalError(msg string, tags []tag.Tag) error {
	for _, t := range tags {
		if err, ok := tagValue(t).(error); ok {
			return fmt.Errorf("%s: %w", msg, err)
		}
	}
	return errors.New(msg)
}
