package cli

import (
	"context"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/bounded"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// courseFlags say which part of a team's work a session is to do.
type courseFlags struct {
	only        []string
	from, until string
	pauseAfter  []string
}

// add gives a command the flags. They complete the phases that of lists.
func (f *courseFlags) add(cmd *cobra.Command, of func(args []string) []string) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.only, "only", nil, "run just these phases, separated by commas")
	flags.StringVar(&f.from, "from", "", "run this phase and all that builds on it")
	flags.StringVar(&f.until, "until", "", "run this phase and all that it builds on")
	flags.StringSliceVar(&f.pauseAfter, "pause-after", nil, "park after these phases, until approve or resume says to go on")
	complete := listOf(func(_ *cobra.Command, args []string) []string { return of(args) })
	for _, name := range []string{"only", "from", "until", "pause-after"} {
		_ = cmd.RegisterFlagCompletionFunc(name, complete)
	}
}

// given tells whether the flags select phases.
func (f courseFlags) given() bool { return len(f.only) > 0 || f.from != "" || f.until != "" }

// course resolves the flags on a team.
func (f courseFlags) course(t spec.Team) (session.Course, error) {
	if len(f.only) > 0 && (f.from != "" || f.until != "") {
		return session.Course{}, usagef("--only names the phases themselves; leave out --from and --until")
	}
	for flag, phases := range map[string][]string{"--only": f.only, "--from": {f.from}, "--until": {f.until}, "--pause-after": f.pauseAfter} {
		for _, phase := range phases {
			if err := checkPhase(t, flag, phase); phase != "" && err != nil {
				return session.Course{}, err
			}
		}
	}
	c := session.Course{Only: f.only, PauseAfter: f.pauseAfter}
	if f.from != "" || f.until != "" {
		if c.Only = t.Between(f.from, f.until); len(c.Only) == 0 {
			return c, usagef("no phase builds on %s and is built on by %s; choose other bounds", f.from, f.until)
		}
	}
	return c, nil
}

// checkPhase refuses a phase that the team does not have.
func checkPhase(t spec.Team, flag, phase string) error {
	if _, ok := t.Phase(phase); ok {
		return nil
	}
	hint := textfmt.DidYouMean(phase, t.PhaseNames())
	if hint == "" {
		hint = "; it has " + listed(t.PhaseNames(), 8)
	}
	return usagef("%s %s: team %s has no such phase%s", flag, phase, t.Name, hint)
}

// suppliedFlags are files and decisions that stand for what is not run.
type suppliedFlags struct {
	inputs    []string
	decisions []string
	edits     []string
}

// add gives a command the flags for a session that begins. They complete the
// phases that of lists.
func (f *suppliedFlags) add(cmd *cobra.Command, of func(args []string) []string) {
	flags := cmd.Flags()
	flags.StringArrayVar(&f.inputs, "input", nil, "PHASE=PATH: the files of a directory, or one file, stand for the work of a phase that is not run; repeatable")
	flags.StringArrayVar(&f.decisions, "decision", nil, "NAME=VALUE: a decision that was made before the session; repeatable")
	_ = cmd.RegisterFlagCompletionFunc("input", pairsOf(of))
}

// pair splits what is written in a form like NAME=VALUE.
func pair(flag, form, text string) (name, value string, err error) {
	name, value, ok := strings.Cut(text, "=")
	if !ok || name == "" || value == "" {
		return "", "", usagef("%s %s: write %s %s", flag, text, flag, form)
	}
	return name, value, nil
}

