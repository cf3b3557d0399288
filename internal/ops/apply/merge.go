package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// merge merges a commit of others into one of the session's.
func (p *pushing) merge(ctx context.Context, ours, theirs string) (commit string, err error) {
	for _, pair := range [][2]string{{ours, theirs}, {theirs, ours}} {
		if has, err := p.contains(ctx, pair[0], pair[1]); err != nil || has {
			return pair[0], err
		}
	}
	tree, err := p.mergeTrees(ctx, ours, theirs, theirs)
	if err != nil {
		return "", err
	}
	title := fmt.Sprintf("Merge commit %s into %s", Short(theirs), p.target.Branch)
	if theirs == p.base {
		title = fmt.Sprintf("Merge branch '%s' into %s", p.target.Base, p.target.Branch)
	}
	return commitTree(ctx, p.git, p.message(title), tree, ours, theirs)
}

// mergeTrees returns the tree of a merge with a commit of others, which theirs stands for. Where both sides have changed the
// same lines, ours are taken if the session knows of that; otherwise it fails with a [*ConflictError].
func (p *pushing) mergeTrees(ctx context.Context, ours, theirs, others string) (tree string, err error) {
	said, err := p.git.run(ctx, nil, "merge-tree", "--write-tree", "-z", "--no-messages", "--allow-unrelated-histories",
		ours, theirs)
	tree, list, _ := strings.Cut(said, "\x00")
	switch exitCode(err) {
	case 0:
		return tree, err
	case 129: // its usage
		return "", errors.New("this worker's git is older than 2.38; install a newer one")
	case 1:
	default:
		return "", err
	}
	conflicts := map[string]stages{}
	for entry := range strings.SplitSeq(list, "\x00") { // MODE OBJECT STAGE, tab, path
		if about, path, ok := strings.Cut(entry, "\t"); ok {
			s, stage := conflicts[path], about[len(about)-1]
			s[stage&3] = about[:len(about)-2]
			conflicts[path] = s
		}
	}
	known := slices.Contains(p.target.Resolved, others)
	for path := range conflicts { // A file in place of a directory has a name that git has made.
		known = known && (!strings.Contains(path, "~") || p.git.says(ctx, "rev-parse", "--verify", "--quiet", ours+":"+path) != "")
	}
	if known {
		return p.settle(ctx, tree, conflicts)
	}
	return "", p.conflict(ctx, ours, theirs, others, conflicts)
}

// stages are mode and object of a path in conflict: in 1 as both sides had it, in 2 ours, in 3 theirs; empty: it is not there.
type stages [4]string

// settle replaces what is in conflict in a tree: in files by our lines, otherwise by what is ours.
func (p *pushing) settle(ctx context.Context, tree string, conflicts map[string]stages) (settled string, err error) {
	dir, err := os.MkdirTemp("", "maestro-apply-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	g := p.git.with("GIT_INDEX_FILE=" + filepath.Join(dir, "index"))
	g.dir = dir
	if _, err := g.run(ctx, nil, "read-tree", tree); err != nil {
		return "", err
	}
	var index strings.Builder
	for path, s := range conflicts {
		ours := cmp.Or(s[2], "0 "+strings.Repeat("0", len(tree)))
		if strings.HasPrefix(s[1], "100") && strings.HasPrefix(s[2], "100") && strings.HasPrefix(s[3], "100") {
			if ours, err = mergeFiles(ctx, g, s); err != nil {
				return "", err
			}
		}
		fmt.Fprintf(&index, "%s\t%s\x00", ours, path)
	}
	if _, err := g.run(ctx, strings.NewReader(index.String()), "update-index", "-z", "--index-info"); err != nil {
		return "", err
	}
	return g.run(ctx, nil, "write-tree", "--missing-ok")
}

// mergeFiles merges the contents of a file. Contents that are no text are ours.
func mergeFiles(ctx context.Context, g git, s stages) (merged string, err error) {
	args := []string{"merge-file", "--quiet", "--ours"}
	for _, n := range []int{2, 1, 3} {
		file, err := g.run(ctx, nil, "unpack-file", s[n][len("100644 "):])
		if err != nil {
			return "", err
		}
		args = append(args, file)
	}
	if _, err := g.run(ctx, nil, args...); err != nil && exitCode(err) != 255 { // 255: no text
		return "", err
	}
	object, err := g.run(ctx, nil, "hash-object", "-w", "--no-filters", "--", args[3])
	return s[2][:len("100644 ")] + object, err
}

// conflict describes a conflict.
func (p *pushing) conflict(ctx context.Context, ours, theirs, others string, conflicts map[string]stages) error {
	e := &ConflictError{Theirs: others, Paths: slices.Sorted(maps.Keys(conflicts))}
	if began := p.git.says(ctx, "merge-base", ours, theirs); began != "" {
		diff := []string{"diff", "--no-color", "--no-ext-diff", "--no-textconv", began, theirs, "--"}
		e.Diff = textfmt.Shorten(safetext.Block(p.git.says(ctx, append(diff, e.Paths[:min(len(e.Paths), 100)]...)...)), 16<<10)
	}
	return e
}

// exitCode is that of a command; 0 also for other errors.
func exitCode(err error) int {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	return 0
}
