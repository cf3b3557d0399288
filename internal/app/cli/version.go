package cli

import (
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/docs/schema"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/platform/buildinfo"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
)

func newVersion(a *app) *cobra.Command {
	return a.addOutputFlag(&cobra.Command{
		Use:   "version",
		Short: "Show the version of this build",
		RunE: func(*cobra.Command, []string) error {
			build := buildinfo.This()
			return a.result(build, func() { a.print("%s", build.Line("maestro")) })
		},
	})
}

func newSchema(a *app) *cobra.Command {
	files := map[string][]byte{"team": schema.Team, "worker": schema.Worker}
	known := slices.Sorted(maps.Keys(files))
	return &cobra.Command{
		Use:   "schema team|worker",
		Short: "Print the JSON Schema of team files or worker files, for editors",
		Long: "Print the JSON Schema (draft 2020-12) of team files or worker files. An editor with the YAML language server " +
			"completes, documents and " +
			"checks files with this first line:\n\n  # yaml-language-server: $schema=team.schema.json\n\n" +
			"Rules across fields, for example that a phase exists, are checked by `maestro validate`.",
		Example:           "  maestro schema team > team.schema.json\n  maestro schema worker > worker.schema.json",
		ValidArgsFunction: cobra.FixedCompletions(known, noFiles),
		RunE: func(_ *cobra.Command, args []string) error {
			data, ok := files[args[0]]
			if !ok {
				return usagef("unknown schema %q; use %s%s", textfmt.Shorten(args[0], 80), terminal.Enumeration(known, "or"),
					textfmt.DidYouMean(args[0], known))
			}
			_, err := a.stdout.Write(data)
			return err
		},
	}
}
