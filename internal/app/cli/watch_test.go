package cli_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
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

	"github.com/maestro-hive/maestro/internal/core/session"
)

// crewTeam has two personas in parallel after a phase of one.
const crewTeam = `
version: 1
name: side
personas:
  analyst: {role: Analyst, agent: writer, instructions: "Write docs."}
  dev: {role: Developer, agent: coder, instructions: "Write code."}
  tester: {role: Tester, agent: coder, instructions: "Write tests."}
phases:
  - {name: think, personas: [analyst]}
  - {name: build, personas: [dev, tester]}
retry: {rounds: 1, attempts: 1, initial: 10ms, max: 10ms}
`

// gated is an agent that says what it is doing until there is a file named go.
func (d *desk) gated() string {
	return "echo 'reading the \x1b[31mdesign\x1b[0m' >&2; while [ ! -f " + filepath.Join(d.dir, "go") +
		" ]; do sleep 0.05; done; mkdir -p out; echo done > out/$$.txt"
}

func TestASessionIsDrawnOnATerminal(t *testing.T) {
	t.Parallel()
	d := newDesk(t).withServer()
	d.withWorker(map[string]string{"writer": writerScript, "coder": d.gated()})
	x := d.onTerminal(80, 24, nil, "run", d.file("team.yaml", crewTeam), "Make it so, and make it good.", "--session", "s",
		"--watch")
	x.shows("● running")
	x.shows("✓ analyst")
	x.shows("reading the design")
	require.True(t, x.altered())
	require.Contains(t, x.sees(), "team side · Make it so, and make it good.")
	x.shows("▸ ● dev")

	x.resize(130, 40)
	x.showsLine(`● dev +running, attempt 1 .*reading the design`)
	x.resize(80, 24)

	x.types("k")
	x.shows("▸ ✓ analyst")
	d.file("go", "")
	code, printed := x.ends()
	require.Equal(t, 0, code, printed)
	require.Contains(t, x.sees(), "✓ completed", "the last picture stays")
	require.Contains(t, x.sees(), "✓ tester")
	require.Contains(t, x.sees(), "2/2 phases")
}

func TestLeavingATerminalLeavesTheSession(t *testing.T) {
	t.Parallel()
	d := newDesk(t).withServer()
	d.withWorker(map[string]string{"writer": writerScript, "coder": d.gated()})
	d.must(0, "run", d.file("team.yaml", crewTeam), "Make it so.", "--session", "s")
	for name, leave := range map[string]func(*terminal){
		"q":       func(x *terminal) { x.types("q") },
		"Ctrl-C":  func(x *terminal) { x.types("\x03") },
		"SIGINT":  func(x *terminal) { require.NoError(t, x.cmd.Process.Signal(syscall.SIGINT)) },
		"SIGTERM": func(x *terminal) { require.NoError(t, x.cmd.Process.Signal(syscall.SIGTERM)) },
		"SIGHUP":  func(x *terminal) { require.NoError(t, x.cmd.Process.Signal(syscall.SIGHUP)) },
	} {
		x := d.onTerminal(80, 24, nil, "watch", "s")
		x.shows("● dev")
		leave(x)
		code, _ := x.ends()
		require.Equal(t, 130, code, name)
		require.Contains(t, x.sees(), "session s continues; watch it again: maestro watch s", name)
		require.Contains(t, x.sees(), "● dev", "%s: the last picture stays", name)
	}
	require.Equal(t, session.Running, d.status("s").Status)
}

// Where nobody can type, or the terminal cannot be drawn on, a session is followed
// all the same.
func TestTerminalsThatCannot(t *testing.T) {
	t.Parallel()
	d := newDesk(t).withServer()
	d.withWorker(map[string]string{"writer": writerScript, "coder": d.gated()})
	d.must(0, "run", d.file("team.yaml", crewTeam), "Make it so.", "--session", "s")

	mute := d.onTerminal(80, 24, func(cmd *exec.Cmd) { cmd.Stdin = nil }, "watch", "s")
	mute.shows("Ctrl-C quits; the session continues")
	colourless := d.onTerminal(80, 24, func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, "NO_COLOR=1") }, "watch", "s")
	colourless.shows("● dev")
	dumb := d.onTerminal(80, 24, func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, "TERM=dumb") }, "watch", "s")
	dumb.shows("build/dev: reading the")
	lines := d.onTerminal(80, 24, nil, "watch", "s", "--plain")
	lines.shows("build/dev: reading the")
	piped, write, err := os.Pipe()
	require.NoError(t, err)
	into := d.onTerminal(80, 24, func(cmd *exec.Cmd) { cmd.Stdout = write; cmd.SysProcAttr.Ctty = 0 }, "watch", "s")
	require.NoError(t, write.Close())
	d.file("go", "")
	buf := make([]byte, 1<<16)
	var text strings.Builder
	for n, err := piped.Read(buf); err == nil; n, err = piped.Read(buf) {
		text.Write(buf[:n])
	}
	require.Contains(t, text.String(), "build/dev: completed")
	require.NotContains(t, text.String(), "\x1b")
	for _, x := range []*terminal{mute, colourless, dumb, lines, into} {
		code, printed := x.ends()
		require.Equal(t, 0, code, printed)
		if x == dumb || x == lines || x == into {
			require.NotContains(t, printed, "\x1b[?1049h", "nothing is drawn")
		}
	}
	_, printed := colourless.ends()
	require.NotRegexp(t, `\x1b\[[0-9;]*3[0-9][0-9;]*m`, printed)
	require.Contains(t, colourless.sees(), "✓ completed")
}

