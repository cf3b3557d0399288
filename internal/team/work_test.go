package team

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
		"none":     {nil, "there are no reasons; list at least one"},
		"blank":    {[]string{"a", " \n"}, "reason 2 is empty"},
		"too long": {[]string{strings.Repeat("x", MaxReasons), "y"}, "have 4097 bytes together; at most 4096"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := CheckReasons(tt.reasons)
			if tt.wrong == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.wrong)
		})
	}
}
