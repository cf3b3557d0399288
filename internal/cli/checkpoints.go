package cli

import (
	"context"
	"errors"
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

func newCheckpointsList(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list SESSION",
		Short: "List a session's checkpoints, newest first",
		Args:  cmdline.Arguments(1, 1),
		RunE:  func(cmd *cobra.Command, args []string) error { return a.listCheckpoints(cmd.Context(), args[0]) },
	}
	a.addStoreFlags(cmd)
	return cmd
}

func newCheckpointsShow(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show SESSION [PHASE | CHECKPOINT]",
		Short: "Show a checkpoint: the newest, the one after a phase, or the one with a digest",
		Args:  cmdline.Arguments(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.showCheckpoint(cmd.Context(), args[0], strings.Join(args[1:], ""))
		},
	}
	a.addStoreFlags(cmd)
	return cmd
}

// checkpointChain lists a session's checkpoints; damage is printed and the rest returned.
func (a *app) checkpointChain(ctx context.Context, s *store.Store, key session.Key) ([]store.StoredCheckpoint, error) {
	chain, err := s.Checkpoints(ctx, key)
	damaged := errors.Is(err, session.ErrCorrupt) || errors.Is(err, session.ErrNotFound)
	if err != nil && !damaged {
		return nil, err
	}
	if damaged {
		a.printErr("damaged: %s", strings.ReplaceAll(err.Error(), "\n", "\n  "))
	}
	if len(chain) == 0 {
		return nil, failf("session %s has no readable checkpoint", key.Session)
	}
	return chain, nil
}

func (a *app) listCheckpoints(ctx context.Context, sessionID string) error {
	s, key, err := a.stored(sessionID)
	if err != nil {
		return err
	}
	chain, err := a.checkpointChain(ctx, s, key)
	if err != nil {
		return err
	}
	doc := checkpointsDocument{Session: sessionID, Checkpoints: []listedCheckpoint{}}
	t := terminal.NewTable(a.palette)
	t.Head("PHASE", "CHECKPOINT", "ASSIGNMENTS", "ARTIFACTS", "TOKENS", "TAKEN")
	for _, c := range chain {
		file, err := s.CheckpointPath(key, c.CurrentPhase)
		if err != nil {
			return err
		}
		doc.Checkpoints = append(doc.Checkpoints, listedCheckpoint{
			Checkpoint: c.Name, Phase: c.CurrentPhase, Incarnation: c.Incarnation, CreatedAt: c.CreatedAt,
			Assignments: len(c.Assignments), Artifacts: len(c.Artifacts), Usage: c.Usage, Previous: c.Previous, File: file,
		})
		t.Add(terminal.Plain(c.CurrentPhase), terminal.Plain(c.Name.Short()), terminal.Plain(fmt.Sprint(len(c.Assignments))),
			terminal.Plain(fmt.Sprint(len(c.Artifacts))), terminal.Plain(terminal.Number(c.Usage.Tokens())), terminal.Plain(terminal.Moment(&c.CreatedAt)))
	}
	return a.result(doc, func() { t.Write(a.env.Stdout) })
}

func (a *app) showCheckpoint(ctx context.Context, sessionID, which string) error {
	s, key, err := a.stored(sessionID)
	if err != nil {
		return err
	}
	chain, err := a.checkpointChain(ctx, s, key)
	if err != nil {
		return err
	}
	c, err := findCheckpoint(chain, sessionID, which)
	if err != nil {
		return err
	}
	return a.result(shownCheckpoint{c.Name, c.Checkpoint}, func() { a.writeCheckpoint(c) })
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

func (a *app) writeCheckpoint(c store.StoredCheckpoint) {
	a.print("%s  after phase %s of session %s, team %s", a.palette.Paint(terminal.Bold, c.Name.Short()), c.CurrentPhase, c.Session, c.Team.Name)
	a.print("taken %s, incarnation %d, %s tokens%s, previous %s", terminal.Moment(&c.CreatedAt), c.Incarnation,
		terminal.Number(c.Usage.Tokens()), terminal.Money(c.Usage), terminal.Dash(c.Previous.Short()))
	if len(c.Assignments) > 0 {
		t := terminal.NewTable(a.palette)
		t.Head("ASSIGNMENT", "STATE", "ROUNDS", "ATTEMPTS", "TOKENS", "SECONDS", "")
		for _, as := range c.Assignments {
			t.Add(terminal.Plain(as.String()), terminal.Painted(string(as.Status), terminal.StateColour(as.Status)),
				terminal.Plain(terminal.Figure(int64(as.Rounds))), terminal.Plain(terminal.Figure(int64(as.Attempts))),
				terminal.Plain(terminal.Figure(as.Usage.Tokens())), terminal.Plain(fmt.Sprintf("%.1f", as.Seconds)), terminal.Painted(as.Summary, terminal.Dim))
		}
		a.print("")
		t.Fit(a.width(a.env.Stdout))
		t.Write(a.env.Stdout)
	}
	if len(c.Decisions) > 0 {
		a.print("\ndecisions:")
		for _, name := range slices.Sorted(maps.Keys(c.Decisions)) {
			a.print("  %s = %s", name, terminal.Clip(c.Decisions[name], 200))
		}
	}
	a.writeAnswers(c.Checkpoint)
	if len(c.Artifacts) > 0 {
		a.print("\nartifacts:")
		for _, f := range c.Artifacts {
			a.print("  %s (%s, %s)", safetext.Name(f.Path), textfmt.Size(f.Size), f.AssignmentID)
		}
	}
}

// writeAnswers prints people's answers, and which work was sent back.
func (a *app) writeAnswers(c session.Checkpoint) {
	if len(c.Answers) > 0 {
		a.print("\nanswers:")
	}
	for _, answer := range c.Answers {
		of := subject(session.HelpRequest{Phase: answer.Phase, Persona: answer.Persona})
		a.print("  %s: %s%s, %s%s", of, answer.Verb, by(answer.By), terminal.Moment(&answer.At), reason(answer.Note))
	}
	if len(c.Reworks) > 0 {
		a.print("\nsent back:")
	}
	for _, r := range c.Reworks {
		who := by(r.By)
		if r.From != (spec.AssignmentID{}) {
			who = " by " + r.From.String()
		}
		a.print("  %s%s, %s: %s", r.To, who, terminal.Moment(&r.At), terminal.Clip(strings.Join(r.Reasons, "; "), 200))
	}
}
