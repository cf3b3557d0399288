package cli

import (
	"cmp"
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
	"github.com/maestro-hive/maestro/internal/store/backup"
)

func newBackup(a *app) *cobra.Command {
	o := backup.Options{Clock: a.env.Now}
	cmd := &cobra.Command{
		Use:   "backup DIR|FILE",
		Short: "Back up the state while sessions run",
		Long: "Copy the database, as it is at one moment, and everything that it names. Sessions may run meanwhile; nothing is " +
			"pruned.\n\n" +
			"A directory that has a backup of this store gets what is missing, and one more copy of the database. " +
			"A PostgreSQL database is left out: back it up with pg_dump or pg_basebackup before this. Content in a bucket is backed " +
			"up with the bucket's versioning.\n\n" +
			"A FILE that ends in .tar.zst is an archive with one backup. A backup that was interrupted can be repeated.",
		Example: "  maestro backup /backup/maestro\n  maestro backup maestro.tar.zst",
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.Keep < 1 {
				return usagef("--keep: %d is less than 1", o.Keep)
			}
			return runBackup(cmd.Context(), a, args[0], o)
		},
	}
	cmd.Flags().IntVar(&o.Keep, "keep", backup.DefaultKeep, "copies of the database to keep in DIR")
	return a.addStoreFlags(cmd)
}

func runBackup(ctx context.Context, a *app, to string, o backup.Options) (err error) {
	s, err := a.openStore()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	report, err := backup.Run(ctx, s, a.absPath(to), o)
	if err != nil {
		return failf("%w", err)
	}
	return a.result(report, func() {
		a.print("%s: %s and %s, of which %d new; %s copied", to, cmp.Or(report.Database, "content only"),
			textfmt.Count(report.Blobs, "blob"), report.Copied, textfmt.Size(report.Bytes))
	})
}

func newRestore(a *app) *cobra.Command {
	o := backup.RestoreOptions{Clock: a.env.Now}
	cmd := &cobra.Command{
		Use:   "restore FROM",
		Short: "Restore a backup into an empty or damaged state directory",
		Long: "Put a backup into a state directory that is empty, or whose database is damaged. FROM is a directory with backups, of " +
			"which the newest is taken, " +
			"one copy of the database in it, or an archive. Stop all workers and servers first.\n\n" +
			"A damaged database is moved aside, and everything is verified. Temporal may be ahead of the backup. So the next worker " +
			"that starts ends the run of each session that had not ended, and starts a new one from the store.",
		Example: "  maestro restore /backup/maestro --state-dir /var/maestro/state\n  maestro restore " +
			"/backup/maestro/state-20261126T100000Z.db",
		RunE: func(cmd *cobra.Command, args []string) error { return runRestore(cmd.Context(), a, args[0], o) },
	}
	cmd.Flags().BoolVar(&o.Replace, "replace", false, "move the database aside although it is not damaged")
	return a.addSessionFlags(cmd)
}

func runRestore(ctx context.Context, a *app, from string, o backup.RestoreOptions) error {
	dir, err := a.storeDir()
	if err != nil {
		return err
	}
	report, err := backup.Restore(ctx, a.absPath(from), dir, o)
	switch {
	case errors.Is(err, backup.ErrHealthy):
		return usagef("%w; restore into another --state-dir, or move it aside with --replace", err)
	case is[*backup.InUseError](err):
		return usagef("%w", err)
	case err != nil:
		return failf("%w", err)
	}
	if err := a.result(report, func() { a.writeRestored(report, dir) }); err != nil {
		return err
	}
	if n := len(report.Faults); n > 0 {
		return failf("%s found; the rest is restored", textfmt.Count(n, "fault"))
	}
	return nil
}

func (a *app) writeRestored(report backup.Restored, dir string) {
	if report.MovedAside != "" {
		a.print("moved the database aside: %s", report.MovedAside)
	}
	for _, f := range report.Faults {
		a.print("%s", a.palette.Paint(terminal.Red, f.Error()))
	}
	a.print("restored %s and %s (%d copied) into %s: %s", report.Database, textfmt.Count(report.Blobs, "blob"), report.Copied, dir,
		verdict(len(report.Faults)))
	if len(report.Open) == 0 {
		a.print("No session was open.")
		return
	}
	a.print("Start the worker: it starts a new run of each session that was open at the time of the backup.")
	for _, s := range report.Open {
		a.print("    %s (namespace %s)", s.Session, s.Namespace)
	}
}
