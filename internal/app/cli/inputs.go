package cli

import (
	"context"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/ops/apply"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/platform/bounded"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/cas"
)

// courseFlags select the part of a team's work that a session does.
type courseFlags struct{ control.PhaseSelection }

// add gives a command the flags.
func (f *courseFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.Only, "only", nil, "run only these phases, separated by commas")
	flags.StringVar(&f.From, "from", "", "run this phase and all phases that depend on it")
	flags.StringVar(&f.Until, "until", "", "run this phase and all phases that it depends on")
	flags.StringSliceVar(&f.PauseAfter, "pause-after", nil, "pause after these phases, until `approve` or `resume`")
}

// suppliedFlags are files and decisions in place of work that is not run.
type suppliedFlags struct {
	inputs    []string
	decisions []string
}

// add gives a command the flags for a new session.
func (f *suppliedFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&f.inputs, "input", nil, "PHASE=PATH: use the files of a directory, or one file, as the result of a "+
		"phase instead of running it; repeatable")
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

// store stores files that a person supplies, and adds them and the decisions to a session.
func (f suppliedFlags) store(ctx context.Context, out *console, env environ, s *store.Store, t spec.Team,
	in *control.NewSession,
) (err error) {
	for _, text := range f.decisions {
		name, value, err := pair("--decision", "NAME=VALUE", text)
		if err != nil {
			return err
		}
		if in.Decisions == nil {
			in.Decisions = map[string]string{}
		}
		in.Decisions[name] = value
	}
	in.Supplied, err = phaseFiles(ctx, out, env, s, t, "input", f.inputs)
	return err
}

// phaseFiles stores the files of values of the form PHASE=PATH, and returns their manifests by phase.
func phaseFiles(ctx context.Context, out *console, env environ, s *store.Store, t spec.Team, flag string,
	texts []string,
) (map[string]spec.Digest, error) {
	files := map[string]spec.Digest{}
	for _, text := range texts {
		name, where, err := pair("--"+flag, "PHASE=PATH", text)
		if err != nil {
			return nil, err
		}
		if err := inputError(control.CheckPhase(t, flag, name)); err != nil {
			return nil, err
		}
		if files[name] != "" {
			return nil, usagef("--%s: phase %s is supplied twice; put all its files into one directory", flag, name)
		}
		phase, _ := t.Phase(name)
		if files[name], err = suppliedFiles(ctx, out, env, s, t, phase, "--"+flag+" "+text, where); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// suppliedFiles stores a directory's files, or one file under the name that the
// phase produces.
func suppliedFiles(ctx context.Context, out *console, env environ, s *store.Store, t spec.Team, phase spec.Phase, flag,
	where string,
) (spec.Digest, error) {
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
		return s.Content.PutManifest(ctx,
			cas.Manifest{target: {SHA256: name, Size: int64(len(data)), Executable: info.Mode()&0o100 != 0}})
	}
	snap, err := s.Content.Snapshot(ctx, where, apply.WithTracked(ctx, where, env, cas.SnapshotOptions{Ignore: t.Ignore}))
	if err != nil {
		return "", err
	}
	if snap.Files == 0 {
		return "", usagef("%s: %s has no files", flag, where)
	}
	for _, note := range snap.LeftOut() {
		out.printErr("not taken from %s, %s", where, note)
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

// workspaceFlags name the directory whose files a session starts from.
type workspaceFlags struct {
	dir     string
	include []string
}

// add gives a command the flags.
func (f *workspaceFlags) add(cmd *cobra.Command, usage string) {
	cmd.Flags().StringVar(&f.dir, "workspace", "", usage)
	cmd.Flags().StringArrayVar(&f.include, "include", nil, "pattern of files to take although ignored or looking like secrets; "+
		"repeatable")
}

// check refuses a workspace that is no directory, and patterns without one.
func (f workspaceFlags) check() error {
	if f.dir == "" {
		if len(f.include) > 0 {
			return usagef("--include needs --workspace")
		}
		return nil
	}
	info, err := os.Stat(f.dir)
	if err != nil || !info.IsDir() {
		return usagef("--workspace: %s is not a readable directory", f.dir)
	}
	return nil
}

// absPath is a path that was named, absolute; a relative one is below the working directory.
func (a *app) absPath(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(a.env.Dir, path)
}

// directory is a place that has to be a directory.
func (a *app) directory(flag, dir string) (string, error) {
	dir = a.absPath(dir)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return "", usagef("%s %s is not a readable directory", flag, dir)
	}
	return dir, nil
}
