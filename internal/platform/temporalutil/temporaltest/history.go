package temporaltest

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/temporalproto"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// KeepHistory writes a run's history to a file in dir that is named after the
// test. An empty run means the newest one; an empty dir, nowhere.
func KeepHistory(ctx context.Context, t *testing.T, c client.Client, id, run, dir string) {
	t.Helper()
	if dir == "" {
		return
	}
	history := &historypb.History{}
	events := c.GetWorkflowHistory(ctx, id, run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		event, err := events.Next()
		require.NoError(t, err)
		history.Events = append(history.Events, event)
	}
	data, err := temporalproto.CustomJSONMarshalOptions{Indent: " "}.Marshal(history)
	require.NoError(t, err)
	name, err := os.Hostname() // nobody needs to know where it was recorded
	require.NoError(t, err)
	data = bytes.ReplaceAll(data, []byte(name), []byte("host"))
	require.NoError(t, os.MkdirAll(dir, 0o755))
	file := strings.ReplaceAll(t.Name(), "/", ".") + ".json"
	require.NoError(t, os.WriteFile(filepath.Join(dir, file), data, 0o644))
}

// ReplayHistories replays what KeepHistory has written to testdata/histories of
// the test's package, each history in a test of its own. registered are the
// workflows by their wire names.
func ReplayHistories(t *testing.T, registered map[string]any) {
	t.Helper()
	files, err := filepath.Glob("testdata/histories/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files, "run `make histories`")
	quiet := log.NewStructuredLogger(slog.New(slog.DiscardHandler))
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			replayer := worker.NewWorkflowReplayer()
			for name, wf := range registered {
				replayer.RegisterWorkflowWithOptions(wf, workflow.RegisterOptions{Name: name})
			}
			require.NoError(t, replayer.ReplayWorkflowHistoryFromJSONFile(quiet, file))
		})
	}
}
