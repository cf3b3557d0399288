package temporalio

import (
	"context"
	"log/slog"

	"go.temporal.io/sdk/log"
)

// activityError is what the SDK logs as an error and is everyday life here: an
// attempt that fails is part of the work, and told where it belongs.
const activityError = "Activity error."

// newLogger adapts a logger for the SDK; nil drops everything.
func newLogger(logger *slog.Logger) log.Logger {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return log.NewStructuredLogger(slog.New(demoting{logger.Handler()}))
}

// demoting is a handler that takes failed attempts for information.
type demoting struct{ slog.Handler }

// Handle passes a record on, at the level that it deserves.
func (d demoting) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == activityError && r.Level > slog.LevelInfo {
		if !d.Enabled(ctx, slog.LevelInfo) {
			return nil
		}
		r.Level = slog.LevelInfo
	}
	return d.Handler.Handle(ctx, r)
}

// WithAttrs keeps the demotion.
func (d demoting) WithAttrs(attrs []slog.Attr) slog.Handler {
	return demoting{d.Handler.WithAttrs(attrs)}
}

// WithGroup keeps the demotion.
func (d demoting) WithGroup(name string) slog.Handler { return demoting{d.Handler.WithGroup(name)} }
