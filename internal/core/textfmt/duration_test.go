package textfmt

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDurationsAreWrittenAsPeopleWriteThem(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0s", time.Second: "1s", 90 * time.Second: "1m30s", 30 * time.Minute: "30m", 10 * time.Minute: "10m",
		time.Hour: "1h", 168 * time.Hour: "168h", 90 * time.Minute: "1h30m", time.Hour + time.Second: "1h0m1s",
		100 * time.Millisecond: "100ms", -time.Hour: "-1h", 20 * time.Second: "20s",
	} {
		require.Equal(t, want, Duration(d).String())
		var back Duration
		require.NoError(t, back.UnmarshalText([]byte(want)))
		require.Equal(t, d, back.Std())
	}
}

func TestDurationsNeedAUnit(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "30", "1d", "half an hour", "5 minutes"} {
		var d Duration
		require.ErrorContains(t, d.UnmarshalText([]byte(bad)), "write it with its unit, like 90s, 30m or 1h30m", bad)
	}
}

func FuzzDuration(f *testing.F) {
	for _, seed := range []int64{0, 1, int64(time.Hour), int64(-time.Minute), 1 << 62} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, ns int64) {
		text, err := Duration(ns).MarshalText()
		require.NoError(t, err)
		var back Duration
		require.NoError(t, back.UnmarshalText(text))
		require.Equal(t, Duration(ns), back)
	})
}
