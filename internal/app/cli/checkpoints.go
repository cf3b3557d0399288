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
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/platform/cmdline"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
)

func newCheckpoints(a *app) *cobra.Command {
	return group("checkpoints", "List, show, verify, prune, export and import the checkpoints of sessions",
		newCheckpointsList(a), newCheckpointsShow(a), newCheckpointsVerify(a), newCheckpointsPrune(a),
		newCheckpointsExport(a), newCheckpointsImport(a))
}

// checkpointsCommand is `checkpoints list` and `checkpoints show`.
type checkpointsCommand struct {
	*console
	*connector
}

func newCheckpointsList(a *app) *cobra.Command {
	c := checkpointsCommand{a.console, a.connector}
	cmd := &cobra.Command{
		Use:   "list SESSION",
		Short: "List a session's checkpoints, newest first",
		Args:  cmdline.Arguments(1, 1),
		RunE:  func(cmd *cobra.Command, args []string) error { return c.list(cmd.Context(), args[0]) },
	}
	a.addStoreFlags(cmd)
	return cmd
}

func newCheckpointsShow(a *app) *cobra.Command {
	c := checkpointsCommand{a.console, a.connector}
	cmd := &cobra.Command{
		Use:   "show SESSION [PHASE | CHECKPOINT]",
		Short: "Show a checkpoint: the newest, the one after a phase, or the one with a digest",
		Args:  cmdline.Arguments(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.show(cmd.Context(), args[0], strings.Join(args[1:], ""))
		},
	}
	a.addStoreFlags(cmd)
	return cmd
}

func (c *checkpointsCommand) list(ctx context.Context, sessionID string) error {
	base, err := c.storeBase()
	if err != nil {
		return err
	}
	doc, err := control.Checkpoints{Base: base}.List(ctx, sessionID)
	if err != nil {
		return c.explain(ctx, base, err)
	}
	c.printDamage(doc.Damage)
	t := c.table("PHASE", "CHECKPOINT", "ASSIGNMENTS", "ARTIFACTS", "TOKENS", "TAKEN")
	for _, one := range doc.Checkpoints {
		t.Add(one.Phase, one.Checkpoint.Short(), one.Assignments, one.Artifacts, terminal.Number(one.Usage.Tokens()), terminal.Moment(&one.CreatedAt))
	}
	return c.result(doc, func() { t.Write(c.stdout) })
}

func (c *checkpointsCommand) show(ctx context.Context, sessionID, which string) error {
	base, err := c.storeBase()
	if err != nil {
		return err
	}
	checkpoint, err := control.Checkpoints{Base: base}.Read(ctx, control.CheckpointInput{Session: sessionID, Checkpoint: which})
	if err != nil {
		return c.explain(ctx, base, err)
	}
	c.printDamage(checkpoint.Damage)
	return c.result(checkpoint, func() { c.write(checkpoint) })
}

func (c *checkpointsCommand) write(checkpoint control.ShownCheckpoint) {
	c.print("%s  after phase %s of session %s, team %s", c.palette.Paint(terminal.Bold, checkpoint.Name.Short()), checkpoint.CurrentPhase, checkpoint.Session, checkpoint.Team.Name)
	c.print("taken %s, run %d, %s tokens%s, previous %s", terminal.Moment(&checkpoint.CreatedAt), checkpoint.Run,
		terminal.Number(checkpoint.Usage.Tokens()), terminal.Money(checkpoint.Usage), terminal.Dash(checkpoint.Previous.Short()))
	if len(checkpoint.Assignments) > 0 {
		t := c.table("ASSIGNMENT", "STATE", "ROUNDS", "ATTEMPTS", "TOKENS", "SECONDS", "")
		for _, as := range checkpoint.Assignments {
			t.Add(as.String(), terminal.Painted(string(as.Status), terminal.StateColour(as.Status)),
				terminal.Figure(int64(as.Rounds)), terminal.Figure(int64(as.Attempts)),
				terminal.Figure(as.Usage.Tokens()), fmt.Sprintf("%.1f", as.Seconds), terminal.Painted(as.Summary, terminal.Dim))
		}
		c.print("")
		c.writeFitted(t)
	}
	if len(checkpoint.Decisions) > 0 {
		c.print("\ndecisions:")
		for _, name := range slices.Sorted(maps.Keys(checkpoint.Decisions)) {
			c.print("  %s = %s", name, safetext.Clip(checkpoint.Decisions[name], 200))
		}
	}
	c.writeAnswers(checkpoint.Checkpoint)
	if len(checkpoint.Artifacts) > 0 {
		c.print("\nartifacts:")
		for _, f := range checkpoint.Artifacts {
			c.print("  %s (%s, %s)", safetext.Name(f.Path), textfmt.Size(f.Size), f.AssignmentID)
		}
	}
}

// writeAnswers prints people's answers, and which work was sent back.
func (c *checkpointsCommand) writeAnswers(checkpoint session.Checkpoint) {
	if len(checkpoint.Answers) > 0 {
		c.print("\nanswers:")
	}
	for _, answer := range checkpoint.Answers {
		of := session.Request{Phase: answer.Phase, Persona: answer.Persona}.Subject()
		c.print("  %s: %s%s, %s%s", of, answer.Action, by(answer.By), terminal.Moment(&answer.At), reason(answer.Note))
	}
	if len(checkpoint.Reworks) > 0 {
		c.print("\nsent back:")
	}
	for _, r := range checkpoint.Reworks {
		who := by(r.By)
		if r.From != (spec.AssignmentID{}) {
			who = " by " + r.From.String()
		}
		c.print("  %s%s, %s: %s", r.To, who, terminal.Moment(&r.At), safetext.Clip(strings.Join(r.Reasons, "; "), 200))
	}
}
