package room

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// enter creates the room, moves this process, the first one of its namespaces, into it, and listens on ports there.
// Afterwards the calling thread and its descendants have no capabilities.
//
// The sources are cloned first, as the worker's user, who may have access to directories that the
// room's user has no access to. Everything else is created as the room's user.
func (l *Layout) enter(ports []uint16) error {
	if err := l.mapOwnIDs(); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	sources, err := l.clones()
	if err != nil {
		return err
	}
	overlays := make([]*openOverlay, len(l.Overlays))
	for i, o := range l.Overlays {
		if overlays[i], err = o.open(); err != nil {
			return err
		}
	}
	if err := becomeAgent(); err != nil {
		return err
	}
	root, err := mountRoot()
	if err != nil {
		return err
	}
	defer unix.Close(int(root)) //nolint:errcheck // only a place
	for _, o := range overlays {
		if err := o.mount(root); err != nil {
			return err
		}
	}
	for _, s := range sources {
		if err := s.attach(root); err != nil {
			return err
		}
	}
	if err := errors.Join(mountDevices(root), mountProc(root), limitObjects(root)); err != nil {
		return err
	}
	if err := pivot(); err != nil {
		return err
	}
	_ = unix.Sethostname([]byte("maestro")) // a filter of system calls may forbid it
	if l.Network == NetworkNone {
		if err := upLoopback(); err != nil {
			return fmt.Errorf("start the loopback device: %w", err)
		}
	}
	refused := slices.Concat(keys, foreignLimits, firstProcess, detachedMounts)
	if l.Network == NetworkNone {
		refused = append(refused, hostSockets...)
	}
	if err := errors.Join(restrictScope(), refuse(refused)); err != nil {
		return err
	}
	if err := dropCapabilities(); err != nil {
		return err
	}
	return listen(ports)
}

// clone is a detached mount of a source, to be attached at the target.
type clone struct {
	fd     int
	target string
	dir    bool
}

// clones returns the detached mounts of the room: the system's directories, then the mounts.
func (l *Layout) clones() (out []clone, err error) {
	hidden := make([]string, len(l.Hidden))
	for i, path := range l.Hidden {
		hidden[i] = RealPath(path)
	}
	var mounts []Mount
	for _, dir := range system {
		switch info, err := os.Lstat(dir); {
		case err != nil: // most hosts do not have all of them
		case info.Mode()&fs.ModeSymlink != 0: // /bin is often usr/bin
			out = append(out, clone{fd: -1, target: dir})
		default:
			mounts = append(mounts, Mount{Source: dir, Target: dir})
		}
	}
	for _, m := range slices.Concat(mounts, resolver(), l.Mounts) {
		c, err := cloneOf(m)
		if m.Optional && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, c)
		covers, err := m.covers(hidden)
		if err != nil {
			return nil, err
		}
		out = append(out, covers...)
	}
	return out, nil
}

// covers are mounts over what is hidden at or below the source of a mount, by paths without links. If the mount is
// writable, the directories between are mounted, too: the kernel moves no directory that is, and with it what is hidden.
func (m Mount) covers(hidden []string) (out []clone, err error) {
	source := RealPath(m.Source)
	for _, path := range hidden {
		if _, err := os.Stat(path); err != nil || !within(path, source) {
			continue
		}
		below, target := strings.TrimPrefix(path, source), m.Target
		for i := 1; m.Writable && i < len(below); i++ {
			if below[i] != '/' {
				continue
			}
			c, err := cloneOf(Mount{Source: source + below[:i], Target: filepath.Join(target, below[:i]), Writable: true})
			if err != nil {
				return nil, err
			}
			out = append(out, c)
		}
		out = append(out, clone{fd: -1, target: filepath.Join(target, below), dir: true})
	}
	return out, nil
}

// resolver returns the mount of the target of the link /etc/resolv.conf, which is often outside
// of /etc.
func resolver() []Mount {
	target, err := filepath.EvalSymlinks("/etc/resolv.conf")
	if err != nil || Shows(target) {
		return nil
	}
	return []Mount{{Source: target, Target: target, Optional: true}}
}

