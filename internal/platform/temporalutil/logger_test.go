package temporalutil

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/log"
)

func TestTheSDKsLinesSpeakAsMaestrosDo(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	said := func(say func(l log.Logger)) string {
		out.Reset()
		say(newLogger(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))))
		return out.String()
	}
	require.Equal(t, "level=WARN msg=slow workflow=team-session session=s run_id=r activity=run-round execution=2 "+
		"WorkflowTaskDuration=3 error=no\n",
		said(func(l log.Logger) {
			log.With(l, "Namespace", "n", "TaskQueue", "q", "WorkerID", "w", "WorkflowType", "team-session", "WorkflowID", "s", "RunID",
				"r").
				Warn("slow", "ActivityID", "5", "ActivityType", "run-round", "Attempt", 2, "WorkflowTaskDuration", 3, "Error", "no")
		}))
	require.Equal(t, "level=INFO msg=x workflow_id=breaker/st/coder \"Stop timeout\"=1\n",
		said(func(l log.Logger) { l.Info("x", "WorkflowID", "breaker/st/coder", "Stop timeout", 1) }))
	require.Empty(t, said(func(l log.Logger) { l.Error("Activity error.", "Error", "an attempt's") }))
	require.Empty(t, said(func(l log.Logger) { l.Info("Started Worker") }))
	require.Empty(t, said(func(log.Logger) { newLogger(nil).Error("dropped") }))
}
