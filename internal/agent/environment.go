package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// defaultPath is where programs are looked for when the worker has no PATH.
const defaultPath = "/usr/local/bin:/usr/bin:/bin"

// account is the user that agents and checks run as.
type account struct {
	Name   string   `json:"name"`
	UID    uint32   `json:"uid"`
	GID    uint32   `json:"gid"`
	Groups []uint32 `json:"groups"`
}

// findAccount resolves run_as; nil for none. euid is the worker's own.
func findAccount(name string, euid int) (*account, error) {
	if name == "" {
		return nil, nil //nolint:nilnil // no account is a valid answer
	}
	if euid != 0 {
		return nil, fmt.Errorf("run_as: only a worker that runs as root can run agents as %q; start it as root, or remove run_as", name)
	}
	u, err := user.Lookup(name)
	if err != nil {
		return nil, fmt.Errorf("run_as: %w; use a user of this host, or remove run_as", err)
	}
	groups, err := u.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("run_as: read the groups of %q: %w", name, err)
	}
	ids, err := numbers(append([]string{u.Uid, u.Gid}, groups...))
	if err != nil {
		return nil, fmt.Errorf("run_as: %w", err)
	}
	return &account{Name: name, UID: ids[0], GID: ids[1], Groups: ids[2:]}, nil
}

func numbers(ids []string) ([]uint32, error) {
	out := make([]uint32, len(ids))
	for i, id := range ids {
		n, err := strconv.ParseUint(id, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("%q is not a user or group id", id)
		}
		out[i] = uint32(n)
	}
	return out, nil
}

// give makes the account the owner of everything below the directories; links
// are not followed. A nil account owns what the worker owns.
func (a *account) give(dirs ...string) error {
	if a == nil {
		return nil
	}
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return os.Lchown(path, int(a.UID), int(a.GID)) //nolint:gosec // nothing of the agent runs yet; links are not followed
		})
		if err != nil {
			return fmt.Errorf("change the owner of %s to user %s: %w", dir, a.Name, err)
		}
	}
	return nil
}

// place is where a process works: its directories, beside one another.
type place struct{ dir, home, tmp string }

// check refuses a place that the caller has not prepared.
func (p place) check() error {
	for _, d := range []struct{ what, path string }{{"Dir", p.dir}, {"Home", p.home}, {"Tmp", p.tmp}} {
		if !filepath.IsAbs(d.path) {
			return fmt.Errorf("%s is %q, which is not an absolute path", d.what, d.path)
		}
		if info, err := os.Stat(d.path); err != nil {
			return fmt.Errorf("%s: %w", d.what, err)
		} else if !info.IsDir() {
			return fmt.Errorf("%s is %s, which is not a directory", d.what, d.path)
		}
	}
	return nil
}

// environment returns all that a process sees: what every one gets, the named
// variables of the worker's environment, and the caches.
func (s *Set) environment(p place, names, caches []string) ([]string, error) {
	values := map[string]string{
		"PATH":                    or(s.getenv("PATH"), defaultPath),
		"LANG":                    or(s.getenv("LANG"), "C.UTF-8"),
		"GOFLAGS":                 "-buildvcs=false",
		"HOME":                    p.home,
		"TMPDIR":                  p.tmp,
		"GIT_CEILING_DIRECTORIES": filepath.Dir(p.dir),
	}
	for _, name := range names {
		if v := s.getenv(name); v != "" {
			values[name] = v
		}
	}
	for _, name := range caches {
		dir, err := s.cache(name)
		if err != nil {
			return nil, err
		}
		values[s.config.Caches[name].Env] = dir
	}
	env := make([]string, 0, len(values)+1)
	for name, value := range values {
		env = append(env, name+"="+value)
	}
	slices.Sort(env)
	return env, nil
}

func or(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}

// cache makes the shared directory of that name.
func (s *Set) cache(name string) (string, error) {
	dir := filepath.Join(s.cacheRoot, name)
	err := os.Mkdir(dir, 0o700)
	switch {
	case err == nil:
		err = s.launcher.user.give(dir)
	case errors.Is(err, fs.ErrExist):
		err = nil
	}
	if err != nil {
		return "", fmt.Errorf("make the cache %s: %w", name, err)
	}
	return dir, nil
}

// broken turns an error of the worker's own machine into a failure.
func broken(what string, err error) *failures.Failure {
	return &failures.Failure{
		Category: failures.ResourceError,
		Message:  textfmt.Shorten(what+": "+err.Error(), session.MaxMessage),
	}
}
