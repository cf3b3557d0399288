package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/store/cas"
)

// plainIndex makes git take files as they are, whatever the repository is set to,
// and keeps hooks and watchers out of an index that is none of theirs.
var plainIndex = []string{
	"-c", "core.fileMode=true", "-c", "core.symlinks=true", "-c", "core.ignoreCase=false", "-c", "core.safecrlf=false",
	"-c", "core.sparseCheckout=false", "-c", "core.splitIndex=false", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null",
}

// gitLinkMode is the mode of a submodule in git's trees.
const gitLinkMode = "160000"

// Branch is the branch that holds a session's work.
type Branch struct {
	Name string `json:"name"`
	// Commit is the new one, empty where none was made; Parent is the one that it
	// is made on, empty for a repository without commits.
	Commit string `json:"commit"`
	Parent string `json:"parent"`
}

// Committed is what became of a branch.
type Committed struct {
	Outcome
	Branch Branch
	// Changed: the work differs from the parent; where it does not, no commit is made.
	Changed bool
	// Prefix is the directory's path in the repository, empty or ending in a slash.
	Prefix string
	// Head is what is checked out, where a commit was made.
	Head string
	// Unnamed are those of author and committer that git has no name for, so that
	// they are Maestro.
	Unnamed []string
}

// branching makes a commit of a session's work without a working tree.
type branching struct {
	work Work
	git  git
	// ref is the branch, had its commit before; empty: it is new.
	ref, had string
	// parent is the commit to build on; empty: the repository has none.
	parent string
	// prefix is the directory's path in the repository, empty or ending in a slash.
	prefix string
	// scratch is a directory for an index and files.
	scratch string
	// paths is what the session has changed.
	paths []string
}

// Commit makes a commit of what a session has changed, on a new branch of the repository
// that the target's directory is in; with force an old one is replaced. Its parent is the
// commit that the session was started on, if the repository has that, else the one that is
// checked out. It fails with a [RefusedError] where that cannot be.
func Commit(ctx context.Context, w Work, t Target, branch, startedOn string) (out Committed, err error) {
	b := &branching{work: w, git: gitIn(t.Dir, t.Environ)}
	if err := b.find(ctx, t, branch, startedOn); err != nil {
		return out, err
	}
	out.Branch, out.Prefix = Branch{Name: branch, Parent: b.parent}, b.prefix
	made, err := b.trees(ctx, t.Paths, &out.Outcome)
	if err != nil {
		return out, err
	}
	out.Changed = made.after != made.parent
	if out.refuse(t.Force) || t.DryRun || !out.Changed {
		return out, nil
	}
	if out.Branch.Commit, out.Unnamed, err = b.commit(ctx, made.after); err != nil {
		return out, err
	}
	out.Head = b.git.head(ctx)
	return out, nil
}

// find looks at the repository and refuses what cannot be.
func (b *branching) find(ctx context.Context, t Target, branch, startedOn string) error {
	gitDir, err := b.git.run(ctx, nil, "rev-parse", "--absolute-git-dir")
	if refused, ok := errors.AsType[*gitError](err); ok {
		return refusef("--branch needs a git repository, but %s is not in one (%s); give another --dir, or omit --branch",
			b.git.dir, textfmt.FirstLine(refused.said))
	}
	if err != nil {
		return err
	}
	if b.git.says(ctx, "rev-parse", "--is-inside-work-tree") != "true" {
		return refusef("%s is not in a working tree of a git repository; give one with --dir", b.git.dir)
	}
	if b.prefix, err = b.git.run(ctx, nil, "rev-parse", "--show-prefix"); err != nil {
		return err
	}
	b.ref = "refs/heads/" + branch
	if _, err := b.git.run(ctx, nil, "check-ref-format", b.ref); err != nil || strings.HasPrefix(branch, "-") {
		return refusef("--branch: %s is not a valid branch name", branch)
	}
	b.had = b.git.says(ctx, "rev-parse", "--verify", "--quiet", b.ref)
	switch {
	case b.git.says(ctx, "symbolic-ref", "--quiet", "HEAD") == b.ref, b.git.says(ctx, "for-each-ref", "--format=%(worktreepath)",
		b.ref) != "":
		return refusef("branch %s is checked out, and its working tree would become out of date; choose another", branch)
	case b.had != "" && !t.Force:
		return refusef("branch %s already exists; choose another, or replace it with --force", branch)
	}
	b.parent = b.git.head(ctx)
	if startedOn != "" && b.git.says(ctx, "cat-file", "-t", startedOn) == "commit" {
		b.parent = startedOn
	}
	b.git = b.git.with("GIT_DIR=" + gitDir)
	return nil
}

