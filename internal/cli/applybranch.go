package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/team"
	"github.com/maestro-hive/maestro/internal/terminal"
)

// plainIndex makes git take files as they are, whatever the repository is set to,
// and keeps hooks and watchers out of an index that is none of theirs.
var plainIndex = []string{
	"-c", "core.fileMode=true", "-c", "core.symlinks=true", "-c", "core.ignoreCase=false", "-c", "core.safecrlf=false",
	"-c", "core.sparseCheckout=false", "-c", "core.splitIndex=false", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null",
}

// gitLinkMode is the mode of a submodule in git's trees.
const gitLinkMode = "160000"

// branching makes a commit of a session's work without a working tree.
type branching struct {
	app *app
	k   kept
	git git
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

// applyBranch makes a commit on a branch of what a session has changed.
func (a *app) applyBranch(ctx context.Context, k kept, o applyOptions, source team.Source, doc applyDocument) (err error) {
	b := &branching{app: a, k: k, git: a.gitIn(doc.Dir)}
	if err := b.find(ctx, o, source); err != nil {
		return err
	}
	doc.Branch = &appliedBranch{Name: o.branch, Parent: b.parent}
	for d, err := range k.store.Patch(ctx, k.Workspace, k.Tree, store.PatchOptions{Paths: o.paths}) {
		if err != nil {
			return err
		}
		b.paths = append(b.paths, d.Path)
		doc.Files = append(doc.Files, appliedFile{Path: d.Path, Change: changeOf(d.Had, d.Has)})
	}
	if b.scratch, err = os.MkdirTemp("", "maestro-apply-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.scratch)) }()
	tree, changed, err := b.trees(ctx, &doc)
	if err != nil {
		return err
	}
	blocked := slices.ContainsFunc(doc.Conflicts, func(c applyConflict) bool { return c.Blocked })
	if len(doc.Conflicts) > 0 && (!o.force || blocked) {
		return a.refuseConflicts(doc, "no commit was made on "+cmp.Or(short(b.parent), "nothing"))
	}
	if changed && !o.dryRun {
		if doc.Branch.Commit, err = b.commit(ctx, tree); err != nil {
			return err
		}
	}
	if a.output == outputJSON {
		return a.printJSON(doc)
	}
	b.tell(ctx, doc, changed)
	return nil
}

// find looks at the repository and refuses what cannot be.
func (b *branching) find(ctx context.Context, o applyOptions, source team.Source) error {
	gitDir, err := b.git.run(ctx, nil, "rev-parse", "--absolute-git-dir")
	var refused *gitError
	if errors.As(err, &refused) {
		return usagef("--branch needs a git repository, and %s is in none that git can use (%s); name another --dir, or leave --branch out", b.git.dir, team.FirstLine(refused.said))
	}
	if err != nil {
		return err
	}
	if b.git.says(ctx, "rev-parse", "--is-inside-work-tree") != "true" {
		return usagef("%s is in no working tree of a git repository; name one with --dir", b.git.dir)
	}
	if b.prefix, err = b.git.run(ctx, nil, "rev-parse", "--show-prefix"); err != nil {
		return err
	}
	b.ref = "refs/heads/" + o.branch
	if _, err := b.git.run(ctx, nil, "check-ref-format", b.ref); err != nil || strings.HasPrefix(o.branch, "-") {
		return usagef("--branch %s is no name that git takes; choose another", o.branch)
	}
	b.had = b.git.says(ctx, "rev-parse", "--verify", "--quiet", b.ref)
	switch {
	case b.git.says(ctx, "symbolic-ref", "--quiet", "HEAD") == b.ref, b.git.says(ctx, "for-each-ref", "--format=%(worktreepath)", b.ref) != "":
		return usagef("branch %s is checked out, and a commit on it would leave its working tree behind; choose another", o.branch)
	case b.had != "" && !o.force:
		return usagef("branch %s exists already; choose another, or replace it with --force", o.branch)
	}
	b.parent = b.git.says(ctx, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
	if source.Commit != "" && b.git.says(ctx, "cat-file", "-t", source.Commit) == "commit" {
		b.parent = source.Commit
	}
	b.git = b.git.with("GIT_DIR=" + gitDir)
	return nil
}

// trees builds the parent's tree with the session's work, and notes what of the
// parent is not as the session began with it. changed is false where the tree is
// the parent's own.
func (b *branching) trees(ctx context.Context, doc *applyDocument) (tree string, changed bool, err error) {
	parent, err := b.tree(ctx, "", nil)
	if err != nil {
		return "", false, err
	}
	before, err := b.tree(ctx, "before", &b.k.Workspace)
	if err != nil {
		return "", false, err
	}
	if tree, err = b.tree(ctx, "after", &b.k.Tree); err != nil {
		return "", false, err
	}
	lost, err := b.differences(ctx, parent, before)
	if err != nil {
		return "", false, err
	}
	made, err := b.differences(ctx, parent, tree)
	if err != nil {
		return "", false, err
	}
	for path, mode := range made {
		if mode == gitLinkMode {
			doc.Conflicts = append(doc.Conflicts, applyConflict{b.within(path), "is a submodule, which has commits of its own; apply what is below it with --dir", true})
		} else if _, differs := lost[path]; differs {
			doc.Conflicts = append(doc.Conflicts, applyConflict{b.within(path), b.against(mode, doc, path), false})
		}
	}
	slices.SortFunc(doc.Conflicts, func(x, y applyConflict) int { return cmp.Compare(x.Path, y.Path) })
	for i, f := range doc.Files {
		_, differs := made[b.prefix+f.Path]
		doc.Files[i].Already = !differs
	}
	return tree, tree != parent, nil
}

// against says how the parent contradicts what the session began with.
func (b *branching) against(mode string, doc *applyDocument, path string) string {
	at := short(b.parent)
	had := slices.ContainsFunc(doc.Files, func(f appliedFile) bool { return b.prefix+f.Path == path && f.Change != "added" })
	switch {
	case mode == "000000":
		return "is not in " + at + ", and the session began with it"
	case !had:
		return "is in " + at + ", and the session began without it"
	}
	return "differs in " + at + " from what the session began with"
}

// within is a path of the repository as it is named in the session's tree.
func (b *branching) within(path string) string { return strings.TrimPrefix(path, b.prefix) }

// tree writes the parent's tree with the session's paths as they are in a manifest,
// filtered as git does when they are added, and returns its name. Without a
// manifest it is the parent's own.
func (b *branching) tree(ctx context.Context, name string, manifest *team.Digest) (string, error) {
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
	return g.run(ctx, nil, "write-tree")
}

// lay makes the index hold the session's paths as a manifest has them.
func (b *branching) lay(ctx context.Context, g git, manifest team.Digest) error {
	m, err := b.k.store.Manifest(ctx, manifest)
	if err != nil {
		return err
	}
	var set []string
	var there, gone strings.Builder
	for _, p := range b.paths {
		if _, ok := m[p]; ok {
			set = append(set, p)
			there.WriteString(b.prefix + p + "\x00")
		} else {
			gone.WriteString(b.prefix + p + "\x00")
		}
	}
	if _, err := g.run(ctx, strings.NewReader(gone.String()), "update-index", "--force-remove", "-z", "--stdin"); err != nil || len(set) == 0 {
		return err
	}
	if err := b.k.store.ExportPaths(ctx, m, set, filepath.Join(g.dir, filepath.FromSlash(b.prefix))); err != nil {
		return err
	}
	_, err = g.run(ctx, strings.NewReader(there.String()), "update-index", "--add", "--replace", "-z", "--stdin")
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

// commit makes the commit, and then the branch.
func (b *branching) commit(ctx context.Context, tree string) (string, error) {
	g := b.git
	for _, who := range []string{"AUTHOR", "COMMITTER"} {
		if _, err := g.run(ctx, nil, "var", "GIT_"+who+"_IDENT"); err != nil {
			b.app.say("git does not know who you are (user.name, user.email), so the commit's %s is Maestro", strings.ToLower(who))
			g = g.with("GIT_"+who+"_NAME=Maestro", "GIT_"+who+"_EMAIL=maestro@localhost")
		}
	}
	args := []string{"commit-tree", tree, "-F", "-"}
	if b.parent != "" {
		args = append(args, "-p", b.parent)
	}
	commit, err := g.run(ctx, strings.NewReader(b.message()), args...)
	if err != nil {
		return "", err
	}
	// The branch must still be as it was looked at.
	if _, err := g.run(ctx, nil, "update-ref", "-m", "maestro apply "+b.k.Session, b.ref, commit, b.had); err != nil {
		return "", fmt.Errorf("the commit %s was made, and the branch was not: %w", commit, err)
	}
	return commit, nil
}

// message is the commit's: what was asked for, and by which session it was done.
func (b *branching) message() string {
	subject := terminal.Clip(team.FirstLine(strings.TrimSpace(b.k.Requirement)), 72)
	return fmt.Sprintf("%s\n\nThe work of session %s of team %s, after phase %s.\n\nMaestro-Session: %s\nMaestro-Checkpoint: %s\n",
		cmp.Or(subject, "The work of session "+b.k.Session), b.k.Session, b.k.Team.Name, b.k.CurrentPhase, b.k.Session, b.k.Name)
}

// tell says which commit was made, and what it holds.
func (b *branching) tell(ctx context.Context, doc applyDocument, changed bool) {
	name := doc.Branch.Name
	if !changed {
		b.app.say("nothing differs from %s, so no branch was made", cmp.Or(short(b.parent), "an empty tree"))
		return
	}
	written := 0
	for _, f := range doc.Files {
		if !f.Already {
			written++
			b.app.print("%-8s %s", f.Change, team.Printable(b.prefix+f.Path))
		}
	}
	on := "without a parent"
	if b.parent != "" {
		on = "on " + short(b.parent)
	}
	if doc.DryRun {
		b.app.say("would commit %s %s, as branch %s", team.Count(written, "file"), on, name)
		return
	}
	b.app.say("branch %s: commit %s with %s, %s; take it over with `git merge %s`", name, short(doc.Branch.Commit), team.Count(written, "file"), on, name)
	if head := b.git.says(ctx, "rev-parse", "--verify", "--quiet", "HEAD^{commit}"); head != b.parent && b.parent != "" {
		b.app.say("what is checked out has moved on since the session was started, from %s to %s", short(b.parent), short(head))
	}
}

// short is the beginning of a commit's name.
func short(commit string) string { return commit[:min(len(commit), 10)] }
