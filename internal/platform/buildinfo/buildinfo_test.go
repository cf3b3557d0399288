package buildinfo_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/platform/buildinfo"
)

func TestBuildNamesItsVersionAndCommitInOneWord(t *testing.T) {
	t.Parallel()
	for want, b := range map[string]buildinfo.Build{
		"v1.2.3+abc1234":       {Version: "v1.2.3", Commit: "abc1234567890"},
		"v1.2.3+abc1234.dirty": {Version: "v1.2.3+dirty", Commit: "abc1234567890", Modified: true},
		"v0.0.0-20261121203347-abc1234567ab+dirty": {
			Version: "v0.0.0-20261121203347-abc1234567ab+dirty", Commit: "abc1234567abcdef",
			Modified: true,
		},
		"v0.0.0-20261121203347-abc1234567ab": {Version: "v0.0.0-20261121203347-abc1234567ab", Commit: "abc1234567abcdef"},
		"(devel)+abc1234":                    {Version: "(devel)", Commit: "abc1234"},
		"(devel)":                            {Version: "(devel)"},
	} {
		require.Equal(t, want, b.String())
	}
}
