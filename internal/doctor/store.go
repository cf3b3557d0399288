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

	"github.com/maestro-hive/maestro/internal/agent"
	"github.com/maestro-hive/maestro/internal/config"
	"github.com/maestro-hive/maestro/internal/diskspace"
	"github.com/maestro-hive/maestro/internal/layers"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/terminal"
	"github.com/maestro-hive/maestro/internal/textfmt"
	"github.com/maestro-hive/maestro/internal/workdir"
)

const (
	// lowSpace is the free space, in bytes, below which a warning is given.
	lowSpace = 1 << 30
	// lowFiles is the number of free files below which a warning is given.
	lowFiles = 50_000
)

// state checks the state directory.
func (d *examination) state(ctx context.Context) {
	dir, note, err := config.StateDir(d.options.StateDir, d.options.Getenv, false)
	if err != nil {
		what, remedy := remedyOf(err, "give a state directory with --state-dir or "+config.StateDirEnv)
		d.add("store", Bad, remedy, "%s", what)
		return
	}
	why := "the default"
	switch {
	case d.options.StateDir != "":
		why = "from --state-dir"
	case d.options.Getenv(config.StateDirEnv) != "":
		why = "by " + config.StateDirEnv + ""
	case note != "":
		_, why, _ = strings.Cut(note, ", ")
	}
	if d.store, err = d.open(dir); err != nil {
		d.unopened(dir, why, err)
		d.elsewhere(ctx, dir)
		return
	}
	d.opened(dir, why)
}

// open opens the store of this user in a directory.
func (d *examination) open(dir string) (*store.Store, error) {
	if err := config.CheckOwner(dir); err != nil {
		return nil, err
	}
	return store.Open(dir, store.Options{Clock: d.options.Now})
}

// opened checks the store that is open.
func (d *examination) opened(dir, why string) {
	d.add("store", OK, "", "%s in %s, %s", d.store.ID(), dir, why)
	d.writable(dir)
	d.layers(dir)
	d.permissions(dir)
	d.space(dir)
}

// layers adds a finding on the disk that the layers of trees take up: in the store or, with
// run_as, beside it.
func (d *examination) layers(dir string) {
	for _, root := range []string{filepath.Join(dir, "layers"), filepath.Join(workdir.Beside(dir), "layers")} {
		if _, err := os.Stat(root); err != nil {
			continue
		}
		u, err := layers.Measure(root)
		if err != nil {
			d.add("layers", Warning, "run this as the user of the worker", "%s cannot be measured: %v", root, err)
			continue
		}
		d.add("layers", OK, "", "%s, up to %s in %s; unused ones are removed above %s", textfmt.Count(u.Layers, "layer"),
			textfmt.Size(u.Bytes), root, textfmt.Size(layers.DefaultBytes))
	}
}

// unopened adds a finding on why there is no store in a directory.
func (d *examination) unopened(dir, why string, err error) {
	var owner *config.OwnerError
	switch {
	case errors.As(err, &owner):
		what, remedy, _ := strings.Cut(err.Error(), "; ")
		d.add("store owner", Bad, remedy, "%s", what).Command = owner.Sudo() + " maestro doctor --state-dir " + agent.ShellWord(dir)
	case errors.Is(err, session.ErrNotFound):
		remedy := "`maestro worker`, `maestro dev` and `maestro run` create one"
		parent := dir
		for { // the nearest directory that is there
			if _, err := os.Stat(parent); err == nil || parent == filepath.Dir(parent) {
				break
			}
			parent = filepath.Dir(parent)
		}
		command := ""
		if unix.Access(parent, unix.W_OK|unix.X_OK) != nil {
			remedy = "create the directory, owned by this user; or give another with --state-dir"
			command = fmt.Sprintf("sudo install -d -m 700 -o %s %s", userName(os.Geteuid()), agent.ShellWord(dir))
		}
		d.add("store", Warning, remedy, "there is no store in %s yet (%s)", dir, why).Command = command
	default:
		what, remedy := remedyOf(err, "check that the directory exists and is yours, or give another with --state-dir")
		d.add("store", Bad, remedy, "%s (%s)", what, why)
	}
}

