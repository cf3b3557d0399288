package agent

import (
	"cmp"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/sandbox/room"
)

// defaultPath is the PATH of processes if the worker has no PATH.
const defaultPath = "/usr/local/bin:/usr/bin:/bin"

// path is the PATH of agents and checks.
func (s *Set) path() string { return cmp.Or(s.o.Getenv("PATH"), defaultPath) }

// environment returns the environment of a process: the variables that every process gets, the
// named variables of the worker's environment, and those of the caches.
func (s *Set) environment(at place, names []string, caches []view) ([]string, error) {
	values := map[string]string{
		"PATH":                    s.path(),
		"LANG":                    cmp.Or(s.o.Getenv("LANG"), "C.UTF-8"),
		"GOFLAGS":                 "-buildvcs=false",
		"HOME":                    at.inside.Home,
		"TMPDIR":                  at.inside.Tmp,
		"GIT_CEILING_DIRECTORIES": filepath.Dir(at.inside.Tree),
	}
	for _, name := range names {
		if v := s.variable(name); v != "" {
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

// isSecretName reports whether a variable's name suggests that it contains a secret.
func isSecretName(name string) bool {
	for _, suffix := range []string{"KEY", "TOKEN", "SECRET", "PASSWORD"} {
		if strings.HasSuffix(strings.ToUpper(name), suffix) {
			return true
		}
	}
	return false
}

// secretNames lists the variables of the worker's environment that contain secrets.
func (c Config) secretNames() []string {
	names := append(slices.Clone(c.Secrets), c.notifySecrets()...)
	add := func(env []string) {
		for _, name := range env {
			if isSecretName(name) {
				names = append(names, name)
			}
		}
	}
	for _, d := range c.Agents {
		add(d.Env)
	}
	for _, p := range c.Providers {
		if p.KeyEnv != "" {
			names = append(names, p.KeyEnv)
		}
	}
	for _, d := range c.Checks {
		add(d.Env)
	}
	for _, d := range c.Credentials {
		names = append(names, d.SecretEnv)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
