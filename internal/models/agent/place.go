package agent

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/sandbox/procgroup"
	"github.com/maestro-hive/maestro/internal/sandbox/room"
)

// place has the directories of a process on the host, and their paths in its room. Without a room
// both are the same.
type place struct {
	host, inside session.WorkDir
	room         *room.Layout
	// floor bounds a process without a room; nil in a room.
	floor *room.Floor
	// services are servers of the worker in the room, and variables the environment variables for
	// them.
	services  []procgroup.Service
	variables map[string]string
	// bundle is the host's file of the certificate authorities that the room trusts; empty: those
	// of the system.
	bundle string
}

// chown makes the user that agents run as the owner of the directories.
func (s *Set) chown(dirs session.WorkDir) error {
	all := []string{dirs.Tree, dirs.Home, dirs.Tmp}
	if dirs.Layers != nil {
		all = append(all, dirs.Layers.Work)
	}
	return s.launcher.User.Chown(all...)
}

// needs is what a process needs in its room.
type needs struct {
	argv    []string
	env     []string
	caches  []view
	network Network
	// mounts: its program creates a sandbox with mounts.
	mounts bool
}

// place returns the place of a process, in a room if the set uses rooms.
func (s *Set) place(dirs session.WorkDir, n needs) place {
	if !s.rooms {
		return place{host: dirs, inside: dirs, floor: s.floor(dirs, n)}
	}
	inside := session.WorkDir{Tree: room.Workspace, Home: room.Home, Tmp: room.Tmp}
	l := room.NewLayout(s.launcher.User)
	l.Hidden, l.Network = s.o.Hidden, n.network.word()
	own := func(source, target string) {
		l.Mounts = append(l.Mounts, room.Mount{Source: source, Target: target, Writable: true})
	}
	if layers := dirs.Layers; layers != nil {
		l.Overlays = append(l.Overlays, room.Overlay{Target: inside.Tree, Lower: layers.Dirs, Upper: dirs.Tree, Work: layers.Work})
	} else {
		own(dirs.Tree, inside.Tree)
	}
	own(dirs.Home, inside.Home)
	own(dirs.Tmp, inside.Tmp)
	l.Mounts = append(l.Mounts, room.Mount{Source: resultDir(dirs.Home), Target: room.Result, Writable: true, Optional: true})
	for _, c := range n.caches {
		if target := filepath.Join(room.Caches, c.name); len(c.lower()) > 0 {
			l.Overlays = append(l.Overlays, room.Overlay{Target: target, Lower: c.lower(), Upper: c.dir, Work: c.work})
		} else {
			own(c.dir, target)
		}
	}
	l.Mounts = append(l.Mounts, s.shown(n)...)
	at := place{host: dirs, inside: inside, room: l}
	if hosts := n.network.hosts(); hosts != nil {
		at.allowOnly(hosts, s)
		at.trust(hosts, dirs, s)
	}
	return at
}

// shown returns the paths of the host that a process sees in addition to the system's and its
// own.
func (s *Set) shown(n needs) (mounts []room.Mount) {
	for _, dir := range s.programDirs(n.argv) {
		mounts = append(mounts, room.Mount{Source: dir, Target: dir})
	}
	mounts = append(mounts, s.toolchainMounts(n.env)...)
	for _, m := range s.config.Mounts {
		mounts = append(mounts, room.Mount{Source: m.Path, Target: m.Path, Writable: m.Writable})
	}
	return mounts
}

// floor returns the Landlock rules of a process without a room. A toolchain in the worker's HOME
// needs more than the directory in PATH, so the whole top-level directory of HOME that contains
// it is shown.
func (s *Set) floor(dirs session.WorkDir, n needs) *room.Floor {
	f := &room.Floor{
		Own:   []string{dirs.Tree, dirs.Home, dirs.Tmp, resultDir(dirs.Home)},
		Shown: s.shown(n), Hidden: slices.Clone(s.o.Hidden), Home: s.o.Getenv("HOME"), Mounts: n.mounts,
	}
	for _, dir := range filepath.SplitList(s.path()) {
		if below, ok := strings.CutPrefix(dir, f.Home+"/"); ok && f.Home != "" {
			top, _, _ := strings.Cut(below, "/")
			f.Shown = append(f.Shown, room.Mount{Source: filepath.Join(f.Home, top)})
		}
	}
	for _, c := range n.caches {
		f.Own = append(f.Own, c.dir)
	}
	for _, p := range s.config.Providers {
		if p.KeyFile != "" {
			f.Hidden = append(f.Hidden, s.relative(p.KeyFile))
		}
	}
	return f
}

// floorLimits describes what Landlock restricts, in rooms and without.
func (s *Set) floorLimits() []spec.Limit {
	version, lacks := room.Landlock(), "the kernel has no"
	if version == 0 && room.Filtered() {
		lacks = "the kernel, or the filter of system calls, permits no"
	}
	limit := func(of, most, all string, needs int) spec.Limit {
		if version >= needs {
			return spec.Limit{Of: of, Most: most, By: fmt.Sprintf("Landlock %d", version)}
		}
		return spec.Limit{Of: of, Most: all, By: fmt.Sprintf("nothing, because %s Landlock %d", lacks, needs)}
	}
	if s.rooms {
		return []spec.Limit{limit("abstract sockets", "those of the room", "those of the host with `network: host`", room.ScopeVersion)}
	}
	return []spec.Limit{
		limit("files", "its own and what it is shown", "all of its user", room.FloorVersion),
		limit("signals", "its own processes", "all of its user", room.ScopeVersion),
	}
}

// programDirs lists the directories of an argv's program and of its interpreter's script that
// rooms do not show otherwise. An npm package is shown with the directory of its dependencies.
func (s *Set) programDirs(argv []string) (dirs []string) {
	for _, file := range []string{s.inPath(argv[0]), script(argv)} {
		if !filepath.IsAbs(file) {
			continue
		}
		for _, path := range []string{file, room.RealPath(file)} {
			dir := filepath.Dir(path)
			if before, _, ok := strings.Cut(path, npmPackages+"/"); ok {
				dir = before + npmPackages
			}
			if dir != "/" && !room.Shows(dir) && !room.Reserved(dir) && !slices.Contains(dirs, dir) {
				dirs = append(dirs, dir)
			}
		}
	}
	return dirs
}

// npmPackages is the end of the path of a directory of npm packages.
const npmPackages = "/node_modules"

// inPath returns the path of a program that is named without a directory. If it has a directory
// or is not found, the name is returned.
func (s *Set) inPath(program string) string {
	if strings.Contains(program, "/") {
		return program
	}
	if full, err := room.LookUp(program, "/", []string{"PATH=" + s.path()}); err == nil {
		return full
	}
	return program
}
