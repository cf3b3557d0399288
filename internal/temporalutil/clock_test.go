package temporalutil_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/temporalutil"
	"github.com/maestro-hive/maestro/internal/temporalutil/temporaltest"
)

func TestClockOffset(t *testing.T) {
	t.Parallel()
	conn, err := temporalutil.DialAddress(t.Context(), temporaltest.Start(t), "default", nil)
	require.NoError(t, err)
	defer conn.Close()
	for _, ahead := range []time.Duration{0, 20 * time.Second, -time.Hour} {
		slow := func() time.Time { return time.Now().Add(-ahead) } // a clock behind the server's
		offset, err := temporalutil.ClockOffset(t.Context(), conn, "nobody-works-here", "test-"+ahead.String(), slow)
		require.NoError(t, err)
		require.InDelta(t, ahead.Seconds(), offset.Ahead.Seconds(), offset.Within.Seconds()+0.01)
		require.Less(t, offset.Within, 3*time.Second)
	}
	conn.Namespace = "nowhere"
	_, err = temporalutil.ClockOffset(t.Context(), conn, "nobody-works-here", "test", time.Now)
	require.Error(t, err)
}
