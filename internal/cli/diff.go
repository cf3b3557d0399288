package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/team"
)

// diffDocument is the document of `artifacts diff -o json`.
type diffDocument struct {
	Session string `json:"session"`
	Phase   string `json:"phase"`
	// Checkpoint is the one that the phase's work is taken from; From and To are
	// the manifests that are compared.
	Checkpoint team.Digest   `json:"checkpoint"`
	From       team.Digest   `json:"from"`
	To         team.Digest   `json:"to"`
	Files      []changedFile `json:"files"`
}

// changedFile is how a phase has changed a file.
type changedFile struct {
	Path string `json:"path"`
	// Change is added, changed or removed.
	Change string `json:"change"`
	// Added and Removed count lines.
	Added   int `json:"added"`
	Removed int `json:"removed"`
	// Diff is the unified difference; left out with --stat.
	Diff string `json:"diff,omitempty"`
}

func newArtifactsDiff(a *app) *cobra.Command {
	var stat bool
	cmd := &cobra.Command{
		Use:   "diff SESSION PHASE",
		Short: "Show what a phase has changed, compared with what it started from",
		Long: "Show what a finished phase has changed, as a unified diff against the files that it started from: what to look at before " +
			"`maestro approve` or `maestro reject`. It reads the store only.",
		Args: arguments(2, 2),
		RunE: func(cmd *cobra.Command, args []string) error { return a.diff(cmd.Context(), args[0], args[1], stat) },
	}
	cmd.Flags().BoolVar(&stat, "stat", false, "list the files and how many lines were added and removed")
	a.addNamespaceFlags(cmd)
	a.addStateDirFlag(cmd)
	a.addOutputFlag(cmd)
	cmd.ValidArgsFunction = a.completePhases
	return cmd
}

func (a *app) diff(ctx context.Context, session, phase string, stat bool) error {
	s, c, err := a.latest(ctx, session)
	if err != nil {
		return err
	}
	doc := diffDocument{Session: session, Phase: phase, Checkpoint: c.Name, Files: []changedFile{}}
	if doc.From, doc.To, err = a.phaseTrees(ctx, s, c, phase); err != nil {
		return err
	}
	for d, err := range s.PathDiffs(ctx, doc.From, doc.To) {
		if err != nil {
			return err
		}
		f := changedFile{Path: d.Path, Change: "changed", Added: d.Added, Removed: d.Removed}
		switch {
		case !d.Had:
			f.Change = "added"
		case !d.Has:
			f.Change = "removed"
		}
		if !stat {
			f.Diff = d.Text
		}
		doc.Files = append(doc.Files, f)
	}
	switch {
	case a.output == outputJSON:
		return a.printJSON(doc)
	case len(doc.Files) == 0:
		a.say("phase %s has changed no file", phase)
	case stat:
		a.writeStat(doc)
	default:
		a.writeDiff(doc)
	}
	return nil
}

// phaseTrees are the files that a phase started from, and those with its work.
func (a *app) phaseTrees(ctx context.Context, s *store.Store, c store.StoredCheckpoint, phase string) (from, to team.Digest, err error) {
	t, err := a.teamOf(ctx, s, c, "")
	if err != nil {
		return "", "", err
	}
	if err := checkPhase(t, "artifacts diff", phase); err != nil {
		return "", "", err
	}
	done := map[team.AssignmentID]team.CheckpointAssignment{}
	var finished []string
	for _, as := range c.Assignments {
		done[as.AssignmentID] = as
		if !slices.Contains(finished, as.Phase) {
			finished = append(finished, as.Phase)
		}
	}
	if !slices.Contains(finished, phase) {
		have := "none has yet"
		if len(finished) > 0 {
			have = "there is that of " + strings.Join(finished, ", ")
		}
		return "", "", usagef("phase %s of session %s has no finished work; %s", phase, c.Session, have)
	}
	above := t.Ancestors(phase)
	before, err := s.Fold(ctx, c.Workspace, t.Steps(above, done))
	if err != nil {
		return "", "", err
	}
	after, err := s.Fold(ctx, c.Workspace, t.Steps(append(slices.Clone(above), phase), done))
	return before.Manifest, after.Manifest, err
}

func (a *app) writeDiff(doc diffDocument) {
	for _, f := range doc.Files {
		for line := range strings.Lines(f.Diff) {
			if a.env.IsTerminal(a.env.Stdout) {
				line = a.paint.paint(diffColour(line), strings.TrimSuffix(safeText(line), "\n")) + "\n"
			}
			_, _ = fmt.Fprint(a.env.Stdout, line)
		}
	}
}

// diffColour is the colour of a line of a unified difference.
func diffColour(line string) string {
	switch {
	case strings.HasPrefix(line, "--- "), strings.HasPrefix(line, "+++ "):
		return bold
	case strings.HasPrefix(line, "@@"):
		return cyan
	case strings.HasPrefix(line, "+"):
		return green
	case strings.HasPrefix(line, "-"):
		return red
	}
	return ""
}

func (a *app) writeStat(doc diffDocument) {
	t := &table{paint: a.paint}
	t.head("PATH", "CHANGE", "ADDED", "REMOVED")
	added, removed := 0, 0
	for _, f := range doc.Files {
		added, removed = added+f.Added, removed+f.Removed
		t.add(plain(printable(f.Path)), plain(f.Change), cell{fmt.Sprintf("+%d", f.Added), green}, cell{fmt.Sprintf("-%d", f.Removed), red})
	}
	t.write(a.env.Stdout)
	a.say("%s, +%d -%d lines", count(len(doc.Files), "file"), added, removed)
}
