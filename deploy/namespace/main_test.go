package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil/temporaltest"
)

// environment is the environment of a command.
type environment map[string]string

func (environment) Environ() []string { return nil }

func (e environment) LookupEnv(name string) (string, bool) {
	value, ok := e[name]
	return value, ok
}

// run runs the command, as at a shell.
func run(t *testing.T, env environment, args ...string) error {
	t.Helper()
	cmd := newCommand(env)
	cmd.SetArgs(args)
	return cmd.ExecuteContext(t.Context())
}

func TestANamespaceIsMadeOnceAndStays(t *testing.T) {
	t.Parallel()
	address := temporaltest.Start(t)
	env := environment{"TEMPORAL_ADDRESS": address, "TEMPORAL_NAMESPACE": "studio"}
	require.NoError(t, run(t, env, "--retention", "48h"))

	conn, err := temporalutil.DialAddress(t.Context(), address, "studio", nil)
	require.NoError(t, err)
	defer conn.Close()
	missing, err := temporalutil.NewSearchAttributes(conn, "studio", time.Now, keys()...).Missing(t.Context())
	require.NoError(t, err)
	require.Empty(t, missing)

	require.NoError(t, run(t, env, "--retention", "96h"), "a second time")
	got, err := conn.WorkflowService().DescribeNamespace(t.Context(), &workflowservice.DescribeNamespaceRequest{Namespace: "studio"})
	require.NoError(t, err)
	require.Equal(t, 48*time.Hour, got.Config.WorkflowExecutionRetentionTtl.AsDuration(), "what is there stays as it is")
}

func TestWaitingForTemporalEnds(t *testing.T) {
	t.Parallel()
	err := run(t, environment{"TEMPORAL_ADDRESS": "127.0.0.1:1"}, "--wait", "300ms")
	require.ErrorContains(t, err, "cannot reach Temporal at 127.0.0.1:1")
	require.ErrorContains(t, run(t, environment{}, "--grpc-meta", "nonsense"), "KEY=VALUE",
		"what is no matter of time is said at once")
}