// trees are trees of git's: the parent's own, and that with the session's paths as they were at its start and as they are.
type trees struct{ parent, before, after string }

// trees builds the parent's tree with the session's work, and notes what of the parent is not as the session began with it.
func (b *branching) trees(ctx context.Context, paths []string, out *Outcome) (made trees, err error) {
	w := b.work
	for d, err := range w.Store.Content.Patch(ctx, w.Workspace, w.Tree, cas.PatchOptions{Paths: paths}) {
		if err != nil {
			return made, err
		}
		b.paths = append(b.paths, d.Path)
		out.Files = append(out.Files, File{Path: d.Path, Change: ChangeOf(d.Had, d.Has)})
	}
	if b.scratch, err = os.MkdirTemp("", "maestro-apply-"); err != nil {
		return made, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.scratch)) }()
	if made.parent, err = b.tree(ctx, "", nil); err != nil {
		return made, err
	}
	if made.before, err = b.tree(ctx, "before", &w.Workspace); err != nil {
		return made, err
	}
	if made.after, err = b.tree(ctx, "after", &w.Tree); err != nil {
		return made, err
	}
	return made, b.compare(ctx, made, out)
}

// compare notes what the parent has otherwise than the session began with it, and what it has already.
func (b *branching) compare(ctx context.Context, trees trees, out *Outcome) error {
	lost, err := b.differences(ctx, trees.parent, trees.before)
	if err != nil {
		return err
	}
	made, err := b.differences(ctx, trees.parent, trees.after)
	if err != nil {
		return err
	}
	for path, mode := range made {
		if mode == gitLinkMode {
			out.Conflicts = append(out.Conflicts, Conflict{
				b.within(path), "is a submodule with its own commits; apply to it with --dir",
				true,
			})
		} else if _, differs := lost[path]; differs {
			out.Conflicts = append(out.Conflicts, Conflict{b.within(path), b.against(mode, out, path), false})
		}
	}
	slices.SortFunc(out.Conflicts, func(x, y Conflict) int { return cmp.Compare(x.Path, y.Path) })
	for i, f := range out.Files {
		_, differs := made[b.prefix+f.Path]
		out.Files[i].Already = !differs
	}
	return nil
}

// against says how the parent contradicts what the session began with.
func (b *branching) against(mode string, out *Outcome, path string) string {
	at := Short(b.parent)
	had := slices.ContainsFunc(out.Files, func(f File) bool { return b.prefix+f.Path == path && f.Change != "added" })
	switch {
	case mode == "000000":
		return "is not in " + at + ", but was at the session's start"
	case !had:
		return "is in " + at + ", but was not at the session's start"
	}
	return "differs in " + at + " from the session's start"
}

// within is a path of the repository as it is named in the session's tree.
func (b *branching) within(path string) string { return strings.TrimPrefix(path, b.prefix) }

// tree writes the parent's tree with the session's paths as they are in a manifest,
// filtered as git does when they are added, and returns its name. Without a
// manifest it is the parent's own.
func (b *branching) tree(ctx context.Context, name string, manifest *spec.Digest) (string, error) {
	work := filepath.Join(b.scratch, "tree-"+name)
	if err := os.MkdirAll(work, 0o700); err != nil {
		return "", err
	}
	g := b.git.with("GIT_INDEX_FILE="+filepath.Join(b.scratch, "index-"+name), "GIT_WORK_TREE="+work)
	g.dir, g.options = work, plainIndex
	read := []string{"read-tree", "--empty"}
	if b.parent != "" {
		read = []string{"read-tree", b.parent}
	}
	if _, err := g.run(ctx, nil, read...); err != nil {
		return "", err
	}
	if manifest != nil {
		if err := b.lay(ctx, g, *manifest); err != nil {
			return "", err
		}
	}
	return g.run(ctx, nil, "write-tree", "--missing-ok") // a partial clone would fetch all files
}