// supply stores what a person hands in and adds it to the course. Of an edit only
// what differs from the session's tree counts, so that a copy of all its files
// may be handed in.
func (a *app) supply(ctx context.Context, s *store.Store, t spec.Team, f suppliedFlags, tree spec.Digest, c *session.Course) error {
	for _, text := range f.decisions {
		name, value, err := pair("--decision", "NAME=VALUE", text)
		if err != nil {
			return err
		}
		if c.Given == nil {
			c.Given = map[string]string{}
		}
		c.Given[name] = value
	}
	selects := len(c.Only) > 0
	for _, kind := range []struct {
		flag  string
		texts []string
		edit  bool
	}{{"--input", f.inputs, false}, {"--edit", f.edits, true}} {
		for _, text := range kind.texts {
			name, where, err := pair(kind.flag, "PHASE=PATH", text)
			if err != nil {
				return err
			}
			if err := checkPhase(t, kind.flag, name); err != nil {
				return err
			}
			phase, _ := t.Phase(name)
			files, err := a.suppliedFiles(ctx, s, t, phase, kind.flag+" "+text, where)
			if err != nil {
				return err
			}
			if kind.edit {
				if files, err = changedFiles(ctx, s, tree, files); err != nil {
					return err
				}
			}
			c.Supplied = append(c.Supplied, session.SuppliedWork{Phase: name, Files: files, Edit: kind.edit})
			c.Only = slices.DeleteFunc(c.Only, func(p string) bool { return p == name && !kind.edit })
		}
	}
	if selects && len(c.Only) == 0 { // an empty selection would be all
		return usagef("everything that is selected is supplied, so that nothing is left to run; select what builds on it")
	}
	if faults := c.Faults(t); len(faults) > 0 {
		return usagef("%s", strings.Join(faults, "\n  "))
	}
	return nil
}

// changedFiles is the manifest of the files that differ from a tree's.
func changedFiles(ctx context.Context, s *store.Store, tree, files spec.Digest) (spec.Digest, error) {
	before, err := s.Manifest(ctx, tree)
	if err != nil {
		return "", err
	}
	edited, err := s.Manifest(ctx, files)
	if err != nil {
		return "", err
	}
	for p, e := range edited {
		if before[p] == e {
			delete(edited, p)
		}
	}
	if len(edited) == 0 {
		return "", usagef("--edit: nothing differs from what the session has; edit a file first")
	}
	return s.PutManifest(ctx, edited)
}

// suppliedFiles stores a directory's files, or one file under the name that the
// phase produces.
func (a *app) suppliedFiles(ctx context.Context, s *store.Store, t spec.Team, phase spec.Phase, flag, where string) (spec.Digest, error) {
	info, err := os.Stat(where)
	if err != nil {
		return "", usagef("%s: %s cannot be read; name a directory whose files stand for the phase's, or a file", flag, where)
	}
	if !info.IsDir() {
		data, err := bounded.ReadFile(where, store.DefaultFileBytes)
		if err != nil {
			return "", usagef("%s: %w", flag, err)
		}
		name, err := s.PutBlob(ctx, data)
		if err != nil {
			return "", err
		}
		target := targetOf(phase, filepath.Base(where))
		a.say("%s stands for %s", where, target)
		return s.PutManifest(ctx, store.Manifest{target: {SHA256: name, Size: int64(len(data)), Executable: info.Mode()&0o100 != 0}})
	}
	snap, err := s.Snapshot(ctx, where, store.SnapshotOptions{Ignore: t.Ignore})
	if err != nil {
		return "", err
	}
	if snap.Files == 0 {
		return "", usagef("%s: %s has no files; put those of the phase there", flag, where)
	}
	if len(snap.Private) > 0 {
		a.say("left out of %s, because they look as if they held keys: %s", where, listed(snap.Private, 5))
	}
	return snap.Manifest, nil
}

// targetOf is the path that a single file gets: that of the file that the phase
// produces, if it says plainly which one.
func targetOf(phase spec.Phase, base string) string {
	var plain []string
	for _, pattern := range phase.Produces {
		if !strings.ContainsAny(pattern, "*?[{\\") {
			plain = append(plain, pattern)
		}
	}
	for _, p := range plain {
		if path.Base(p) == base {
			return p
		}
	}
	if len(plain) == 1 {
		return plain[0]
	}
	return base
}
