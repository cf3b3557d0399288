package room

import (
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
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

// FindAccount resolves run_as; nil for none. euid is the worker's own.
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

// Adopt makes the account the owner of everything below a directory that belongs to another
// user. A nil account uses what anybody owns.
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

// Chown makes the account the owner of everything below the directories; links
// are not followed. A nil account owns what the worker owns.
func (a *Account) Chown(dirs ...string) error {
	if a == nil {
		return nil
	}
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || path == dir {
				return err
			}
			return os.Lchown(path, int(a.UID), int(a.GID)) //nolint:gosec // nothing of the agent runs yet; links are not followed
		})
		if err == nil { // last: the owner of a directory says whose all of it is
			err = os.Lchown(dir, int(a.UID), int(a.GID))
		}
		if err != nil {
			return fmt.Errorf("change the owner of %s to user %s: %w", dir, a.Name, err)
		}
	}
	return nil
}
