package control

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/state/statetest"
)

// TestCallersShareAnAnswer has many callers ask at once, and later ones while the answer is fresh.
func TestCallersShareAnAnswer(t *testing.T) {
	t.Parallel()
	var s shared[int]
	var asked atomic.Int64
	clock := time.Now()
	now := func() time.Time { return clock }
	ask := func(context.Context) (int, error) { return int(asked.Add(1)), nil }
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			n, _, err := s.get(context.Background(), now, time.Second, ask)
			if n != 1 || err != nil {
				t.Error(n, err)
			}
		})
	}
	all.Wait()
	clock = clock.Add(2 * time.Second)
	_, _, err := s.get(t.Context(), now, time.Second, func(context.Context) (int, error) { return 0, errors.New("away") })
	require.Error(t, err)
	n, at, err := s.get(t.Context(), now, time.Second, ask)
	require.NoError(t, err)
	require.Equal(t, 2, n, "an error is not kept")
	require.Equal(t, clock, at)

	clock = clock.Add(2 * time.Second)
	impatient, cancel := context.WithCancel(t.Context())
	cancel()
	release := make(chan struct{})
	slow := func(ctx context.Context) (int, error) {
		<-release
		return 7, ctx.Err()
	}
	n, _, err = s.get(impatient, now, time.Second, slow)
	require.NoError(t, err)
	require.Equal(t, 2, n, "who cannot wait gets the one before")
	close(release)
	n, _, err = s.get(t.Context(), now, time.Second, ask)
	require.NoError(t, err)
	require.Equal(t, 7, n, "it was made all the same")
}

func TestAnswersAboutAnEarlierStateOfTheStoreAreDropped(t *testing.T) {
	t.Parallel()
	s, err := store.Create(filepath.Join(t.TempDir(), "store"), store.Options{Clock: time.Now})
	require.NoError(t, err)
	b := &Base{Store: s, Serves: true, Namespace: "default", Now: time.Now}
	for i := range 5 {
		statetest.Put(t, s.State, b.key("one"), func(e *session.Execution) { e.Team, e.Reason = "web", strconv.Itoa(i) })
		for _, name := range []string{"ann", "bob"} {
			ctx := access.With(t.Context(), access.Actor{Name: name, Roles: access.Roles{name: {access.RoleViewer}}})
			_, err := seenBy(ctx, b, &b.inboxes, time.Minute, func(context.Context) (Inbox, error) { return Inbox{}, nil })
			require.NoError(t, err)
		}
	}
	require.Len(t, b.inboxes.of, 2)
}
