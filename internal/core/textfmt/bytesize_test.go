package textfmt

import (
	"math"
	"testing"

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
