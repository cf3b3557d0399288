package service

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/models/agent"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil/temporaltest"
	"github.com/maestro-hive/maestro/internal/store"
)

// TestAWorkerWhosePollsAreRefusedEnds has a queue given up, which the SDK does after
// two minutes of refusals.
func TestAWorkerWhosePollsAreRefusedEnds(t *testing.T) {
	t.Parallel()
	conn, err := temporalutil.DialAddress(t.Context(), temporaltest.Start(t), "default", nil)
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	state := filepath.Join(t.TempDir(), "state")
	w, err := Setup{
		Config: agent.Config{
			Version: 1,
			Agents:  map[string]agent.Definition{"coder": {Kind: agent.KindCommand, Argv: []string{"true"}}},
		},
		StateDir: state, Connection: conn, Getenv: os.Getenv, Host: "test", PID: os.Getpid(), Clock: time.Now,
		Logger: slog.New(slog.DiscardHandler),
	}.Build()
	require.NoError(t, err)
	gone := errors.New("the namespace is gone")
	w.pollsRefused("coder", gone)
	w.pollsRefused("reviewer", gone) // which nobody waits for
	err = w.Run(t.Context())
	require.ErrorIs(t, err, ErrServing)
	require.ErrorIs(t, err, gone)
	require.Equal(t, exitFailed, exitCode(err))
	require.EqualError(t, err, "worker: queue coder is no longer polled: the namespace is gone")
	st, err := store.Open(state, store.Options{Clock: time.Now})
	require.NoError(t, err)
	offers, err := st.State.Offers(t.Context())
	require.NoError(t, err)
	require.Empty(t, offers, "it offers what it does not serve")
}
