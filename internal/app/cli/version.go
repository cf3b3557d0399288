package cli

import (
	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/platform/buildinfo"
	"github.com/maestro-hive/maestro/internal/platform/cmdline"
)

func newVersion(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the version of this build",
		Args:  cmdline.Arguments(0, 0),
		RunE: func(*cobra.Command, []string) error {
			build := buildinfo.This()
			return a.result(build, func() { a.print("%s", build.Line("maestro")) })
		},
	}
	a.addOutputFlag(cmd)
	return cmd
}
