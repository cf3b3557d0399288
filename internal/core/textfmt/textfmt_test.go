package textfmt

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestByteSize(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]ByteSize{
		"0": 0, "17": 17, "5B": 5, "1kB": 1000, "1 KB": 1000, "100MB": 100_000_000, "2GiB": 2 << 30, "64KiB": 64 << 10,
		" 3 mb ": 3_000_000,
	} {
		var b ByteSize
		require.NoError(t, b.UnmarshalText([]byte(text)), text)
		require.Equal(t, want, b, text)
	}
	for _, text := range []string{
		"", "MB", "-1", "1.5MB", "1TB", "1e3", "9223372036854775807GB", "99999999999999999999", "1M",
		"1 M B",
	} {
		var b ByteSize
		require.ErrorContains(t, b.UnmarshalText([]byte(text)), "is not a size", text)
	}
	for _, b := range []ByteSize{0, 1, 999, 1000, 1024, 100_000_000, 5_000_000_000, math.MaxInt64} {
		var back ByteSize
		require.NoError(t, back.UnmarshalText([]byte(b.String())))
		require.Equal(t, b, back)
	}
}

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

func TestCutsKeepRunesWhole(t *testing.T) {
	t.Parallel()
	require.Equal(t, "ab", Shorten("ab", 2))
	for n := 3; n < 12; n++ {
		require.LessOrEqual(t, len(Shorten("äöüäöüäöü", n)), n)
		require.LessOrEqual(t, len(Tail("äöüäöüäöü", n)), n)
		require.True(t, strings.HasSuffix(Shorten("äöüäöüäöü", n), "…"))
		require.True(t, strings.HasPrefix(Tail("äöüäöüäöü", n), "…"))
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	known := []string{"personas", "phases", "name", "needs", "retry", "tester", "Backend"}
	for word, want := range map[string]string{
		"persona": "personas", "phasse": "phases", "naem": "name", "need": "needs", "tster": "tester", "backend": "Backend",
		"": "", "colour": "", "x": "", "instructions": "", strings.Repeat("p", 100): "",
	} {
		require.Equal(t, want, Nearest(word, known), word)
	}
	require.Equal(t, `; did you mean "tester"?`, DidYouMean("testr", known))
	require.Empty(t, DidYouMean("zebra", known))
	require.Empty(t, Nearest("a", []string{"b"}), "one letter for another is no slip where there is but one")
}

func TestSizes(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 5 << 40: "5.0 TiB",
		3 << 50: "3.0 PiB",
	} {
		require.Equal(t, want, Size(n))
	}
}
