package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/cmdline"
	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/safetext"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/terminal"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// checkpointsDocument is the document of `checkpoints list -o json`.
type checkpointsDocument struct {
	Session string `json:"session"`
	// Checkpoints are the newest first.
	Checkpoints []listedCheckpoint `json:"checkpoints"`
}

// listedCheckpoint is a checkpoint in a listing.
type listedCheckpoint struct {
	// Checkpoint is the digest that names it.
	Checkpoint  spec.Digest `json:"checkpoint"`
	Phase       string      `json:"phase"`
	Incarnation int         `json:"incarnation"`
	CreatedAt   time.Time   `json:"created_at"`
	// Assignments and Artifacts are counts.
	Assignments int         `json:"assignments"`
	Artifacts   int         `json:"artifacts"`
	Usage       cost.Usage  `json:"usage"`
	Previous    spec.Digest `json:"previous"`
	// File is the copy of the checkpoint for people.
	File string `json:"file"`
}

// shownCheckpoint is the document of `checkpoints show -o json`: the checkpoint
// and the digest that names it.
type shownCheckpoint struct {
	Name spec.Digest `json:"checkpoint"`
	session.Checkpoint
}

func newCheckpoints(a *app) *cobra.Command {
	return group("checkpoints", "List, show, verify, prune, export and import the checkpoints of sessions",
		newCheckpointsList(a), newCheckpointsShow(a), newCheckpointsVerify(a), newCheckpointsPrune(a),
		newCheckpointsExport(a), newCheckpointsImport(a))
}

// checkpointsCommand is `checkpoints list` and `checkpoints show`.
type checkpointsCommand struct {
	*console
	*storeOpener
}

func newCheckpointsList(a *app) *cobra.Command {
	c := checkpointsCommand{a.console, a.storeOpener}
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
	c := checkpointsCommand{a.console, a.storeOpener}
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
	s, key, err := c.stored(sessionID)
	if err != nil {
		return err
	}
	chain, err := c.checkpointChain(ctx, s, key)
	if err != nil {
		return err
	}
	doc := checkpointsDocument{Session: sessionID, Checkpoints: []listedCheckpoint{}}
	t := c.table("PHASE", "CHECKPOINT", "ASSIGNMENTS", "ARTIFACTS", "TOKENS", "TAKEN")
	for _, checkpoint := range chain {
		file, err := s.CheckpointPath(key, checkpoint.CurrentPhase)
		if err != nil {
			return err
		}
		doc.Checkpoints = append(doc.Checkpoints, listedCheckpoint{
			Checkpoint: checkpoint.Name, Phase: checkpoint.CurrentPhase, Incarnation: checkpoint.Incarnation, CreatedAt: checkpoint.CreatedAt,
			Assignments: len(checkpoint.Assignments), Artifacts: len(checkpoint.Artifacts), Usage: checkpoint.Usage, Previous: checkpoint.Previous, File: file,
		})
		t.Add(terminal.Plain(checkpoint.CurrentPhase), terminal.Plain(checkpoint.Name.Short()), terminal.Plain(fmt.Sprint(len(checkpoint.Assignments))),
			terminal.Plain(fmt.Sprint(len(checkpoint.Artifacts))), terminal.Plain(terminal.Number(checkpoint.Usage.Tokens())), terminal.Plain(terminal.Moment(&checkpoint.CreatedAt)))
	}
	return c.result(doc, func() { t.Write(c.stdout) })
}

func (c *checkpointsCommand) show(ctx context.Context, sessionID, which string) error {
	s, key, err := c.stored(sessionID)
	if err != nil {
		return err
	}
	chain, err := c.checkpointChain(ctx, s, key)
	if err != nil {
		return err
	}
	checkpoint, err := findCheckpoint(chain, sessionID, which)
	if err != nil {
		return err
	}
	return c.result(shownCheckpoint{checkpoint.Name, checkpoint.Checkpoint}, func() { c.write(checkpoint) })
}

// findCheckpoint finds a checkpoint by its phase or the beginning of its digest.
func findCheckpoint(chain []store.StoredCheckpoint, sessionID, which string) (store.StoredCheckpoint, error) {
	if which == "" {
		return chain[0], nil
	}
	var phases []string
	for _, c := range chain {
		if c.CurrentPhase == which || (len(which) >= 6 && strings.HasPrefix(string(c.Name), which)) {
			return c, nil
		}
		phases = append(phases, c.CurrentPhase)
	}
	return store.StoredCheckpoint{}, usagef("checkpoint %[2]q of session %[1]s not found; it has those after %[3]s", sessionID, which, strings.Join(phases, ", "))
}

func (c *checkpointsCommand) write(checkpoint store.StoredCheckpoint) {
	c.print("%s  after phase %s of session %s, team %s", c.palette.Paint(terminal.Bold, checkpoint.Name.Short()), checkpoint.CurrentPhase, checkpoint.Session, checkpoint.Team.Name)
	c.print("taken %s, incarnation %d, %s tokens%s, previous %s", terminal.Moment(&checkpoint.CreatedAt), checkpoint.Incarnation,
		terminal.Number(checkpoint.Usage.Tokens()), terminal.Money(checkpoint.Usage), terminal.Dash(checkpoint.Previous.Short()))
	if len(checkpoint.Assignments) > 0 {
		t := c.table("ASSIGNMENT", "STATE", "ROUNDS", "ATTEMPTS", "TOKENS", "SECONDS", "")
		for _, as := range checkpoint.Assignments {
			t.Add(terminal.Plain(as.String()), terminal.Painted(string(as.Status), terminal.StateColour(as.Status)),
				terminal.Plain(terminal.Figure(int64(as.Rounds))), terminal.Plain(terminal.Figure(int64(as.Attempts))),
				terminal.Plain(terminal.Figure(as.Usage.Tokens())), terminal.Plain(fmt.Sprintf("%.1f", as.Seconds)), terminal.Painted(as.Summary, terminal.Dim))
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
