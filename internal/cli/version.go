package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/buildinfo"
	"github.com/maestro-hive/maestro/internal/cmdline"
)

// versionDocument is the document of `version -o json`.
type versionDocument struct {
	Version string `json:"version"`
	// Commit is empty for a build that does not know it.
	Commit string `json:"commit"`
	// CommittedAt is the commit's time; null for a build that does not know it.
	CommittedAt *time.Time `json:"committed_at"`
	// Modified: the build's source differs from the commit.
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
	// SDK is the version of Temporal's SDK.
	SDK string `json:"sdk"`
	// Platform is the operating system and architecture.
	Platform string `json:"platform"`
}

func newVersion(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the version of this build",
		Args:  cmdline.Arguments(0, 0),
		RunE: func(*cobra.Command, []string) error {
			v := buildVersion()
			return a.result(v, func() { a.print("%s", buildinfo.This().Line("maestro")) })
		},
	}
	a.addOutputFlag(cmd)
	return cmd
}

// buildVersion is the build as the Go toolchain has recorded it.
func buildVersion() versionDocument {
	b := buildinfo.This()
	v := versionDocument{Version: b.Version, Commit: b.Commit, Modified: b.Modified, Go: b.Go, SDK: b.SDK, Platform: b.Platform}
	if !b.Time.IsZero() {
		v.CommittedAt = &b.Time
	}
	return v
}
