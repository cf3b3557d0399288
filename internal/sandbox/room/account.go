package room

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/maestro-hive/maestro/internal/platform/bounded"
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

func (a *Account) chown(dir string) (err error) {
	above, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		return err
	}
	defer above.Close() //nolint:errcheck // only read
	own := func(at *os.Root, info fs.FileInfo) {
		is, _ := info.Sys().(*syscall.Stat_t)
		if is == nil || is.Uid == a.UID && is.Gid == a.GID { // a change would make an old file look new
			return
		}
		if e := at.Lchown(info.Name(), int(a.UID), int(a.GID)); !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	info, err := above.Lstat(filepath.Base(dir))
	if err != nil {
		return err
	}
	if info.IsDir() {
		top, e := above.OpenRoot(info.Name())
		if e != nil {
			return e
		}
		defer top.Close() //nolint:errcheck // only read
		_, e = bounded.Walk(context.Background(), top, maxDepth, func(e bounded.Entry) { own(e.Dir, e.Info) })
		err = errors.Join(err, e)
	}
	own(above, info) // last: the owner of a directory says whose all of it is
	return err
}