// elsewhere looks for a store with live workers in the other default places, if none
// was found.
func (d *examination) elsewhere(ctx context.Context, dir string) {
	for _, other := range config.UsualStateDirs(d.options.Getenv) {
		if other == dir {
			continue
		}
		s, err := d.open(other)
		if err != nil {
			continue
		}
		offers, _ := s.State.Offers(ctx)
		for _, o := range offers {
			if o.Live(d.options.Now()) {
				d.add("another store", Warning, "use it, if this is the intended store", "worker %s serves the store in %s", o.Worker, other).
					Command = "maestro doctor --state-dir " + agent.ShellWord(other)
				return
			}
		}
	}
}

// userName is a user's name, or number where it has none.
func userName(uid int) string {
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return u.Username
	}
	return strconv.Itoa(uid)
}

// writable tests whether the store can be written.
func (d *examination) writable(dir string) {
	f, err := os.CreateTemp(dir, ".doctor-*")
	if err == nil {
		_, err = f.WriteString("\n")
		err = errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	if err != nil {
		d.unwritable(dir, fmt.Errorf("write into the store: %w", err))
		return
	}
	d.add("store writable", OK, "", "a test file was written and removed")
}

// unwritable adds a finding on a store that cannot be written, with a remedy.
func (d *examination) unwritable(dir string, err error) {
	remedy, command := "find out why this user cannot write there", ""
	switch {
	case errors.Is(err, unix.EROFS):
		remedy, command = "mount it writable", "sudo mount -o remount,rw "+agent.ShellWord(mountOf(dir))
	case diskspace.IsFull(err):
		remedy, command = "free space: remove old checkpoints and unused blobs", d.options.Again("checkpoints prune --dry-run")
	case errors.Is(err, fs.ErrPermission):
		remedy, command = "give its owner write permission", "chmod -R u+rwX "+agent.ShellWord(dir)
	}
	d.add("store writable", Bad, remedy, "%s", err).Command = command
}

// mountOf is the mount point that a directory is below.
func mountOf(dir string) string {
	device := func(path string) (uint64, bool) {
		var stat unix.Stat_t
		err := unix.Stat(path, &stat)
		return uint64(stat.Dev), err == nil //nolint:unconvert // its type differs by platform
	}
	own, ok := device(dir)
	for ok && dir != "/" {
		if above, known := device(filepath.Dir(dir)); !known || above != own {
			break
		}
		dir = filepath.Dir(dir)
	}
	return dir
}

// permissions checks whether other users can read the store.
func (d *examination) permissions(dir string) {
	info, err := os.Stat(dir)
	if err != nil {
		return // already reported: the store could not be opened
	}
	if open := info.Mode().Perm() & 0o077; open != 0 {
		d.add("store private", Warning, "restrict it to its owner", "other users can read %s (mode %04o), which holds all inputs and outputs of agents", dir, info.Mode().Perm()).
			Command = "chmod 700 " + agent.ShellWord(dir)
		return
	}
	d.add("store private", OK, "", "only its owner has access")
}

// space checks the free space, in bytes and in files.
func (d *examination) space(dir string) {
	left, err := diskspace.Of(dir)
	if err != nil {
		return
	}
	d.room(left.Bytes, left.Files, left.LowFiles > 0)
}

// room adds a finding on the free bytes and files; counted: the file
// system has a limit on files at all.
func (d *examination) room(bytes, files int64, counted bool) {
	command := d.options.Again("checkpoints prune --dry-run")
	text := textfmt.Size(bytes) + " free"
	if counted {
		text += ", and room for " + terminal.Number(files) + " files"
	}
	switch {
	case bytes < lowSpace:
		d.add("store space", Warning, "free space on its disk; remove old checkpoints and unused blobs", "only %s", text).Command = command
	case counted && files < lowFiles:
		d.add("store space", Warning, "free inodes on its disk; remove old checkpoints and unused blobs",
			"%s free, but room for only %s (inodes)", textfmt.Size(bytes), terminal.Number(files)+" files").Command = command
	default:
		d.add("store space", OK, "", "%s", text)
	}
}