// cloneOf makes a detached copy of the mounts at and below a path. Devices and setuid
// programs do not work there.
func cloneOf(m Mount) (clone, error) {
	info, err := os.Stat(m.Source)
	if err != nil {
		return clone{}, fmt.Errorf("show %s in the room: %w", m.Source, err)
	}
	fd, err := unix.OpenTree(unix.AT_FDCWD, m.Source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return clone{}, fmt.Errorf("show %s in the room: %w", m.Source, err)
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	if !m.Writable {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
		return clone{}, fmt.Errorf("restrict %s in the room: %w", m.Source, err)
	}
	return clone{fd: fd, target: m.Target, dir: info.IsDir()}, nil
}

// attach mounts a clone in the new root. A clone without a mount is a link in the host's root, or
// an empty directory that hides a path.
func (c clone) attach(root dir) error {
	name := strings.TrimPrefix(c.target, "/")
	switch {
	case c.fd < 0 && !c.dir:
		link, err := os.Readlink(c.target)
		if err == nil {
			err = unix.Symlinkat(link, int(root), name)
		}
		return err
	case c.fd < 0:
		return root.mount("tmpfs", name, unix.MS_NOSUID|unix.MS_NODEV|unix.MS_RDONLY, "mode=0755,size=4k")
	}
	defer unix.Close(c.fd) //nolint:errcheck // attached, or not needed
	at, err := root.at(name, c.dir)
	if err == nil {
		defer unix.Close(at) //nolint:errcheck // only a place
		err = unix.MoveMount(c.fd, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	}
	if err != nil {
		return fmt.Errorf("mount %s in the room: %w", c.target, err)
	}
	return nil
}

// becomeAgent changes the calling thread's user and group to those of the room. The runtime's
// other threads do nothing for the room. To change them, too, each would have to be woken up,
// which takes longer than all mounts of devices.
func becomeAgent() error {
	// Only root may give up groups; others keep their own.
	if err := unix.Setgroups(nil); err != nil && !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("give up groups: %w", err)
	}
	if _, _, errno := unix.Syscall(unix.SYS_SETRESGID, agentID, agentID, agentID); errno != 0 {
		return fmt.Errorf("change to the room's group: %w", errno)
	}
	if _, _, errno := unix.Syscall(unix.SYS_SETRESUID, agentID, agentID, agentID); errno != 0 {
		return fmt.Errorf("change to the room's user: %w", errno)
	}
	// Changing the user sets the dumpable flag to fs.suid_dumpable.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("stay undumpable: %w", err)
	}
	return nil
}

// rootAt is a directory that every host has. The room's root is mounted on it, after its content
// was cloned.
const rootAt = "/usr"

// mountRoot mounts and opens the room's root.
func mountRoot() (dir, error) {
	if err := unix.Mount("tmpfs", rootAt, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=16m,nr_inodes=16k"); err != nil {
		return -1, fmt.Errorf("mount the root: %w", err)
	}
	fd, err := unix.Open(rootAt, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open the root: %w", err)
	}
	for _, name := range []string{"home", "run", "var"} {
		if err := unix.Mkdirat(fd, name, 0o755); err != nil {
			return -1, fmt.Errorf("make /%s in the room: %w", name, err)
		}
	}
	return dir(fd), unix.Symlinkat("../tmp", fd, "var/tmp")
}

// openOverlay is an overlay with open directories.
type openOverlay struct {
	target      string
	lower       []int
	upper, work int
}

// open opens the overlay's directories.
func (o Overlay) open() (out *openOverlay, err error) {
	out = &openOverlay{target: strings.TrimPrefix(o.Target, "/")}
	layer := func(path string) int {
		fd, e := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if e != nil {
			err = errors.Join(err, fmt.Errorf("open the layer %s: %w", path, e))
		}
		return fd
	}
	for _, path := range o.Lower {
		out.lower = append(out.lower, layer(path))
	}
	out.upper, out.work = layer(o.Upper), layer(o.Work)
	return out, err
}

// mount mounts the overlay at its target. Its directories are named by their descriptors. So
// the options are short enough for any number of layers, and the room's user needs no access to
// the directories above them.
func (o *openOverlay) mount(root dir) error {
	lower := make([]string, len(o.lower))
	for i, fd := range o.lower {
		lower[i] = descriptorPath(fd)
	}
	options := "userxattr,lowerdir=" + strings.Join(lower, ":") + ",upperdir=" + descriptorPath(o.upper) + ",workdir=" +
		descriptorPath(o.work)
	err := root.mount("overlay", o.target, unix.MS_NOSUID|unix.MS_NODEV, options)
	for _, fd := range append(o.lower, o.upper, o.work) {
		_ = unix.Close(fd) // the mount holds it
	}
	return err
}

// pivot makes the new root the root and detaches the old one.
func pivot() error {
	if err := os.Chdir(rootAt); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("change the root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("detach the old root: %w", err)
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return fmt.Errorf("make the root read-only: %w", err)
	}
	return os.Chdir("/")
}
