package textfmt

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSizes(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 5 << 40: "5.0 TiB",
		3 << 50: "3.0 PiB",
	} {
		require.Equal(t, want, Size(n))
	}
}
