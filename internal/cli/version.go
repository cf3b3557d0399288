package cli

import (
	"runtime/debug"

	"github.com/spf13/cobra"
)

// versionDocument is the document of `version -o json`.
type versionDocument struct {
	Version string `json:"version"`
	// Commit is empty for a build that does not know it.
	Commit string `json:"commit"`
	// Modified: the build's source differs from the commit.
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
	// SDK is the version of Temporal's SDK.
	SDK string `json:"sdk"`
}

func newVersion(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Say which build this is",
		Args:  arguments(0, 0),
		RunE: func(*cobra.Command, []string) error {
			v := buildVersion()
			if a.output == outputJSON {
				return a.printJSON(v)
			}
			commit := ""
			if v.Commit != "" {
				commit = ", commit " + v.Commit
				if v.Modified {
					commit += " and changes"
				}
			}
			a.print("maestro %s (%s, Temporal SDK %s%s)", v.Version, v.Go, dash(v.SDK), commit)
			return nil
		},
	}
	a.addOutputFlag(cmd)
	return cmd
}

// buildVersion is the build as the Go toolchain has recorded it.
func buildVersion() versionDocument {
	v := versionDocument{Version: "(devel)"}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	v.Go = info.GoVersion
	if info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	for _, d := range info.Deps {
		if d.Path == "go.temporal.io/sdk" {
			v.SDK = d.Version
		}
	}
	return v
}
