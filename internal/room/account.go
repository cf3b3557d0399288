package room

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"strconv"

	"golang.org/x/sys/unix"
)

// Account is the user that agents and checks run as.
type Account struct {
	Name   string
	UID    uint32
	GID    uint32
	Groups []uint32
}

// FindAccount returns the account of run_as; nil if name is empty. euid is the worker's effective
// user id.
func FindAccount(name string, euid int) (*Account, error) {
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
	ids, err := parseIDs(append([]string{u.Uid, u.Gid}, groups...))
	if err != nil {
		return nil, fmt.Errorf("run_as: %w", err)
	}
	return &Account{Name: name, UID: ids[0], GID: ids[1], Groups: ids[2:]}, nil
}

func parseIDs(ids []string) ([]uint32, error) {
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

// Adopt changes the owner of everything below a directory to the account if the directory belongs
// to another user. A nil account does nothing.
func (a *Account) Adopt(dir string) error {
	if a == nil {
		return nil
	}
	var now unix.Stat_t
	if err := unix.Lstat(dir, &now); err != nil {
		return fmt.Errorf("find the owner of %s: %w", dir, err)
	}
	if now.Uid == a.UID {
		return nil
	}
	return a.Chown(dir)
}

// Chown makes the account the owner of everything below the directories. A nil account does
// nothing.
//
// It follows no links, also where an agent replaces a directory by a link meanwhile: the agent of another room can have
// the directory open from an earlier attempt. Directories more than [maxDepth] deep keep their owner.
func (a *Account) Chown(dirs ...string) error {
	if a == nil {
		return nil
	}
	for _, dir := range dirs {
		if err := a.chown(dir); err != nil {
			return fmt.Errorf("change the owner of %s to user %s: %w", dir, a.Name, err)
		}
	}
	return nil
}

// maxDepth is how deep in directories owners are changed. A tree's paths have 1,024 bytes.
const maxDepth = 512

func (a *Account) chown(dir string) error {
	top, err := openDirectory(unix.AT_FDCWD, dir)
	if isNoDirectory(err) {
		return os.Lchown(dir, int(a.UID), int(a.GID))
	}
	if err != nil {
		return err
	}
	defer top.Close() //nolint:errcheck // only read
	err = a.chownBelow(top, maxDepth)
	if err == nil { // last: the owner of a directory says whose all of it is
		err = top.Chown(int(a.UID), int(a.GID))
	}
	return err
}

// chownBelow changes the owners of all below an open directory.
func (a *Account) chownBelow(dir *os.File, depth int) error {
	for {
		entries, err := dir.ReadDir(chunk)
		for _, e := range entries {
			if err := a.chownEntry(dir, e, depth); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// chunk is how many entries of a directory are read at a time.
const chunk = 1000

func (a *Account) chownEntry(dir *os.File, e fs.DirEntry, depth int) error {
	if e.IsDir() && depth > 0 {
		switch sub, err := openDirectory(int(dir.Fd()), e.Name()); {
		case isNoDirectory(err): // any more
		case err != nil:
			return err
		default:
			err = a.chownBelow(sub, depth-1)
			if err = errors.Join(err, sub.Close()); err != nil {
				return err
			}
		}
	}
	var is unix.Stat_t
	err := unix.Fstatat(int(dir.Fd()), e.Name(), &is, unix.AT_SYMLINK_NOFOLLOW)
	if err != nil || is.Uid == a.UID && is.Gid == a.GID { // a change would make an old file look new
		return err
	}
	return unix.Fchownat(int(dir.Fd()), e.Name(), int(a.UID), int(a.GID), unix.AT_SYMLINK_NOFOLLOW)
}

// isNoDirectory reports whether a file or a link was there instead of a directory.
func isNoDirectory(err error) bool { return errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) }

// openDirectory opens a directory below another one, and nothing that a link in its place leads to.
func openDirectory(at int, name string) (*os.File, error) {
	fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}
