package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"syscall"
	"time"

	"github.com/maestro-hive/maestro/internal/team"
)

// play is the main function of a player: it plays the part that it reads in dir
// and leaves the result in the file resultPath. It returns the exit status.
func play(stdin io.Reader, stderr io.Writer, dir, resultPath string) int {
	if err := playPart(stdin, stderr, dir, resultPath); err != nil {
		fmt.Fprintln(stderr, "maestro: the player cannot", err)
		return 1
	}
	return 0
}

func playPart(stdin io.Reader, stderr io.Writer, dir, resultPath string) error {
	var p part
	if err := json.NewDecoder(stdin).Decode(&p); err != nil {
		return fmt.Errorf("read its play; workers start it, nobody else can: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("open the directory: %w", err)
	}
	defer root.Close() //nolint:errcheck // a directory
	var used team.Usage
	for _, t := range p.Turns {
		if t.Say != "" {
			fmt.Fprintln(stderr, t.Say)
		}
		time.Sleep(t.Delay) //nolint:forbidigo // the play's own time; a player that is stopped is killed
		used = used.Add(t.Usage)
		for _, name := range slices.Sorted(maps.Keys(t.Files)) {
			if err := t.Files[name].apply(root, name); err != nil {
				return leave(resultPath, result{Usage: used, Error: &resultError{Category: team.InvalidOutput, Message: err.Error()}})
			}
		}
		// Left after every turn, so that what was used is known even if the
		// player gets no further.
		if err := leave(resultPath, result{Usage: used}); err != nil {
			return err
		}
		if t.Crash {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		for t.Crash || t.Hang {
			time.Sleep(time.Hour) //nolint:forbidigo // until it is killed
		}
	}
	p.Result.Usage = p.Result.Usage.Add(used)
	return leave(resultPath, p.Result)
}

// leave replaces the result at one stroke.
func leave(resultPath string, r result) error {
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode the result: %w", err)
	}
	next := resultPath + ".next"
	if err := os.WriteFile(next, data, 0o600); err != nil { //nolint:gosec // the path that the worker chose for this attempt
		return fmt.Errorf("leave the result: %w", err)
	}
	if err := os.Rename(next, resultPath); err != nil { //nolint:gosec // as above
		return fmt.Errorf("leave the result: %w", err)
	}
	return nil
}

// apply does to one path what the play says. The root keeps it inside.
func (f scriptFile) apply(root *os.Root, name string) error {
	if err := checkPath(name); err != nil {
		return err
	}
	what, err := "delete", error(nil)
	switch {
	case f.Delete:
		err = root.RemoveAll(name)
	case f.Link != "":
		what, err = "link", f.link(root, name)
	default:
		what, err = "write", f.write(root, name)
	}
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		err = p.Err // the path is named here
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", what, name, err)
	}
	return nil
}

func (f scriptFile) link(root *os.Root, name string) error {
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	if err := root.RemoveAll(name); err != nil {
		return err
	}
	return root.Symlink(f.Link, name)
}

func (f scriptFile) write(root *os.Root, name string) error {
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	mode, flags := fs.FileMode(0o644), os.O_WRONLY|os.O_CREATE|os.O_TRUNC
	if f.Executable {
		mode = 0o755
	}
	if f.Append {
		flags = os.O_WRONLY | os.O_CREATE | os.O_APPEND
	}
	file, err := root.OpenFile(name, flags, mode)
	if err != nil {
		return err
	}
	_, err = file.WriteString(f.Content)
	if !f.Append || f.Executable {
		err = errors.Join(err, file.Chmod(mode)) // whatever it was before
	}
	return errors.Join(err, file.Close())
}
