package agent

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/sandbox/room"
)

// defaultPath is the PATH of processes if the worker has no PATH.
const defaultPath = "/usr/local/bin:/usr/bin:/bin"

// checkDirs returns an error for directories that the caller has not prepared.
func checkDirs(p session.WorkDir) error {
	for _, d := range []struct{ what, path string }{{"Dir", p.Tree}, {"Home", p.Home}, {"Tmp", p.Tmp}} {
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

// path is the PATH of agents and checks.
func (s *Set) path() string { return cmp.Or(s.getenv("PATH"), defaultPath) }

// environment returns the environment of a process: the variables that every process gets, the
// named variables of the worker's environment, and those of the caches.
func (s *Set) environment(at place, names []string, caches []view) ([]string, error) {
	values := map[string]string{
		"PATH":                    s.path(),
		"LANG":                    cmp.Or(s.getenv("LANG"), "C.UTF-8"),
		"GOFLAGS":                 "-buildvcs=false",
		"HOME":                    at.inside.Home,
		"TMPDIR":                  at.inside.Tmp,
		"GIT_CEILING_DIRECTORIES": filepath.Dir(at.inside.Tree),
	}
	for _, name := range names {
		if v := s.getenv(name); v != "" {
			values[name] = v
		}
	}
	for _, c := range caches {
		dir := c.dir
		if at.room != nil {
			dir = filepath.Join(room.Caches, c.name)
		}
		values[s.config.Caches[c.name].Env] = dir
	}
	if err := s.writeBundle(at); err != nil {
		return nil, err
	}
	maps.Copy(values, at.variables)
	env := make([]string, 0, len(values)+1)
	for name, value := range values {
		env = append(env, name+"="+value)
	}
	slices.Sort(env)
	return env, nil
}

// hostFailure converts an error of the worker's host into a failure.
func hostFailure(what string, err error) *failures.Failure {
	return &failures.Failure{
		Category: failures.ResourceError,
		Message:  textfmt.Shorten(what+": "+err.Error(), session.MaxMessage),
	}
}
