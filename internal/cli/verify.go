package cli

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/cmdline"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/terminal"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

func newCheckpointsVerify(a *app) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "verify [SESSION | --all]",
		Short: "Read everything that a session, or the whole store, needs, and find what is damaged",
		Long: "Read the documents and blobs that a session needs, or with --all the whole store, and hold them against their SHA-256. " +
			"What is damaged is named and moved to the store's quarantine; the exit code is then 1. " +
			"Where a second copy exists, it is repaired: a checkpoint's copy from its blob, and the blob from the copy.",
		Args: cmdline.Arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case all && len(args) > 0:
				return usagef("--all verifies the whole store; leave out either it or %s", args[0])
			case !all && len(args) == 0:
				return usagef("name a session, or verify the whole store with --all")
			}
			return a.verify(cmd.Context(), args)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "verify the whole store")
	a.addNamespaceFlags(cmd)
	a.addStateDirFlag(cmd)
	a.addOutputFlag(cmd)
	cmd.ValidArgsFunction = a.completeSessions
	return cmd
}

func (a *app) verify(ctx context.Context, session []string) error {
	report, err := a.inspect(ctx, session)
	if err != nil {
		return err
	}
	if report.Faults == nil {
		report.Faults = []store.Fault{}
	}
	if a.output == outputJSON {
		if err := a.printJSON(report); err != nil {
			return err
		}
	} else {
		for _, f := range report.Faults {
			a.print("%s", a.palette.Paint(terminal.Red, f.Error()))
		}
		for _, path := range report.Replaced {
			a.print("%s: it was the copy of a checkpoint that the session does not build on; replaced, nothing is lost", path)
		}
		a.print("%s, %s, %s and %s (%s) read: %s", textfmt.Count(report.Sessions, "session"), textfmt.Count(report.Checkpoints, "checkpoint"),
			textfmt.Count(report.Records, "record"), textfmt.Count(report.Blobs, "blob"), textfmt.Size(report.Bytes), verdict(len(report.Faults)))
	}
	lost := slices.DeleteFunc(slices.Clone(report.Faults), func(f store.Fault) bool { return f.Repaired != "" })
	switch n := len(report.Faults); {
	case n > 0 && len(lost) == 0:
		return failf("%s found and repaired; verify again to see that all is intact", textfmt.Count(n, "fault"))
	case n > 0:
		return failf("%s found; restore the named files from a backup, or run the session again", textfmt.Count(n, "fault"))
	}
	return nil
}

func (a *app) inspect(ctx context.Context, session []string) (store.Report, error) {
	if len(session) == 0 {
		s, err := a.openStoreToWrite()
		if err != nil {
			return store.Report{}, err
		}
		return s.VerifyAll(ctx)
	}
	s, key, err := a.storedToWrite(session[0])
	if err != nil {
		return store.Report{}, err
	}
	return s.VerifySession(ctx, key)
}

func verdict(faults int) string {
	if faults == 0 {
		return "all intact"
	}
	return textfmt.Count(faults, "fault")
}
