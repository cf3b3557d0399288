package room

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestACheckThatTakesTooLongIsAnExcess has a check that does not end: whoever supervises goes on, and gives up the attempt.
func TestACheckThatTakesTooLongIsAnExcess(t *testing.T) {
	t.Parallel()
	now := time.Now()
	c := &checks{begin: make(chan time.Time, 1), ended: make(chan excess, 1), endedFD: -1, next: now}
	require.Zero(t, c.advance(now))
	require.Len(t, c.begin, 1)
	require.Zero(t, c.advance(now.Add(checkLimit)))
	require.Equal(t, excess{slow: true}, c.advance(now.Add(checkLimit+1)))

	c.ended <- excess{threads: 7}
	require.Equal(t, excess{threads: 7}, c.advance(now.Add(time.Second)), "one that ended in time")
}