// lay makes the index hold the session's paths as a manifest has them.
func (b *branching) lay(ctx context.Context, g git, manifest spec.Digest) error {
	t, err := b.work.Store.Content.Tree(ctx, manifest)
	if err != nil {
		return err
	}
	set := cas.Manifest{}
	var there, gone strings.Builder
	for _, p := range b.paths {
		e, ok, err := t.Get(ctx, p)
		if err != nil {
			return err
		}
		if ok {
			set[p] = e
			there.WriteString(b.prefix + p + "\x00")
		} else {
			gone.WriteString(b.prefix + p + "\x00")
		}
	}
	if _, err := g.run(ctx, strings.NewReader(gone.String()), "update-index", "--force-remove", "-z", "--stdin"); err != nil ||
		len(set) == 0 {
		return err
	}
	if err := b.work.Store.Content.ExportFiles(ctx, set, filepath.Join(g.dir, filepath.FromSlash(b.prefix)), false); err != nil {
		return err
	}
	_, err = g.run(ctx, strings.NewReader(there.String()), "update-index", "--add", "--replace", "-z", "--stdin")
	if e, ok := errors.AsType[*gitError](err); ok && errors.Is(e, errLeftOut) {
		return refusef("git accepts no file with such a path: %s", safetext.Line(e.said))
	}
	return err
}

// differences lists the paths at which two trees of git's differ, with the modes
// that they have in the first.
func (b *branching) differences(ctx context.Context, from, to string) (map[string]string, error) {
	raw, err := b.git.run(ctx, nil, "diff-tree", "-r", "-z", "--raw", "--no-renames", from, to)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	fields := strings.Split(strings.TrimSuffix(raw, "\x00"), "\x00")
	for pair := range slices.Chunk(fields, 2) {
		if len(pair) == 2 && len(pair[0]) > len(":000000") {
			out[pair[1]] = pair[0][1:len(":000000")]
		}
	}
	return out, nil
}

// commit makes the commit, and then the branch. unnamed are those of author and
// committer that git knows no name of.
func (b *branching) commit(ctx context.Context, tree string) (commit string, unnamed []string, err error) {
	g := b.git
	for _, who := range []string{"AUTHOR", "COMMITTER"} {
		if _, err := g.run(ctx, nil, "var", "GIT_"+who+"_IDENT"); err != nil {
			unnamed = append(unnamed, strings.ToLower(who))
			g = g.with("GIT_"+who+"_NAME=Maestro", "GIT_"+who+"_EMAIL=maestro@localhost")
		}
	}
	if commit, err = commitTree(ctx, g, b.message(""), tree, b.parent); err != nil {
		return "", unnamed, err
	}
	// The branch must still be as it was looked at.
	if _, err := g.run(ctx, nil, "update-ref", "-m", "maestro apply "+b.work.Session, b.ref, commit, b.had); err != nil {
		return "", unnamed, fmt.Errorf("commit %s was created, but not the branch: %w", commit, err)
	}
	return commit, unnamed, nil
}

// commitTree makes a commit of a tree. Empty parents are none.
func commitTree(ctx context.Context, g git, message, tree string, parents ...string) (commit string, err error) {
	args := []string{"commit-tree", tree, "-F", "-"}
	for _, p := range parents {
		if p != "" {
			args = append(args, "-p", p)
		}
	}
	return g.run(ctx, strings.NewReader(message), args...)
}

// sessionTrailer names the session in a commit of its work.
const sessionTrailer = "Maestro-Session"

// message is the commit's: its title, by default what was asked for, and by which session it was done.
func (b *branching) message(title string) string {
	w := b.work
	subject := safetext.Clip(cmp.Or(title, textfmt.FirstLine(strings.TrimSpace(w.Requirement))), 72)
	return fmt.Sprintf("%s\n\nThe work of session %s of team %s, after phase %s.\n\n%s: %s\nMaestro-Checkpoint: %s\n",
		cmp.Or(subject, "The work of session "+w.Session), w.Session, safetext.Clip(w.Team.Name, 100),
		safetext.Clip(w.CurrentPhase, 100), sessionTrailer, w.Session,
		w.Name)
}

// Short is the beginning of a commit's name.
func Short(commit string) string { return commit[:min(len(commit), 10)] }
