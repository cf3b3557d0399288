package apply

import (
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
	title, parents := fmt.Sprintf("Merge commit %s into %s", Short(theirs), p.target.Branch), []string{ours, theirs}
	if theirs == p.base {
		title = fmt.Sprintf("Merge branch '%s' into %s", p.target.Base, p.target.Branch)
	}
	if theirs == p.head {
		slices.Reverse(parents) // the first parent is what the branch was
	}
	return commitTree(ctx, p.git, p.message(title, ""), tree, parents...)
}

// mergeTrees returns the tree of a merge with a commit of others, which theirs stands for. Where both sides have changed the
// same lines, ours are taken if the session knows of that; otherwise it fails with a [*ConflictError].
func (p *pushing) mergeTrees(ctx context.Context, ours, theirs, others string) (tree string, err error) {
	said, err := p.git.run(ctx, nil, "merge-tree", "--write-tree", "-z", "--no-messages", "--allow-unrelated-histories", ours, theirs)
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
	for entry := range strings.SplitSeq(list, "\x00") {
		about, path, ok := strings.Cut(entry, "\t")
		if f := strings.Fields(about); ok && len(f) == 3 && len(f[2]) == 1 {
			s := conflicts[path]
			s[f[2][0]&3] = f[:2]
			conflicts[path] = s
		}
	}
	if slices.Contains(p.target.Resolved, others) {
		return p.settle(ctx, tree, conflicts)
	}
	return "", p.conflict(ctx, ours, theirs, others, conflicts)
}

// stages are mode and object of a path in conflict: in 1 as both sides had it, in 2 ours, in 3 theirs; nil: it is not there.
type stages [4][]string

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
		mode, object := "0", strings.Repeat("0", len(tree))
		if s[2] != nil {
			mode, object = s[2][0], s[2][1]
		}
		if isFile(s[1]) && isFile(s[2]) && isFile(s[3]) {
			if object, err = mergeFiles(ctx, g, s); err != nil {
				return "", err
			}
		}
		fmt.Fprintf(&index, "%s %s\t%s\x00", mode, object, path)
	}
	if _, err := g.run(ctx, strings.NewReader(index.String()), "update-index", "-z", "--index-info"); err != nil {
		return "", err
	}
	return g.run(ctx, nil, "write-tree", "--missing-ok")
}

func isFile(s []string) bool { return s != nil && strings.HasPrefix(s[0], "100") }

// mergeFiles merges the contents of a file, and returns the object. Contents that are no text are ours.
func mergeFiles(ctx context.Context, g git, s stages) (object string, err error) {
	args := []string{"merge-file", "--quiet", "--ours"}
	for _, n := range []int{2, 1, 3} {
		file, err := g.run(ctx, nil, "unpack-file", s[n][1])
		if err != nil {
			return "", err
		}
		args = append(args, file)
	}
	if _, err := g.run(ctx, nil, args...); err != nil && exitCode(err) != 255 { // 255: no text
		return "", err
	}
	return g.run(ctx, nil, "hash-object", "-w", "--no-filters", "--", args[3])
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

// exitCode is that of a command, and -1 if it has none.
func exitCode(err error) int {
	if err == nil {
		return 0
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	return -1
}
