package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/models/agent"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/platform/diskspace"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/statedir"
)

const (
	// lowSpace is the free space, in bytes, below which a warning is given.
	lowSpace = 1 << 30
	// lowFiles is the number of free files below which a warning is given.
	lowFiles = 50_000
)

// stateDir finds the directory of the store, and whose it is.
func stateDir(_ context.Context, h *host) []control.Finding {
	dir, note, err := statedir.Find(h.StateDir, h.Getenv, false)
	if err != nil {
		return about("store", failed(Bad, err, "give a state directory with --state-dir or "+statedir.Env))
	}
	h.dir, h.why = dir, "the default"
	switch {
	case h.StateDir != "":
		h.why = "from --state-dir"
	case h.Getenv(statedir.Env) != "":
		h.why = "by " + statedir.Env
	case note != "":
		_, h.why, _ = strings.Cut(note, ", ")
	}
	var owner *statedir.OwnerError
	if errors.As(statedir.CheckOwner(dir), &owner) {
		h.dir = "" // it cannot be opened
		what, remedy, _ := strings.Cut(owner.Error(), "; ")
		return with(bad(remedy, "%s", what), owner.Sudo()+" maestro doctor --state-dir "+agent.ShellWord(dir))
	}
	return nil
}

// openStore opens the store, unless it is open.
func openStore(_ context.Context, h *host) []control.Finding {
	if h.dir == "" {
		return nil
	}
	var err error
	if h.store == nil {
		h.store, err = store.Open(h.dir, store.Options{Clock: h.Now, Location: h.Location})
	}
	switch {
	case errors.Is(err, session.ErrNotFound):
		return h.noStore()
	case err != nil:
		remedy, what := remedyOf(err, "check that the directory exists and is yours, or give another with --state-dir")
		return bad(remedy, "%s (%s)", what, h.why)
	case h.store.State.Shared():
		return ok("%s in a PostgreSQL database, this host's directory is %s, %s", h.store.ID(), h.dir, h.why)
	}
	return ok("%s in %s, %s", h.store.ID(), h.dir, h.why)
}

// commits checks whether the database keeps what it has committed.
func commits(ctx context.Context, h *host) []control.Finding {
	risks, err := h.store.State.Risks(ctx)
	switch {
	case err != nil:
		return bad("check that the database answers", "%s", err)
	case !h.store.State.Shared():
		return nil
	}
	var found []control.Finding
	for _, r := range risks {
		found = append(found, warn(r.Remedy, "%s", r.What)...)
	}
	if len(found) == 0 {
		return ok("a commit is on disk when it is confirmed")
	}
	return found
}

// noStore says how the store is created that there is not.
func (h *host) noStore() []control.Finding {
	const message = "there is no store in %s yet (%s)"
	parent := h.dir
	for { // the nearest directory that is there
		if _, err := os.Stat(parent); err == nil || parent == filepath.Dir(parent) {
			break
		}
		parent = filepath.Dir(parent)
	}
	if unix.Access(parent, unix.W_OK|unix.X_OK) == nil {
		return warn("`maestro worker`, `maestro dev` and `maestro run` create one", message, h.dir, h.why)
	}
	return with(warn("create the directory, owned by this user; or give another with --state-dir", message, h.dir, h.why),
		fmt.Sprintf("sudo install -d -m 700 -o %s %s", userName(os.Geteuid()), agent.ShellWord(h.dir)))
}

// userName is a user's name, or number where it has none.
func userName(uid int) string {
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return u.Username
	}
	return strconv.Itoa(uid)
}

// writable tests whether the store can be written.
func writable(_ context.Context, h *host) []control.Finding {
	f, err := os.CreateTemp(h.dir, ".doctor-*")
	if err == nil {
		_, err = f.WriteString("\n")
		err = errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	if err != nil {
		return h.unwritable(fmt.Errorf("write into the store: %w", err))
	}
	return ok("a test file was written and removed")
}

// unwritable is a finding on a store that cannot be written, with a remedy.
func (h *host) unwritable(err error) []control.Finding {
	switch {
	case errors.Is(err, unix.EROFS):
		return with(bad("mount it writable", "%s", err), "sudo mount -o remount,rw "+agent.ShellWord(mountOf(h.dir)))
	case diskspace.IsFull(err):
		return with(bad("free space: remove old checkpoints and unused blobs", "%s", err), h.Again("checkpoints prune --dry-run"))
	case errors.Is(err, fs.ErrPermission):
		return with(bad("give its owner write permission", "%s", err), "chmod -R u+rwX "+agent.ShellWord(h.dir))
	}
	return bad("find out why this user cannot write there", "%s", err)
}

// mountOf is the mount point that a directory is below.
func mountOf(dir string) string {
	for dir != "/" {
		var own, above unix.Stat_t
		if unix.Stat(dir, &own) != nil || unix.Stat(filepath.Dir(dir), &above) != nil || own.Dev != above.Dev {
			break
		}
		dir = filepath.Dir(dir)
	}
	return dir
}

// private checks whether other users can read the store.
func private(_ context.Context, h *host) []control.Finding {
	info, err := os.Stat(h.dir)
	if err != nil {
		return nil // already reported: the store could not be opened
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return with(warn("restrict it to its owner",
			"other users can read %s (mode %04o), which holds all inputs and outputs of agents", h.dir, mode),
			"chmod 700 "+agent.ShellWord(h.dir))
	}
	return ok("only its owner has access")
}

// space checks the free space, in bytes and in files.
func space(_ context.Context, h *host) []control.Finding {
	left, err := diskspace.Of(h.dir)
	if err != nil {
		return nil
	}
	return h.free(left)
}

// free is a finding on the free bytes and files. Some file systems do not count files.
func (h *host) free(left diskspace.Left) []control.Finding {
	counted := left.LowFiles > 0
	text := textfmt.Size(left.Bytes) + " free"
	prune := h.Again("checkpoints prune --dry-run")
	switch {
	case left.Bytes < lowSpace:
		return with(warn("free space on its disk; remove old checkpoints and unused blobs", "only %s", text), prune)
	case counted && left.Files < lowFiles:
		return with(warn("free inodes on its disk; remove old checkpoints and unused blobs",
			"%s, but room for only %s files (inodes)", text, terminal.Number(left.Files)), prune)
	case counted:
		return ok("%s, and room for %s files", text, terminal.Number(left.Files))
	}
	return ok("%s", text)
}
