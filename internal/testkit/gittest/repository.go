package gittest

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// DefaultBranch is the branch that [Server.Create] commits to.
const DefaultBranch = "main"

// Removed is the content of a file that a commit removes.
const Removed = "\x00removed"

// Marks before the content of what is no ordinary file.
const (
	link       = "\x00link "
	executable = "\x00executable "
	submodule  = "\x00submodule "
)

// Link is the content of a symbolic link.
func Link(target string) string { return link + target }

// Executable is the content of an executable file.
func Executable(content string) string { return executable + content }

// Submodule is the content of a submodule that is at a commit.
func Submodule(commit string) string { return submodule + commit }

// Create makes a repository like acme/shop with a first commit on its default branch, and returns that commit.
func (s *Server) Create(name string, files map[string]string) (commit string) {
	s.t.Helper()
	dir := s.dir(name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		s.t.Fatal(err)
	}
	s.Git(name, "init", "--quiet", "--bare", "--initial-branch="+DefaultBranch)
	for key, value := range map[string]string{
		"http.receivepack": "true", "uploadpack.allowFilter": "true", "uploadpack.allowReachableSHA1InWant": "true",
		"receive.autogc": "false", "gc.auto": "0", "receive.denyDeletes": "false",
	} {
		s.Git(name, "config", key, value)
	}
	return s.Commit(name, DefaultBranch, files, "First")
}

// Commit adds a commit to a branch, and returns it. A branch that does not exist begins at the default branch. A file with
// the content [Removed] is removed; the others are added or changed.
func (s *Server) Commit(name, branch string, files map[string]string, message string) (commit string) {
	s.t.Helper()
	s.mu.Lock()
	s.commits++
	at := 1_700_000_000 + 60*s.commits
	s.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "commit refs/heads/%s\ncommitter Somebody <somebody@example.org> %d +0000\n%s", branch, at, data(message))
	parent := s.Branch(name, branch)
	if parent == "" {
		parent = s.Branch(name, DefaultBranch)
	}
	if parent != "" {
		fmt.Fprintf(&b, "from %s\n", parent)
	}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		content := files[path]
		mode := "100644"
		if text, ok := strings.CutPrefix(content, link); ok {
			mode, content = "120000", text
		} else if text, ok := strings.CutPrefix(content, executable); ok {
			mode, content = "100755", text
		}
		sub, isSub := strings.CutPrefix(content, submodule)
		switch {
		case content == Removed:
			fmt.Fprintf(&b, "D %s\n", path)
		case isSub:
			fmt.Fprintf(&b, "M 160000 %s %s\n", sub, path)
		default:
			fmt.Fprintf(&b, "M %s inline %s\n%s", mode, path, data(content))
		}
	}
	s.git(name, b.String(), "fast-import", "--quiet", "--date-format=raw")
	return s.Branch(name, branch)
}

// data is a text as `git fast-import` reads it.
func data(text string) string { return fmt.Sprintf("data %d\n%s\n", len(text), text) }

// Branch is the commit of a branch; empty: there is no such branch.
func (s *Server) Branch(name, branch string) (commit string) {
	s.t.Helper()
	return s.Git(name, "for-each-ref", "--format=%(objectname)", "refs/heads/"+branch)
}

// SetBranch makes a branch point to a commit, whatever it was before.
func (s *Server) SetBranch(name, branch, commit string) {
	s.t.Helper()
	s.Git(name, "update-ref", "refs/heads/"+branch, commit)
}

// DeleteBranch deletes a branch.
func (s *Server) DeleteBranch(name, branch string) {
	s.t.Helper()
	s.Git(name, "update-ref", "-d", "refs/heads/"+branch)
}

// Files are the files of a commit or branch, with contents as [Server.Commit] takes them.
func (s *Server) Files(name, commit string) map[string]string {
	s.t.Helper()
	out := map[string]string{}
	for entry := range strings.SplitSeq(s.Git(name, "ls-tree", "-r", "-z", "--full-tree", commit), "\x00") {
		about, path, ok := strings.Cut(entry, "\t")
		if !ok {
			continue
		}
		fields := strings.Fields(about) // mode, type, object
		if fields[1] == "commit" {
			out[path] = Submodule(fields[2])
			continue
		}
		content := s.git(name, "", "cat-file", "blob", fields[2])
		out[path] = map[string]string{"120000": link, "100755": executable}[fields[0]] + content
	}
	return out
}

// Decline makes the repository refuse pushes to a branch with a message, as it does with a protected branch; an empty
// branch: all pushes, an empty message: none anymore.
func (s *Server) Decline(name, branch, message string) {
	s.t.Helper()
	hook := filepath.Join(s.dir(name), "hooks", "pre-receive")
	script := "#!/bin/sh\nwhile read -r old new ref; do case \"$ref\" in\nrefs/heads/" + branch + ") cat >&2 <<'END'\n" + message +
		"\nEND\nexit 1 ;;\nesac; done\n"
	if branch == "" {
		script = strings.Replace(script, "refs/heads/)", "*)", 1)
	}
	if message == "" {
		script = "#!/bin/sh\n"
	}
	if err := os.MkdirAll(filepath.Dir(hook), 0o700); err != nil {
		s.t.Fatal(err)
	}
	// A new file takes the place of the old one, which may be running.
	if err := os.WriteFile(hook+".new", []byte(script), 0o700); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(hook+".new", hook); err != nil {
		s.t.Fatal(err)
	}
}

// Git runs git in a repository, and returns what it prints, without white space around it.
func (s *Server) Git(name string, args ...string) string {
	s.t.Helper()
	return strings.TrimSpace(s.git(name, "", args...))
}

func (s *Server) git(name, stdin string, args ...string) string {
	s.t.Helper()
	cmd := exec.Command(s.program, args...)
	cmd.Dir, cmd.Env, cmd.Stdin = s.dir(name), s.environment(), strings.NewReader(stdin)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("git %s in %s: %v: %s", strings.Join(args, " "), name, err, stderr.String())
	}
	return string(out)
}

func (s *Server) dir(name string) string {
	return filepath.Join(s.root, filepath.FromSlash(name)+".git")
}

// environment keeps the settings of the machine and of its user out.
func (s *Server) environment() []string {
	return []string{"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "HOME=" + s.root, "LC_ALL=C"}
}

// Dir is the directory of a repository.
func (s *Server) Dir(name string) string { return s.dir(name) }
