package statedir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Default is the default directory of the state.
const Default = "/var/maestro/state"

// Env is the variable that names the state directory.
const Env = "MAESTRO_STATE_DIR"

// Find finds the state directory: the flag, else the environment's MAESTRO_STATE_DIR, else
// [Default] if it can be written, else $XDG_STATE_HOME/maestro (by default
// ~/.local/state/maestro) if that exists or create is set, which creates it. Otherwise it is
// Default, and the store creates it or reports an error. The note, if not empty, informs a
// person that the directory is not the default one. The directory is absolute.
func Find(flag string, env func(string) string, create bool) (dir, note string, err error) {
	return find(Default, flag, env, create)
}

func find(usual, flag string, env func(string) string, create bool) (dir, note string, err error) {
	for _, chosen := range []struct{ by, dir string }{{"--state-dir", flag}, {Env, env(Env)}} {
		if chosen.dir == "" {
			continue
		}
		dir, err := filepath.Abs(chosen.dir)
		if err != nil {
			return "", "", fmt.Errorf("%s %q cannot be made absolute: %w", chosen.by, chosen.dir, err)
		}
		return dir, "", nil
	}
	why := unusable(usual)
	if why == "" {
		return usual, "", nil
	}
	own := ownDir(env)
	if own == "" {
		if create {
			return "", "", fmt.Errorf("%s %s, and HOME is not set; name a state directory with --state-dir or %s", usual, why, Env)
		}
		return usual, "", nil
	}
	if info, err := os.Stat(own); err == nil && info.IsDir() {
		return own, fmt.Sprintf("the state is in %s, because %s %s", own, usual, why), nil
	}
	if !create {
		return usual, "", nil
	}
	if err := os.MkdirAll(own, 0o700); err != nil {
		return "", "", fmt.Errorf("%s %s, and %s cannot be created (%w); name a state directory with --state-dir or %s", usual, why,
			own, err, Env)
	}
	return own, fmt.Sprintf("created %s for the state, because %s %s", own, usual, why), nil
}

// ownDir is the user's own state directory; empty if the environment does not define it. By
// the XDG specification, a relative XDG_STATE_HOME is ignored.
func ownDir(env func(string) string) string {
	if home := env("XDG_STATE_HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, "maestro")
	}
	if home := env("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "state", "maestro")
	}
	return ""
}

// unusable is the reason why a directory cannot hold the state; empty: it can.
func unusable(dir string) string {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "does not exist"
	case err != nil:
		return "cannot be reached"
	case !info.IsDir():
		return "is not a directory"
	case unix.Access(dir, unix.R_OK|unix.W_OK|unix.X_OK) != nil:
		return "is not writable"
	}
	return ""
}
