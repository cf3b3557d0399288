package cli_test

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// terminal is a terminal with a command on it: a real pseudo-terminal, and an
// emulation of what a person would see missing.
type terminal struct {
	t           *testing.T
	keyboard    *os.File // the person's side
	tty         *os.File // the command's side
	cmd         *exec.Cmd
	ended, read chan struct{}

	mu      sync.Mutex
	screen  vt10x.Terminal
	printed bytes.Buffer
}

// keyboardProtocol are requests about the keyboard that the emulation would take for
// movements of the cursor.
var keyboardProtocol = regexp.MustCompile(`\x1b\[[<>=?][0-9;]*u`)

// onTerminal starts a command line, as a program of its own, on a terminal. fix
// changes how it is started.
func (d *desk) onTerminal(columns, rows uint16, mend func(*exec.Cmd), args ...string) *terminal {
	d.t.Helper()
	x := &terminal{
		t: d.t, ended: make(chan struct{}), read: make(chan struct{}),
		screen: vt10x.New(vt10x.WithSize(int(columns), int(rows))),
	}
	var err error
	x.keyboard, x.tty, err = pty.Open()
	require.NoError(d.t, err)
	require.NoError(d.t, pty.Setsize(x.tty, &pty.Winsize{Cols: columns, Rows: rows}))
	x.cmd = exec.Command(os.Args[0], args...)
	x.cmd.Env = append(append([]string{}, d.environ...), "TERM=xterm-256color", asProgram+"="+d.bin)
	x.cmd.Stdin, x.cmd.Stdout, x.cmd.Stderr = x.tty, x.tty, x.tty
	x.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 1}
	if mend != nil {
		mend(x.cmd)
	}
	require.NoError(d.t, x.cmd.Start())
	go x.emulate()
	go func() {
		defer close(x.ended)
		_ = x.cmd.Wait()
	}()
	d.t.Cleanup(func() {
		_ = x.cmd.Process.Kill()
		<-x.ended
		_ = x.tty.Close()
		_ = x.keyboard.Close()
		<-x.read
	})
	return x
}

// emulate shows what the command writes.
func (x *terminal) emulate() {
	defer close(x.read)
	buf := make([]byte, 64*1024)
	for {
		n, err := x.keyboard.Read(buf)
		if err != nil {
			return
		}
		x.mu.Lock()
		x.printed.Write(buf[:n])
		_, _ = x.screen.Write(keyboardProtocol.ReplaceAll(buf[:n], nil))
		x.mu.Unlock()
	}
}

// sees is the text on the screen, without the spaces at line ends.
func (x *terminal) sees() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	columns, rows := x.screen.Size()
	var lines []string
	for y := range rows {
		var line strings.Builder
		for column := range columns {
			line.WriteRune(x.screen.Cell(column, y).Char)
		}
		lines = append(lines, strings.TrimRight(line.String(), " \x00"))
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

// shows waits for text on the screen.
func (x *terminal) shows(text string) {
	x.t.Helper()
	x.eventually(func() bool { return strings.Contains(x.sees(), text) }, "never showed: "+text)
}

// showsLine waits for a line on the screen that matches a pattern.
func (x *terminal) showsLine(pattern string) {
	x.t.Helper()
	line := regexp.MustCompile("(?m)" + pattern)
	x.eventually(func() bool { return line.MatchString(x.sees()) }, "never showed: "+pattern)
}

func (x *terminal) eventually(condition func() bool, message string) {
	x.t.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			require.Fail(x.t, message, "the screen:\n%s", x.sees())
		}
	}
}

func (x *terminal) types(keys string) {
	x.t.Helper()
	_, err := x.keyboard.WriteString(keys)
	require.NoError(x.t, err)
}

func (x *terminal) resize(columns, rows uint16) {
	x.t.Helper()
	x.mu.Lock()
	x.screen.Resize(int(columns), int(rows))
	x.mu.Unlock()
	require.NoError(x.t, pty.Setsize(x.tty, &pty.Winsize{Cols: columns, Rows: rows}))
}

// altered reports whether the command has the screen for itself.
func (x *terminal) altered() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.screen.Mode()&vt10x.ModeAltScreen != 0
}

// ends waits for the end of the command, which leaves the terminal as it was, and
// returns its exit code and all that it has printed.
func (x *terminal) ends() (code int, printed string) {
	x.t.Helper()
	select {
	case <-x.ended:
	case <-time.After(patience):
		require.Fail(x.t, "the command did not end", "the screen:\n%s", x.sees())
	}
	// A mark of our own comes after all that the command has written.
	_, err := x.tty.WriteString("\r\n$ ")
	require.NoError(x.t, err)
	x.eventually(func() bool { return strings.HasSuffix(x.sees(), "\n$") }, "the terminal does not go on")
	require.False(x.t, x.altered(), "the screen is left to the shell")
	require.True(x.t, x.screen.CursorVisible(), "the cursor is left visible")
	modes, err := unix.IoctlGetTermios(int(x.tty.Fd()), unix.TCGETS)
	require.NoError(x.t, err)
	require.NotZero(x.t, modes.Lflag&unix.ICANON, "lines can be edited again")
	require.NotZero(x.t, modes.Lflag&unix.ECHO, "what is typed is seen again")
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.cmd.ProcessState.ExitCode(), x.printed.String()
}