// keyTeam waits for an approval, and then with two requests for help at once.
const keyTeam = `
version: 1
name: keys
personas:
  analyst: {role: Analyst, agent: writer, instructions: "Write docs."}
  dev: {role: Developer, agent: coder, instructions: "Write code."}
  tester: {role: Tester, agent: other, instructions: "Write tests."}
phases:
  - {name: think, personas: [analyst], approve: true}
  - {name: build, personas: [dev, tester]}
retry: {rounds: 1, attempts: 1, initial: 10ms, max: 10ms}
help: {mode: ask}
`

func TestASessionIsAnsweredByKeysWhileItIsWatched(t *testing.T) {
	t.Parallel()
	d := newDesk(t).withServer()
	d.withWorker(map[string]string{
		"writer": heedingWriter, "coder": stubbornCoder,
		"other": strings.ReplaceAll(stubbornCoder, "code.txt", "tests.txt"),
	})
	x := d.onTerminal(80, 24, nil, "run", d.file("team.yaml", keyTeam), "Make it so.", "--session", "s", "--watch")
	x.shows("a approve  x reject")
	x.types("q")
	code, _ := x.ends()
	require.Equal(t, 3, code)
	require.Contains(t, x.sees(), "maestro approve s think", "who leaves a session that waits is told how it continues")
	x = d.onTerminal(80, 24, nil, "watch", "s")
	x.shows("think needs approval")
	x.shows("a approve  x reject")
	x.types("x\r")
	x.shows("describe what is wrong")
	x.types("Use SQLite.")
	x.shows("what is wrong: Use SQLite.▏")
	x.types("\r")
	x.shows("session s continues: the work of phase think is done again")
	x.showsLine(`analyst .*completed, .*2`)
	x.types("a\r")
	x.shows("r retry")

	x.shows("build/tester needs help")
	x.shows("build/dev needs help")
	d.ends(2, "2 open requests that can be answered with retry; choose one with --request ID or --for PHASE/PERSONA:\n  build.",
		"resolve", "s", "retry")
	d.must(0, "resolve", "s", "retry", "--for", "build/dev", "--note", "The port is 8081.")
	x.showsLine(`✓ dev .*completed`)
	x.types("r")
	x.shows("retry build/tester")
	x.types("The port is 8081.\r")
	code, printed := x.ends()
	require.Equal(t, 0, code, printed)
	require.Contains(t, d.must(0, "artifacts", "get", "s", "docs/design.md", "tests.txt", "--out", d.dir+"/out"), "tests.txt")
}

// A budget is raised by a key, with a server and without: first the amount, then the note.
func TestABudgetIsRaisedByKey(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]func(*desk) *desk{
		"here": func(d *desk) *desk { return d }, "with a server": func(d *desk) *desk { return d.served(nil, "operator").away() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			budgetRaisedByKey(t, at)
		})
	}
}

func budgetRaisedByKey(t *testing.T, at func(*desk) *desk) {
	t.Helper()
	d := newDesk(t).withServer()
	d.withWorker(map[string]string{"coder": `echo '{"usage": {"input_tokens": 60}}' > "$MAESTRO_RESULT"; echo x > code.txt`})
	team := strings.Replace(oneTeam, "phases:", "  next: {role: Developer, agent: coder, instructions: x}\nphases:", 1) +
		"  - {name: more, personas: [next]}\nbudget: {tokens: 50, on_exceeded: ask}\n"
	d.must(0, "run", d.file("team.yaml", team), "Make it so.", "--session", "s")
	x := at(d).onTerminal(80, 24, nil, "watch", "s")
	x.shows("needs a larger budget")
	x.types("+lots\r\r")
	x.shows(`not sent: "lots" is not an amount`)
	x.types("+1k\r")
	x.shows("raise more/next by 1k")
	x.types("more to do\r")
	code, printed := x.ends()
	require.Equal(t, 0, code, printed)
	require.Contains(t, d.must(0, "budget", "show", "s"), "1,050 tokens")
}

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
