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
	"github.com/maestro-hive/maestro/internal/cas"
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

// add gives a command the flags.
func (f *courseFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.only, "only", nil, "run only these phases, separated by commas")
	flags.StringVar(&f.from, "from", "", "run this phase and all phases that depend on it")
	flags.StringVar(&f.until, "until", "", "run this phase and all phases that it depends on")
	flags.StringSliceVar(&f.pauseAfter, "pause-after", nil, "pause after these phases, until `approve` or `resume`")
}

// given reports whether the flags select phases.
func (f courseFlags) given() bool { return len(f.only) > 0 || f.from != "" || f.until != "" }

// course resolves the flags on a team.
func (f courseFlags) course(t spec.Team) (session.Course, error) {
	if len(f.only) > 0 && (f.from != "" || f.until != "") {
		return session.Course{}, usagef("--only excludes --from and --until; leave one out")
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
			return c, usagef("no phase lies between --from %s and --until %s; choose other phases", f.from, f.until)
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
		hint = "; it has " + textfmt.FirstOf(t.PhaseNames(), 8)
	}
	return usagef("%s: phase %q not found in team %s%s", flag, phase, t.Name, hint)
}

// suppliedFlags are files and decisions that stand for what is not run.
type suppliedFlags struct {
	inputs    []string
	decisions []string
	edits     []string
}

// add gives a command the flags for a session that begins.
func (f *suppliedFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&f.inputs, "input", nil, "PHASE=PATH: use the files of a directory, or one file, as the result of a phase instead of running it; repeatable")
	flags.StringArrayVar(&f.decisions, "decision", nil, "NAME=VALUE: a decision that the session starts with; repeatable")
}

// pair splits a value of the form NAME=VALUE.
func pair(flag, form, text string) (name, value string, err error) {
	name, value, ok := strings.Cut(text, "=")
	if !ok || name == "" || value == "" {
		return "", "", usagef("%s: %q is not of the form %s", flag, text, form)
	}
	return name, value, nil
}

// store stores files that a person supplies and adds them to the course. Of an edit only
// what differs from the session's tree counts, so that a copy of all its files
// can be supplied.
func (f suppliedFlags) store(ctx context.Context, out *console, s *store.Store, t spec.Team, tree spec.Digest, course *session.Course) error {
	for _, text := range f.decisions {
		name, value, err := pair("--decision", "NAME=VALUE", text)
		if err != nil {
			return err
		}
		if course.Given == nil {
			course.Given = map[string]string{}
		}
		course.Given[name] = value
	}
	selects := len(course.Only) > 0
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
			files, err := suppliedFiles(ctx, out, s, t, phase, kind.flag+" "+text, where)
			if err != nil {
				return err
			}
			if kind.edit {
				if files, err = changedFiles(ctx, s, tree, files); err != nil {
					return err
				}
			}
			course.Supplied = append(course.Supplied, session.SuppliedWork{Phase: name, Files: files, Edit: kind.edit})
			course.Only = slices.DeleteFunc(course.Only, func(p string) bool { return p == name && !kind.edit })
		}
	}
	if selects && len(course.Only) == 0 { // an empty selection would be all
		return usagef("every selected phase is supplied, so nothing is left to run; select phases that depend on them")
	}
	if faults := course.Problems(t); len(faults) > 0 {
		return usagef("%s", strings.Join(faults, "\n  "))
	}
	return nil
}

// changedFiles is the manifest of the files that differ from a tree's.
func changedFiles(ctx context.Context, s *store.Store, tree, files spec.Digest) (spec.Digest, error) {
	before, err := s.Content.Manifest(ctx, tree)
	if err != nil {
		return "", err
	}
	edited, err := s.Content.Manifest(ctx, files)
	if err != nil {
		return "", err
	}
	for p, e := range edited {
		if before[p] == e {
			delete(edited, p)
		}
	}
	if len(edited) == 0 {
		return "", usagef("--edit: no file differs from the session's; edit a file first")
	}
	return s.Content.PutManifest(ctx, edited)
}

// suppliedFiles stores a directory's files, or one file under the name that the
// phase produces.
func suppliedFiles(ctx context.Context, out *console, s *store.Store, t spec.Team, phase spec.Phase, flag, where string) (spec.Digest, error) {
	info, err := os.Stat(where)
	if err != nil {
		return "", usagef("%s: %s cannot be read; give a file or a directory", flag, where)
	}
	if !info.IsDir() {
		data, err := bounded.ReadFile(where, cas.DefaultFileBytes)
		if err != nil {
			return "", usagef("%s: %w", flag, err)
		}
		name, err := s.Content.PutBlob(ctx, data)
		if err != nil {
			return "", err
		}
		target := targetOf(phase, filepath.Base(where))
		out.printErr("%s is used as %s", where, target)
		return s.Content.PutManifest(ctx, cas.Manifest{target: {SHA256: name, Size: int64(len(data)), Executable: info.Mode()&0o100 != 0}})
	}
	snap, err := s.Content.Snapshot(ctx, where, cas.SnapshotOptions{Ignore: t.Ignore})
	if err != nil {
		return "", err
	}
	if snap.Files == 0 {
		return "", usagef("%s: %s has no files", flag, where)
	}
	if len(snap.Private) > 0 {
		out.printErr("not taken from %s, because they look like secrets: %s", where, textfmt.FirstOf(snap.Private, 5))
	}
	return snap.Manifest, nil
}

// targetOf is the path that a single file gets: that of the file that the phase
// produces, if it names exactly one.
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
