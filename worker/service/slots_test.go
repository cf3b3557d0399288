package service

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSlotsAreBoundedHoweverTheyAreResized(t *testing.T) {
	t.Parallel()
	s := newSlots()
	require.Nil(t, s.TryReserveSlot(nil), "none before the worker serves")
	s.resize(2)
	require.NotNil(t, s.TryReserveSlot(nil))
	require.NotNil(t, s.TryReserveSlot(nil))
	require.Nil(t, s.TryReserveSlot(nil))

	reserved := make(chan error, 1)
	reserve := func(ctx context.Context) {
		_, err := s.ReserveSlot(ctx, nil)
		reserved <- err
	}
	go reserve(t.Context())
	s.resize(3)
	require.NoError(t, <-reserved, "a larger bound lets who waits in")
	require.Equal(t, 3, s.MaxSlots())

	s.resize(1)
	s.ReleaseSlot(nil)
	s.ReleaseSlot(nil)
	require.Nil(t, s.TryReserveSlot(nil), "one is still at work")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	reserve(ctx)
	require.ErrorIs(t, <-reserved, context.DeadlineExceeded)
	go reserve(t.Context())
	s.ReleaseSlot(nil)
	require.NoError(t, <-reserved)
}

func TestAQueueThatIsPolledNoMoreTakesNoSlot(t *testing.T) {
	t.Parallel()
	s := newSlots()
	s.resize(1)
	require.NotNil(t, s.TryReserveSlot(nil))
	s.resize(0)
	s.ReleaseSlot(nil)
	require.Nil(t, s.TryReserveSlot(nil))
}

func TestASeatIsTheSameWhateverBuildHoldsIt(t *testing.T) {
	t.Parallel()
	a := &workerSlot{name: "box-0"}
	require.Equal(t, "maestro-st@box-0 v1.2.3+abc1234", identity("st", a, "v1.2.3+abc1234"))
	require.Equal(t, "maestro-st@box-0", identity("st", a, ""))
	require.True(t, sameSlot(identity("st", a, "v1"), identity("st", a, "v2")))
	require.True(t, sameSlot("maestro-st@box-0", identity("st", a, "v2")), "that of a build which did not say")
	require.False(t, sameSlot(identity("st", a, "v1"), identity("st", &workerSlot{name: "box-01"}, "v1")))
}
