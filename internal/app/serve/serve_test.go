package serve_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/app/serve"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
	"github.com/maestro-hive/maestro/internal/store"
)

func TestAServerIsKnownWhileItRuns(t *testing.T) {
	t.Parallel()
	s, err := store.Create(t.TempDir(), store.Options{Clock: time.Now})
	require.NoError(t, err)
	start := func(hosts ...string) *serve.Server {
		return started(t, s, func(context.Context) (*temporalutil.Connection, error) { return nil, errors.New("none") }, hosts...)
	}
	served := func() string { return access.ServedAt(t.Context(), s.State) }
	first, public := start(), start("maestro.localhost")
	second := start()
	require.Equal(t, public.URL(), served())
	public.Stop(t.Context())
	require.Equal(t, first.URL(), served())
	first.Stop(t.Context())
	require.Equal(t, second.URL(), served())
	second.Stop(t.Context())
	require.Empty(t, served())
}

// What a server does beside requests uses its index and its store: it ends before them.
func TestAServerHasEndedWhenItIsStopped(t *testing.T) {
	t.Parallel()
	s, err := store.Create(t.TempDir(), store.Options{Clock: time.Now})
	require.NoError(t, err)
	var dials, ended atomic.Int32
	server := started(t, s, func(ctx context.Context) (*temporalutil.Connection, error) {
		dials.Add(1)
		<-ctx.Done()
		time.Sleep(50 * time.Millisecond) // as what is under way takes a moment to end
		ended.Add(1)
		return nil, ctx.Err()
	})
	server.Stop(t.Context())
	require.Equal(t, dials.Load(), ended.Load())
	require.Positive(t, ended.Load())
}
