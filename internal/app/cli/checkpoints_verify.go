package cli

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/platform/cmdline"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/cas"
)

// verifyCommand is `checkpoints verify`.
type verifyCommand struct {
	*console
	*connector
}

func newCheckpointsVerify(a *app) *cobra.Command {
	c := verifyCommand{a.console, a.connector}
	var all bool
	cmd := &cobra.Command{
		Use:   "verify [SESSION | --all]",
		Short: "Verify the data of a session, or of the whole store",
		Long: "Read the rows, the mirror and the blobs of a session, or with --all of the whole store, and compare them with their SHA-256. " +
			"Damaged blobs are listed and moved to the directory damaged of the store; the exit code is then 1. " +
			"A damaged mirror is written again from the checkpoints' blobs, and a damaged checkpoint from the mirror.",
		Args: cmdline.Arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case all && len(args) > 0:
				return usagef("--all and SESSION (%s) exclude each other; leave one out", args[0])
			case !all && len(args) == 0:
				return usagef("missing SESSION; use --all to verify the whole store")
			}
			return c.run(cmd.Context(), args)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "verify the whole store")
	a.addStoreFlags(cmd)
	return cmd
}

func (c *verifyCommand) run(ctx context.Context, session []string) error {
	report, err := c.inspect(ctx, session)
	if err != nil {
		return err
	}
	err = c.result(report, func() {
		for _, f := range report.Faults {
			c.print("%s", c.palette.Paint(terminal.Red, f.Error()))
		}
		for _, note := range report.Notes {
			c.print("%s", note)
		}
		c.print("%s, %s, %s and %s (%s) read: %s", textfmt.Count(report.Sessions, "session"), textfmt.Count(report.Checkpoints, "checkpoint"),
			textfmt.Count(report.Records, "record"), textfmt.Count(report.Blobs, "blob"), textfmt.Size(report.Bytes), verdict(len(report.Faults)))
	})
	if err != nil {
		return err
	}
	lost := slices.DeleteFunc(slices.Clone(report.Faults), func(f cas.Fault) bool { return f.Repaired != "" })
	switch n := len(report.Faults); {
	case n > 0 && len(lost) == 0:
		return failf("%s found and repaired; verify again to confirm", textfmt.Count(n, "fault"))
	case n > 0:
		return failf("%s found; restore the named files from a backup, or run the session again", textfmt.Count(n, "fault"))
	}
	return nil
}

func (c *verifyCommand) inspect(ctx context.Context, session []string) (store.Report, error) {
	base, err := c.storeBase()
	if err != nil {
		return store.Report{}, err
	}
	if len(session) == 0 {
		return control.Checkpoints{Base: base}.VerifyAll(ctx)
	}
	report, err := control.Checkpoints{Base: base}.Verify(ctx, session[0])
	return report, c.explain(ctx, base, err)
}

func verdict(faults int) string {
	if faults == 0 {
		return "all intact"
	}
	return textfmt.Count(faults, "fault")
}
