package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/platform/diskspace"
	"github.com/maestro-hive/maestro/internal/sandbox/caches"
)

// view is a cache as one process sees it: a directory of its own, above layers that it cannot write; or a shared directory.
type view struct {
	name string
	// dir and work are directories on the host, for what it writes and for the kernel.
	dir, work string
	base      caches.Base
	// held are the layers; nil: it has none.
	held *caches.Held
}

// lower are the layers, the topmost first.
func (v view) lower() []string {
	if v.held == nil {
		return nil
	}
	return v.held.Layers
}

// views returns the views of a process, given its directories, on its team's bases. begin: it is to fill these. release
// ends the use of the layers.
func (s *Set) views(dirs session.WorkDir, team string, names []string, begin bool) (views []view, release func(), err error) {
	release = func() {
		for _, v := range views {
			if v.held != nil {
				v.held.Release()
			}
		}
	}
	for _, name := range names {
		v, err := s.view(dirs, team, name, begin)
		if err != nil {
			release()
			return nil, nil, fmt.Errorf("make the cache %s: %w", name, err)
		}
		views = append(views, v)
	}
	return views, release, nil
}

func (s *Set) view(dirs session.WorkDir, team, name string, begin bool) (v view, err error) {
	if s.config.Caches[name].Shared {
		v = view{name: name, dir: filepath.Join(s.o.CacheRoot, name)}
		if err := os.Mkdir(v.dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return v, err
		}
		return v, s.launcher.User.Adopt(v.dir) // also what was filled under another `isolation` or `run_as`
	}
	beside := filepath.Dir(dirs.Home)
	v = view{name: name, dir: filepath.Join(beside, session.CachesDir, name), work: filepath.Join(beside, session.CachesWorkDir,
		name)}
	if err := errors.Join(os.MkdirAll(v.dir, 0o711), os.MkdirAll(v.work, 0o711)); err != nil {
		return v, err
	}
	if err := errors.Join(s.launcher.User.Adopt(v.dir), s.launcher.User.Adopt(v.work)); err != nil {
		return v, err
	}
	if s.layers && team != "" {
		v.base = s.base(team, name)
		v.held, err = v.base.Hold(begin)
	}
	return v, err
}

// base returns a team's base for the processes' user: others could not read it.
func (s *Set) base(team, name string) caches.Base {
	if u := s.launcher.User; u != nil {
		team += "." + u.Name
	}
	l := s.config.Limits
	return caches.NewBase(s.o.CacheRoot, team, name, diskspace.Used{Bytes: int64(l.CacheBytes), Files: l.DiskFiles})
}

// FillsCaches reports whether a check should run on a team's input, which no agent has changed, to fill its caches.
func (s *Set) FillsCaches(check, team string, input spec.Digest) bool {
	for _, name := range s.ownCaches(check) {
		if s.base(team, name).IsDue(check, string(input), s.o.Now()) {
			return true
		}
	}
	return false
}

// ownCaches are the caches of a check that have bases.
func (s *Set) ownCaches(check string) (names []string) {
	for _, name := range s.config.Checks[check].Caches {
		if s.layers && !s.config.Caches[name].Shared {
			names = append(names, name)
		}
	}
	return names
}

// lockBases keeps other processes from filling the bases of a check; ok is false if one does.
func (s *Set) lockBases(job session.CheckJob) (unlock func(), ok bool) {
	var held []func()
	unlock = func() {
		for _, f := range held {
			f()
		}
	}
	for _, name := range s.ownCaches(job.Check) {
		f, ok := s.base(job.Team, name).Lock()
		if !ok {
			unlock()
			return nil, false
		}
		held = append(held, f)
	}
	return unlock, len(held) > 0
}

// keepCaches adds what a check has written on a team's input to the bases. What cannot be kept is written again.
func (s *Set) keepCaches(ctx context.Context, job session.CheckJob, views []view) {
	for _, v := range views {
		if v.held == nil {
			continue
		}
		if err := v.base.Add(ctx, v.held, v.dir, job.Check, string(job.Input), s.o.Now()); err != nil {
			s.o.Logger.Warn("a cache was not kept", "cache", v.name, "err", err)
		}
	}
}
