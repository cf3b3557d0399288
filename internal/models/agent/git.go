package agent

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/sandbox/procgroup"
)

const (
	gitTimeout = 5 * time.Minute
	// gitScript makes the directory a repository and commits everything. It ignores git's
	// configuration in HOME, which an agent may have changed, and encodings that files do not have.
	// Files that git refuses, like a .gitmodules that is a link, are not committed.
	gitScript = `git init --quiet --initial-branch=main --template= &&
git config user.name Maestro &&
git config user.email maestro@localhost &&
mkdir -p .git/info && echo '* !working-tree-encoding' >.git/info/attributes &&
{ git add --all --force --ignore-errors || [ $? -eq 1 ]; } &&
git -c core.hooksPath=/dev/null -c commit.gpgSign=false commit --quiet --allow-empty --no-verify --message 'The input of this assignment'`
)

// commit makes the directory a repository with its input committed. If there is a repository
// already, the attempt continues from the files of the last one, and the repository is not
// changed. Like the agent, git runs below a shim.
func (s *Set) commit(ctx context.Context, at place, env []string, lock session.Lock) (session.Outcome, error) {
	_, err := os.Lstat(filepath.Join(at.host.Tree, ".git"))
	if err == nil {
		return session.Outcome{}, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return session.Outcome{}, hostFailure("prepare the repository", err)
	}
	date := strconv.FormatInt(s.o.Now().Unix(), 10) + " +0000"
	e := s.launcher.Run(ctx, procgroup.Process{
		Argv: []string{"sh", "-c", gitScript}, Dir: at.inside.Tree, Room: at.room, Floor: at.floor, Timeout: gitTimeout, Lock: lock,
		Env: append(env[:len(env):len(env)],
			"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
			"GIT_AUTHOR_DATE="+date, "GIT_COMMITTER_DATE="+date),
	})
	failure := s.failed("preparing the repository with git", e)
	if failure == nil {
		return session.Outcome{}, nil
	}
	failure.Category = failures.ResourceError
	var out session.Outcome
	err = complete(&out, e, failure)
	return out, err
}
