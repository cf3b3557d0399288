package store

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// OwnerError says that root is not to write into a store of another user, who could not
// read what root makes there.
type OwnerError struct {
	// Dir is the store's directory, and UID who owns it.
	Dir string
	UID int
}

// Error names the owner, and how to run as that user.
func (e *OwnerError) Error() string {
	name, as := strconv.Itoa(e.UID), "'#"+strconv.Itoa(e.UID)+"'"
	if u, err := user.LookupId(name); err == nil {
		name, as = u.Username, u.Username
	}
	return fmt.Sprintf("the store in %s belongs to user %s, whose workers cannot read files of root; run this as that user: "+
		"sudo -u %s maestro ..., or without sudo: runuser -u %s -- maestro ...", e.Dir, name, as, name)
}

// checkOwner refuses root where the store belongs to somebody else.
func checkOwner(dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	for _, path := range []string{dir, filepath.Join(dir, identityFile)} {
		info, err := os.Stat(path)
		if err != nil {
			return fmt.Errorf("open the store: %w", err)
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid != 0 {
			return &OwnerError{Dir: dir, UID: int(st.Uid)}
		}
	}
	return nil
}
