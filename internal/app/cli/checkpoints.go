package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/faces/httpapi"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/cas"
)

func newCheckpoints(a *app) *cobra.Command {
	return group("checkpoints", "List, show, verify, prune, export and import the checkpoints of sessions",
		newCheckpointsList(a), newCheckpointsShow(a), newCheckpointsVerify(a), newCheckpointsPrune(a),
		newCheckpointsExport(a), newCheckpointsImport(a))
}

func newCheckpointsList(a *app) *cobra.Command {
	return a.addStoreFlags(&cobra.Command{
		Use:   "list SESSION",
		Short: "List a session's checkpoints, newest first",
		RunE:  func(cmd *cobra.Command, args []string) error { return a.listCheckpoints(cmd.Context(), args[0]) },
	})
}

func (a *app) listCheckpoints(ctx context.Context, sessionID string) error {
	doc, err := ask(ctx, a.connector, a.here(a.storeBase), httpapi.ListCheckpoints, httpapi.OfSession{Session: sessionID})
	if err != nil {
		return err
	}
	a.printDamage(doc.Damage)
	t := a.table("AFTER", "CHECKPOINT", "ASSIGNMENTS", "ARTIFACTS", "TOKENS", "TAKEN")
	for _, one := range doc.Checkpoints {
		t.Add(one.Name(), one.Checkpoint.Short(), one.Assignments, one.Artifacts, terminal.Number(one.Usage.Tokens()),
			terminal.Moment(&one.CreatedAt))
	}
	return a.result(doc, func() { t.Write(a.stdout) })
}

func newCheckpointsShow(a *app) *cobra.Command {
	return a.addStoreFlags(&cobra.Command{
		Use:   "show SESSION [PHASE | CHECKPOINT]",
		Short: "Show a checkpoint: the newest, the one after a phase, or the one with a digest",
		RunE: func(cmd *cobra.Command, args []string) error {
			in := control.CheckpointInput{Session: args[0], Checkpoint: strings.Join(args[1:], "")}
			checkpoint, err := ask(cmd.Context(), a.connector, a.here(a.storeBase), httpapi.ReadCheckpoint, in)
			if err != nil {
				return err
			}
			a.printDamage(checkpoint.Damage)
			return a.result(checkpoint, func() { a.writeCheckpoint(checkpoint) })
		},
	})
}

func (a *app) writeCheckpoint(checkpoint control.ShownCheckpoint) {
	a.print("%s  after phase %s of session %s, team %s", a.palette.Paint(terminal.Bold, checkpoint.Name.Short()),
		checkpoint.CurrentPhase, checkpoint.Session, checkpoint.Team.Name)
	a.print("taken %s, run %d, %s tokens%s, previous %s", terminal.Moment(&checkpoint.CreatedAt), checkpoint.Run,
		terminal.Number(checkpoint.Usage.Tokens()), terminal.Money(checkpoint.Usage), terminal.Dash(checkpoint.Previous.Short()))
	if len(checkpoint.Assignments) > 0 {
		t := a.table("ASSIGNMENT", "STATE", "ROUNDS", "ATTEMPTS", "TOKENS", "SECONDS", "")
		for _, as := range checkpoint.Assignments {
			t.Add(as.String(), terminal.Painted(string(as.Status), terminal.StateColour(as.Status)),
				terminal.Figure(int64(as.Rounds)), terminal.Figure(int64(as.Attempts)),
				terminal.Figure(as.Usage.Tokens()), fmt.Sprintf("%.1f", as.Seconds), terminal.Painted(as.Summary, terminal.Dim))
		}
		a.print("")
		a.writeFitted(t)
	}
	if len(checkpoint.Decisions) > 0 {
		a.print("\ndecisions:")
		for _, name := range slices.Sorted(maps.Keys(checkpoint.Decisions)) {
			a.print("  %s = %s", name, safetext.Clip(checkpoint.Decisions[name], 200))
		}
	}
	a.writeAnswers(checkpoint.Checkpoint)
	if len(checkpoint.Artifacts) > 0 {
		a.print("\nartifacts:")
		for _, f := range checkpoint.Artifacts {
			a.print("  %s (%s, %s)", safetext.Name(f.Path), textfmt.Size(f.Size), f.AssignmentID)
		}
	}
}

// writeAnswers prints people's answers, and which work was sent back.
func (a *app) writeAnswers(checkpoint session.Checkpoint) {
	if len(checkpoint.Answers) > 0 {
		a.print("\nanswers:")
	}
	for _, answer := range checkpoint.Answers {
		of := session.Request{Phase: answer.Phase, Persona: answer.Persona}.Subject()
		a.print("  %s: %s%s, %s%s", of, answer.Action, by(answer.By), terminal.Moment(&answer.At), reason(answer.Note))
	}
	if len(checkpoint.Reworks) > 0 {
		a.print("\nsent back:")
	}
	for _, r := range checkpoint.Reworks {
		who := by(r.By)
		if r.From != (spec.AssignmentID{}) {
			who = " by " + r.From.String()
		}
		a.print("  %s%s, %s: %s", r.To, who, terminal.Moment(&r.At), safetext.Clip(strings.Join(r.Reasons, "; "), 200))
	}
}

func newCheckpointsVerify(a *app) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "verify [SESSION | --all]",
		Short: "Verify the data of a session, or of the whole store",
		Long: "Read the rows, the mirror and the blobs of a session, or with --all of the whole store, and compare them with their " +
			"SHA-256. " +
			"Damaged blobs are listed and moved to the directory damaged of the store; the exit code is then 1. " +
			"A damaged mirror is written again from the checkpoints' blobs, and a damaged checkpoint from the mirror.",
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case all && len(args) > 0:
				return usagef("--all and SESSION (%s) exclude each other; leave one out", args[0])
			case !all && len(args) == 0:
				return usagef("missing SESSION; use --all to verify the whole store")
			}
			return a.verify(cmd.Context(), args)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "verify the whole store")
	return a.addStoreFlags(cmd)
}

// verify reads the data of a session or, if none is named, of the whole store.
func (a *app) verify(ctx context.Context, sessionIDs []string) (err error) {
	var report store.Report
	if len(sessionIDs) > 0 {
		report, err = ask(ctx, a.connector, a.here(a.storeBase), httpapi.VerifyCheckpoints, httpapi.OfSession{Session: sessionIDs[0]})
	} else {
		var base *control.Base
		if base, _, err = a.storeBase(ctx); err == nil {
			report, err = control.Checkpoints{Base: base}.VerifyAll(ctx)
		}
	}
	if err != nil {
		return err
	}
	err = a.result(report, func() {
		for _, f := range report.Faults {
			a.print("%s", a.palette.Paint(terminal.Red, f.Error()))
		}
		for _, note := range report.Notes {
			a.print("%s", note)
		}
		a.print("%s, %s, %s and %s (%s) read: %s", textfmt.Count(report.Sessions, "session"),
			textfmt.Count(report.Checkpoints, "checkpoint"),
			textfmt.Count(report.Records, "record"), textfmt.Count(report.Blobs, "blob"), textfmt.Size(report.Bytes),
			verdict(len(report.Faults)))
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

func verdict(faults int) string {
	if faults == 0 {
		return "all intact"
	}
	return textfmt.Count(faults, "fault")
}
