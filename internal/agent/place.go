package agent

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/procgroup"
	"github.com/maestro-hive/maestro/internal/room"
	"github.com/maestro-hive/maestro/internal/session"
)

// place is where a process works: directories on the host, and the paths by which the process
// knows them. They are the same without a room.
type place struct {
	host, inside session.WorkDir
	room         *room.Layout
	// services are servers of the worker in the room, and variables what they need in the
	// environment.
	services  []procgroup.Service
	variables map[string]string
	// bundle is the host's file of the authorities that the room trusts; empty: the system's.
	bundle string
}

// own gives the directories to the user that agents run as.
func (s *Set) own(dirs session.WorkDir) error {
	all := []string{dirs.Tree, dirs.Home, dirs.Tmp}
	if dirs.Layers != nil {
		all = append(all, dirs.Layers.Work)
	}
	return s.launcher.User.Chown(all...)
}

// needs is what a process needs of its room.
type needs struct {
	argv    []string
	caches  []string
	network Network
}

// place returns where a process works, in a room if the set uses rooms.
func (s *Set) place(dirs session.WorkDir, n needs) place {
	if !s.rooms {
		return place{host: dirs, inside: dirs}
	}
	inside := session.WorkDir{Tree: room.Workspace, Home: room.Home, Tmp: room.Tmp}
	l := room.NewLayout(s.launcher.User)
	l.Hidden, l.Network = s.hidden, n.network.word()
	own := func(source, target string) {
		l.Mounts = append(l.Mounts, room.Mount{Source: source, Target: target, Writable: true})
	}
	if layers := dirs.Layers; layers != nil {
		l.Overlay = &room.Overlay{Lower: layers.Dirs, Upper: dirs.Tree, Work: layers.Work}
	} else {
		own(dirs.Tree, inside.Tree)
	}
	own(dirs.Home, inside.Home)
	own(dirs.Tmp, inside.Tmp)
	l.Mounts = append(l.Mounts, room.Mount{Source: resultDir(dirs.Home), Target: room.Result, Writable: true, Optional: true})
	for _, name := range n.caches {
		own(filepath.Join(s.cacheRoot, name), filepath.Join(room.Caches, name))
	}
	for _, dir := range s.programDirs(n.argv) {
		l.Mounts = append(l.Mounts, room.Mount{Source: dir, Target: dir})
	}
	for _, m := range s.config.Mounts {
		l.Mounts = append(l.Mounts, room.Mount{Source: m.Path, Target: m.Path, Writable: m.Writable})
	}
	at := place{host: dirs, inside: inside, room: l}
	if hosts := n.network.hosts(); hosts != nil {
		at.allowOnly(hosts, s)
		at.trust(hosts, dirs, s)
	}
	return at
}

// programDirs lists the directories of an argv's program and of its interpreter's script that
// rooms do not show otherwise. A package of npm is shown with those that it depends on.
func (s *Set) programDirs(argv []string) (dirs []string) {
	for _, file := range []string{s.inPath(argv[0]), script(argv)} {
		if !filepath.IsAbs(file) {
			continue
		}
		for _, path := range []string{file, evalLinks(file)} {
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

// npmPackages is the end of the path of a directory with packages of npm.
const npmPackages = "/node_modules"

// inPath is where a program is found that is named without a directory; otherwise, or if it is
// not found, its name.
func (s *Set) inPath(program string) string {
	if strings.Contains(program, "/") {
		return program
	}
	if full, err := room.LookUp(program, "/", []string{"PATH=" + s.path()}); err == nil {
		return full
	}
	return program
}

// evalLinks is the path without links; the path itself if that is not known.
func evalLinks(path string) string {
	if full, err := filepath.EvalSymlinks(path); err == nil {
		return full
	}
	return path
}
