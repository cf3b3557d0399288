package buildinfo_test

import (
	"runtime/debug"
	"testing"
	"time"

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

func TestBuildIsReadFromWhatTheToolchainRecords(t *testing.T) {
	t.Parallel()
	b := buildinfo.Of(&debug.BuildInfo{
		GoVersion: "go1.26.8", Main: debug.Module{Version: "v1.2.3"},
		Deps: []*debug.Module{{Path: "go.temporal.io/sdk", Version: "v1.50.0"}},
		Settings: []debug.BuildSetting{
			{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "2026-11-21T20:33:47Z"}, {Key: "vcs.modified", Value: "true"},
		},
	})
	require.NotEmpty(t, b.Platform)
	at := time.Date(2026, 11, 21, 20, 33, 47, 0, time.UTC)
	b.Platform = ""
	require.Equal(t, buildinfo.Build{
		Version: "v1.2.3", Commit: "abc", CommittedAt: &at, Modified: true, Go: "go1.26.8", SDK: "v1.50.0",
	}, b)
	require.Equal(t, buildinfo.Unversioned, buildinfo.Of(&debug.BuildInfo{}).Version)
}
