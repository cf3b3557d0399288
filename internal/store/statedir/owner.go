package statedir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"
)

// OwnerError says that a state directory belongs to another user than this process's. Neither could
// use the files that the other one makes there.
type OwnerError struct {
	Dir string
	// UID is the owner.
	UID int
}

// Error names the owner, and says how to run as that user.
func (e *OwnerError) Error() string {
	return fmt.Sprintf("the state directory %s belongs to user %s, who cannot use files of other users; run this as that user: "+
		"%s maestro ..., or as root: runuser -u %s -- maestro ...", e.Dir, e.user().Username, e.Sudo(), e.user().Username)
}

// Sudo returns the beginning of a command line that runs as the owner.
func (e *OwnerError) Sudo() string {
	if name := e.user().Username; name != strconv.Itoa(e.UID) {
		return "sudo -u " + name
	}
	return fmt.Sprintf("sudo -u '#%d'", e.UID)
}

// user returns the owner. If this host does not know that user, the number is also the name and the group.
func (e *OwnerError) user() *user.User {
	id := strconv.Itoa(e.UID)
	if u, err := user.LookupId(id); err == nil {
		return u
	}
	return &user.User{Uid: id, Gid: id, Username: id, HomeDir: "/"}
}

// CheckOwner returns an [*OwnerError] if a state directory exists and belongs to another user than this process's.
func CheckOwner(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("look at the state directory: %w", err)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		return &OwnerError{Dir: dir, UID: int(st.Uid)}
	}
	return nil
}

// ForWorker is [Find] and [CheckOwner], for a process that runs agents. It does not become the owner, because
// agents of another user (run_as) need root.
func ForWorker(flag string, env func(string) string, create bool) (dir, note string, err error) {
	if dir, note, err = Find(flag, env, create); err == nil {
		err = CheckOwner(dir)
	}
	return dir, note, err
}

// BecomeOwner is [CheckOwner], but a process of root continues as the owner, for good. Then it returns the variables
// that differ for the owner. It is called before anything in the directory is opened: the owner can turn each path in it
// into a link, which is then followed with the owner's rights only.
func BecomeOwner(dir string) (environ []string, err error) {
	var owner *OwnerError
	if err := CheckOwner(dir); !errors.As(err, &owner) || os.Geteuid() != 0 {
		return nil, err
	}
	u := owner.user()
	if fault := owner.become(u); fault != nil {
		return nil, fmt.Errorf("%w (root cannot continue as that user: %w)", owner, fault)
	}
	environ = []string{"HOME=" + u.HomeDir, "USER=" + u.Username, "LOGNAME=" + u.Username, "XDG_CONFIG_HOME=", "XDG_STATE_HOME="}
	for _, variable := range environ { // which libraries read
		name, value, _ := strings.Cut(variable, "=")
		err = errors.Join(err, os.Setenv(name, value))
	}
	return environ, err
}

// become gives all threads of this process the owner's groups and user.
func (e *OwnerError) become(u *user.User) error {
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return fmt.Errorf("group %q: %w", u.Gid, err)
	}
	groups := []int{gid}
	names, _ := u.GroupIds() // without them the process may do less
	for _, name := range names {
		if id, err := strconv.Atoi(name); err == nil && id != gid {
			groups = append(groups, id)
		}
	}
	if err := syscall.Setgroups(groups); err != nil {
		return os.NewSyscallError("setgroups", err)
	}
	if err := syscall.Setgid(gid); err != nil {
		return os.NewSyscallError("setgid", err)
	}
	if err := syscall.Setuid(e.UID); err != nil {
		return os.NewSyscallError("setuid", err)
	}
	return nil
}
