package service

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
	"github.com/maestro-hive/maestro/internal/testkit/proctest"
)

// TestAWorkerWaitsForTemporal: it tries again until Temporal answers, says so once, and
// is alive and not ready meanwhile. A timeout, a stop and a refusal end it.
func TestAWorkerWaitsForTemporal(t *testing.T) {
	t.Parallel()
	logs := &proctest.Output{}
	logger := slog.New(slog.NewTextHandler(logs, nil))
	away := &temporalutil.UnreachableError{Address: "here:1", Err: errors.New("refused")}

	h, tries := newHealth("", "", time.Now), 0
	conn, err := connect(t.Context(), 0, h, logger, func() (*temporalutil.Connection, error) {
		if tries++; tries < 3 {
			return nil, away
		}
		return &temporalutil.Connection{Address: "here:1"}, nil
	})
	require.NoError(t, err)
	require.NotNil(t, conn)
	require.Equal(t, 1, strings.Count(logs.String(), "Temporal cannot be reached"), logs.String())
	require.Equal(t, "ok", h.report().Status)
	r := h.readiness(t.Context())
	require.Equal(t, []string{"starting", "temporal"}, []string{r.Status, r.Failed[0].Check})

	unreachable := func() (*temporalutil.Connection, error) { return nil, away }
	_, err = connect(t.Context(), time.Millisecond, h, logger, unreachable)
	require.Equal(t, exitUnreachable, exitCode(err))

	ctx, stop := context.WithCancel(t.Context())
	conn, err = connect(ctx, 0, h, logger, func() (*temporalutil.Connection, error) {
		stop()
		return nil, away
	})
	require.NoError(t, err)
	require.Nil(t, conn)

	refused := &temporalutil.RefusedError{Address: "here:1", Err: errors.New("no")}
	_, err = connect(t.Context(), 0, h, logger, func() (*temporalutil.Connection, error) { return nil, refused })
	require.Equal(t, exitUnreachable, exitCode(err))
}
