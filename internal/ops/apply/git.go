package apply

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// gitVariables are those of git's that would have it work elsewhere than where it
// is told to.
var gitVariables = []string{
	"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR",
	"GIT_NAMESPACE",
}

// git runs git in a directory.
type git struct {
	dir string
	// env is the command's environment.
	env []string
	// options come before each command's name.
	options []string
}

// gitIn runs git in a directory, as the user's own environment sets it up.
func gitIn(dir string, environ []string) git {
	env := slices.DeleteFunc(slices.Clone(environ), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains(gitVariables, name)
	})
	return git{dir: dir, env: append(env, "LC_ALL=C")}
}

// Head is the commit that is checked out in a directory; empty where there is none.
func Head(ctx context.Context, dir string, environ []string) string {
	return gitIn(dir, environ).head(ctx)
}

// InRepository reports whether a directory is in the working tree of a git repository.
func InRepository(ctx context.Context, dir string, environ []string) bool {
	return gitIn(dir, environ).says(ctx, "rev-parse", "--is-inside-work-tree") == "true"
}

func (g git) head(ctx context.Context) string {
	return g.says(ctx, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
}

// with is the same git with more variables.
func (g git) with(env ...string) git {
	g.env = append(slices.Clip(g.env), env...)
	return g
}

// maxPrinted and maxSaid bound what is kept of what a command prints, and of what it says about it, in bytes.
const (
	maxPrinted = 64 << 20
	maxSaid    = 64 << 10
)

// leftOut is what git says about a path that it does not add to an index. It succeeds nevertheless.
const leftOut = "Ignoring path "

var errLeftOut = errors.New("a path was left out")

// limited keeps the beginning of what is written.
type limited struct {
	strings.Builder
	limit int
	over  bool
}

func (l *limited) Write(p []byte) (int, error) {
	keep := min(len(p), l.limit-l.Len())
	l.over = l.over || keep < len(p)
	_, _ = l.Builder.Write(p[:keep])
	return len(p), nil
}

// run runs a command and returns what it printed, also if it fails, without the newline at its end.
func (g git) run(ctx context.Context, stdin io.Reader, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append(slices.Clip(g.options), args...)...)
	cmd.Dir, cmd.Env, cmd.Stdin = g.dir, g.env, stdin
	cmd.WaitDelay = time.Second // a filter that git has started may outlive it, and hold on to what it prints
	stdout, stderr := limited{limit: maxPrinted}, limited{limit: maxSaid}
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if err == nil && args[0] == "update-index" && strings.Contains(stderr.String(), leftOut) {
		err = errLeftOut
	}
	printed := strings.TrimSuffix(stdout.String(), "\n")
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case errors.Is(err, exec.ErrNotFound):
		return "", errors.New("git is not installed")
	case err != nil:
		return printed, &gitError{args[0], strings.TrimSpace(stderr.String()), err}
	case stdout.over:
		return "", fmt.Errorf("git %s printed more than %s", args[0], textfmt.Size(maxPrinted))
	}
	return printed, nil
}

// says is what a command prints; empty where it fails.
func (g git) says(ctx context.Context, args ...string) string {
	out, err := g.run(ctx, nil, args...)
	if err != nil {
		return ""
	}
	return out
}

// gitError is a command of git's that has failed.
type gitError struct {
	command, said string
	err           error
}

func (e *gitError) Error() string {
	if e.said == "" {
		return fmt.Sprintf("git %s: %v", e.command, e.err)
	}
	return fmt.Sprintf("git %s: %s", e.command, e.said)
}

func (e *gitError) Unwrap() error { return e.err }
