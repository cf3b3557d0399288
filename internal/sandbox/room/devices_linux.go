package room

import (
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// devices are the host's devices that a room has.
var devices = []string{"null", "zero", "full", "random", "urandom", "tty"}

// mountDevices creates /dev: the harmless devices, and the room's own terminals and shared
// memory. It also sets up the names of the room's user and group.
func mountDevices(root dir) error {
	fd, err := root.at("dev", true)
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // only a place
	dev := dir(fd)
	for _, name := range devices {
		at, err := dev.at(name, false)
		if err == nil {
			err = errors.Join(unix.Mount("/dev/"+name, descriptorPath(at), "", unix.MS_BIND, ""), unix.Close(at))
		}
		if err != nil {
			return fmt.Errorf("show the device %s in the room: %w", name, err)
		}
	}
	for name, target := range map[string]string{
		"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx",
	} {
		if err := unix.Symlinkat(target, fd, name); err != nil {
			return fmt.Errorf("make /dev/%s in the room: %w", name, err)
		}
	}
	for _, m := range []struct{ kind, name, options string }{
		{"devpts", "pts", "newinstance,ptmxmode=0666,mode=0620"},
		{"tmpfs", "shm", "mode=1777,size=1g,nr_inodes=64k"},
		{"mqueue", "mqueue", ""},
	} {
		if err := dev.mount(m.kind, m.name, unix.MS_NOSUID|unix.MS_NOEXEC, m.options); err != nil {
			return err
		}
	}
	return mountNames(root)
}

// mountNames sets up names of the room's user and group, because programs look them up.
func mountNames(root dir) error {
	for name, text := range map[string]string{
		"passwd": fmt.Sprintf("root:x:0:0::/:/usr/sbin/nologin\nagent:x:%d:%d::%s:/bin/sh\nnobody:x:65534:65534::/:/usr/sbin/nologin\n",
			agentID, agentID, Home),
		"group": fmt.Sprintf("root:x:0:\nagent:x:%d:\nnogroup:x:65534:\n", agentID),
	} {
		var there unix.Stat_t
		if unix.Fstatat(int(root), "etc/"+name, &there, unix.AT_SYMLINK_NOFOLLOW) != nil {
			continue // a host without names
		}
		if err := root.write("run/"+name, text, unix.O_CREAT|unix.O_EXCL); err != nil {
			return err
		}
		c, err := cloneOf(Mount{Source: filepath.Join(rootAt, "run", name), Target: filepath.Join("/etc", name)})
		if err == nil {
			err = c.attach(root)
		}
		if err != nil {
			return fmt.Errorf("name the room's user: %w", err)
		}
	}
	return nil
}

// mountProc mounts a /proc that shows only the room's processes.
func mountProc(root dir) error {
	return root.mount("proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
}

// upLoopback starts the loopback device of a network namespace.
func upLoopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // only used for one call
	device, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	device.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, device)
}
