package session

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReasonsSayWhatIsWrongInBounds(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		reasons []string
		wrong   string
	}{
		"one":      {[]string{"the tests do not compile"}, ""},
		"the most": {[]string{strings.Repeat("x", MaxReasons-1), "y"}, ""},
		"none":     {nil, "missing reasons; list at least one"},
		"blank":    {[]string{"a", " \n"}, "reason 2 is empty"},
		"too long": {[]string{strings.Repeat("x", MaxReasons), "y"}, "have 12289 bytes together; at most 12288"},
	} {
		err := CheckReasons(tt.reasons)
		if tt.wrong == "" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorContains(t, err, tt.wrong, name)
	}
}
