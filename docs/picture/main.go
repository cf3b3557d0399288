// Command picture records `maestro demo` in a pseudo-terminal, and writes what the
// terminal showed as an animated SVG. `make build` has to have built bin/ before.
//
//	go run ./docs/picture > docs/picture/demo.svg
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"
)

const (
	columns, rows = 100, 30
	// step is the shortest time between two frames, longest the longest that one is
	// shown, and hold the time of the last one.
	step, longest, hold = 400 * time.Millisecond, 1500 * time.Millisecond, 8 * time.Second
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "picture:", err)
		os.Exit(1)
	}
}

func run() error {
	program, err := filepath.Abs("bin/maestro")
	if err != nil {
		return err
	}
	home, err := os.MkdirTemp("", "demo-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(home) }()
	cmd := exec.Command(program, "demo")
	cmd.Env = append(os.Environ(), "TERM=xterm-256color", "COLORTERM=", "MAESTRO_STATE_DIR="+home)
	frames, err := record(cmd)
	if err != nil {
		return fmt.Errorf("record %s: %w", cmd, err)
	}
	return draw(os.Stdout, frames)
}

// frame is what the terminal showed, and for how long.
type frame struct {
	cells [rows][columns]vt10x.Glyph
	shown time.Duration
}

// keyboardProtocol are requests about the keyboard that the emulation would take for
// movements of the cursor.
var keyboardProtocol = regexp.MustCompile(`\x1b\[[<>=?][0-9;]*u`)

// record runs a command on a terminal, and returns a frame for each change of the
// screen, at most one in each step.
func record(cmd *exec.Cmd) ([]frame, error) {
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Cols: columns, Rows: rows})
	if err != nil {
		return nil, err
	}
	defer func() { _ = terminal.Close() }()
	output := make(chan []byte)
	go func() {
		defer close(output)
		for {
			buf := make([]byte, 64*1024)
			n, err := terminal.Read(buf)
			if err != nil { // the command has ended
				return
			}
			output <- buf[:n]
		}
	}()
	screen := vt10x.New(vt10x.WithSize(columns, rows))
	var frames []frame
	tick := time.NewTicker(step)
	defer tick.Stop()
	last := time.Now()
	for open := true; open; {
		var text []byte
		select {
		case text, open = <-output:
			_, _ = screen.Write(keyboardProtocol.ReplaceAll(text, nil))
		case <-tick.C:
			frames, last = keep(frames, screen, last)
		}
	}
	frames, _ = keep(frames, screen, last)
	if err := cmd.Wait(); err != nil {
		return nil, err
	}
	if len(frames) == 0 {
		return nil, errors.New("the terminal stayed empty")
	}
	frames[len(frames)-1].shown = hold
	return frames, nil
}

// times are what changes on the screen while nothing happens.
var times = regexp.MustCompile(`[0-9]+(m [0-9]+)?s`)

// shows is the frame's text without times.
func (f *frame) shows() string {
	var b strings.Builder
	for _, cells := range f.cells {
		for _, c := range cells {
			b.WriteRune(max(c.Char, ' '))
		}
	}
	return strings.Join(strings.Fields(times.ReplaceAllString(b.String(), "")), " ")
}

// keep adds the screen to the frames if it shows more than other times than the last
// one. It returns when the last frame began.
func keep(frames []frame, screen vt10x.Terminal, last time.Time) ([]frame, time.Time) {
	var f frame
	for y := range rows {
		for x := range columns {
			f.cells[y][x] = screen.Cell(x, y)
		}
	}
	if text := f.shows(); text == "" || len(frames) > 0 && frames[len(frames)-1].shows() == text {
		return frames, last
	}
	now := time.Now()
	if len(frames) > 0 {
		frames[len(frames)-1].shown = min(now.Sub(last), longest)
	}
	return append(frames, f), now
}
