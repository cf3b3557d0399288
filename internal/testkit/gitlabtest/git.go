package gitlabtest

import (
	"bytes"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
)

// git runs a command in a bare repository. ok: it succeeded.
func git(dir, input string, args ...string) (out string, ok bool) {
	as := []string{"-C", dir, "-c", "user.name=GitLab", "-c", "user.email=gitlab@example.com"}
	cmd := exec.Command("git", append(as, args...)...)
	cmd.Stdin = strings.NewReader(input)
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	err := cmd.Run()
	return strings.TrimRight(stdout.String(), "\n"), err == nil
}

func mustGit(dir, input string, args ...string) string {
	out, ok := git(dir, input, args...)
	if !ok {
		panic(fmt.Sprintf("gitlabtest: git %v failed", args))
	}
	return out
}

// headOf is the newest commit of a branch; empty: there is no such branch.
func headOf(dir, branch string) string {
	out, _ := git(dir, "", "rev-parse", "--verify", "--quiet", "refs/heads/"+branch+"^{commit}")
	return out
}

// commit adds a commit with files to a branch, which begins at from if there is none.
func commit(dir, branch, from string, files map[string]string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "commit refs/heads/%s\ncommitter A <a@example.com> 1767600000 +0000\ndata 6\nchange\n", branch)
	if parent := headOf(dir, branch); parent != "" {
		from = parent
	}
	if from != "" {
		fmt.Fprintf(&b, "from %s\n", from)
	}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(&b, "M 100644 inline %s\ndata %d\n%s\n", path, len(files[path]), files[path])
	}
	mustGit(dir, b.String(), "fast-import", "--quiet", "--force")
	return headOf(dir, branch)
}

// mergedTree is the tree of the merge of two commits; empty: they conflict.
func mergedTree(dir, base, head string) string {
	out, ok := git(dir, "", "merge-tree", "--write-tree", "--allow-unrelated-histories", base, head)
	if !ok {
		return ""
	}
	return out
}

func isAncestor(dir, old, young string) bool {
	_, ok := git(dir, "", "merge-base", "--is-ancestor", old, young)
	return ok
}

// merge merges a commit into a branch, and returns the new commit.
func merge(dir, branch, head string, squash, fastForward bool) string {
	base := headOf(dir, branch)
	made := head
	if squash || !fastForward {
		args := []string{"commit-tree", mergedTree(dir, base, head), "-m", "Merge", "-p", base}
		if !squash {
			args = append(args, "-p", head)
		}
		made = mustGit(dir, "", args...)
	}
	mustGit(dir, "", "update-ref", "refs/heads/"+branch, made, base)
	return made
}

// diffs lists the changed files with their differences as GitLab shows them: without the head.
func diffs(dir, base, head string) (all []map[string]any) {
	names := mustGit(dir, "", "diff", "--name-only", "-z", "--no-renames", base, head)
	for name := range strings.SplitSeq(strings.TrimRight(names, "\x00"), "\x00") {
		if name == "" {
			continue
		}
		text := mustGit(dir, "", "diff", "--no-renames", base, head, "--", name)
		if at := strings.Index(text, "\n@@ "); at >= 0 {
			text = text[at+1:] + "\n"
		}
		all = append(all, map[string]any{"old_path": name, "new_path": name, "diff": text})
	}
	return all
}
