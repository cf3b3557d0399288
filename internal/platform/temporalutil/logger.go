package temporalutil

import (
	"context"
	"log/slog"
	"strings"

	"go.temporal.io/sdk/log"

	"github.com/maestro-hive/maestro/internal/platform/logs"
)

// newLogger adapts a logger for the SDK; nil drops everything.
func newLogger(logger *slog.Logger) log.Logger {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return log.NewStructuredLogger(slog.New(translating{logger.Handler()}))
}

// everyday are the SDK's messages that get another level. A failed or cancelled attempt is part of
// normal work and is reported elsewhere, and that queues are polled is normal.
var everyday = map[string]slog.Level{
	"Activity error.":                    slog.LevelDebug,
	"RecordActivityHeartbeat with error": slog.LevelDebug,
	"Started Worker":                     slog.LevelDebug,
	"Stopped Worker":                     slog.LevelDebug,
}

// names are Maestro's names of the SDK's log attributes; attributes without one are the same for
// all lines of a worker, or not useful.
var names = map[string]string{
	"RunID": logs.Run, "WorkflowType": "workflow", "ActivityType": "activity", "Attempt": "execution", "Error": "error",
	"Namespace": "", "WorkerID": "", "TaskQueue": "", "ActivityID": "", "ActivityRunID": "",
}

// translating is a handler that converts the SDK's log lines to Maestro's form.
type translating struct{ slog.Handler }

// Handle converts a record and its level.
func (t translating) Handle(ctx context.Context, r slog.Record) error {
	level := r.Level
	if l, ok := everyday[r.Message]; ok {
		level = min(level, l)
	}
	if !t.Enabled(ctx, level) {
		return nil
	}
	said := slog.NewRecord(r.Time, level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		said.AddAttrs(translated([]slog.Attr{a})...)
		return true
	})
	return t.Handler.Handle(ctx, said)
}

// WithAttrs translates them.
func (t translating) WithAttrs(attrs []slog.Attr) slog.Handler {
	return translating{t.Handler.WithAttrs(translated(attrs))}
}

// WithGroup translates what is in the group, too.
func (t translating) WithGroup(name string) slog.Handler {
	return translating{t.Handler.WithGroup(name)}
}

func translated(attrs []slog.Attr) []slog.Attr {
	said := make([]slog.Attr, 0, len(attrs))
	for _, a := range attrs {
		name, known := names[a.Key]
		switch {
		case a.Key == "WorkflowID":
			name = logs.Session
			if strings.Contains(a.Value.String(), "/") { // no session's
				name = "workflow_id"
			}
		case !known:
			name = a.Key
		case name == "":
			continue
		}
		said = append(said, slog.Attr{Key: name, Value: a.Value})
	}
	return said
}
