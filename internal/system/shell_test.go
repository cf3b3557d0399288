package system

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/agent"
	"github.com/maestro-hive/maestro/internal/proctest"
	"github.com/maestro-hive/maestro/internal/session"
)

const stuckTeam = `version: 1
name: stuck
retry: {attempts: 1, rounds: 1}
personas:
  dev: {role: r, agent: stuck, instructions: x, checks: [good]}
phases:
  - {name: build, personas: [dev]}
`

// stuckSession has a session whose only agent has left wrong work, and waits for a person.
func (w *world) stuckSession(isolation string) {
	w.t.Helper()
	w.variables = append(w.variables, "SITE=here", "SITE_TOKEN=swordfish-0123456789")
	w.write("agents.yaml", "version: 1\nisolation: "+isolation+`
providers: {models: {format: openai, base_url: "http://127.0.0.1:9"}}
agents:
  stuck: {kind: command, gateway: [models], env: [SITE, SITE_TOKEN], argv: [sh, -c, 'mkdir node_modules; echo dep > node_modules/dep; echo me > $HOME/conversation; rm old.txt; echo bad > work.txt; ln -s work.txt link; echo sub > docs/b.md']}
checks:
  good: {argv: [sh, -c, 'grep good work.txt && test ! -e docs']}
`)
	for path, text := range map[string]string{"old.txt": "old", "docs/a.md": "a", ".gitignore": "node_modules/\n"} {
		w.write(filepath.Join("workspace", path), text)
	}
	w.startWorker()
	w.must("run", w.write("team.yaml", stuckTeam), "build it", "--session", "stuck", "--workspace", filepath.Join(w.dir, "workspace"))
	w.waitsForHelp("stuck")
}

func (w *world) waitsForHelp(id string) {
	w.t.Helper()
	w.shows(id, "the session waits", func(s session.Status) bool { return s.Status == session.HelpIsNeeded })
}

// kept lists the files that the session's agent has left, with when each was changed.
func (w *world) kept() (list []string) {
	w.t.Helper()
	require.NoError(w.t, filepath.WalkDir(filepath.Join(w.state, "work", w.namespace), func(path string, _ fs.DirEntry, err error) error {
		if err == nil {
			var info fs.FileInfo
			info, err = os.Lstat(path)
			list = append(list, fmt.Sprint(path, info.Mode(), info.ModTime()))
		}
		return err
	}))
	return list
}

// asides are the directories of shells.
func (w *world) scratches() []string {
	dirs, err := filepath.Glob(filepath.Join(w.state, "work", ".scratch", "*", "tree"))
	require.NoError(w.t, err)
	return dirs
}

// TestAShellWhereAnAgentWorked looks at what a failed agent has left, mends it and supplies it.
func TestAShellWhereAnAgentWorked(t *testing.T) {
	t.Parallel()
	for _, isolation := range []string{agent.IsolationNone, agent.IsolationRequired} {
		t.Run(isolation, func(t *testing.T) {
			t.Parallel()
			if isolation == agent.IsolationRequired {
				permitsRooms(t)
			}
			w := newWorld(t)
			w.stuckSession(isolation)
			before := w.kept()
			a := w.maestro("shell", "stuck", "build/dev", "--", "sh", "-c",
				`cat node_modules/dep work.txt link $HOME/conversation; echo "$SITE ${SITE_TOKEN-none}"; ls -A $TMPDIR | wc -l; test ! -e old.txt && echo gone; pwd; exit 7`)
			where := "/workspace\n"
			if isolation == agent.IsolationNone {
				where = w.state
				require.Contains(t, a.stderr, "the shell runs without a room, in separate directories: the worker file has isolation: none")
			}
			require.Equal(t, 7, a.code, a.stderr)
			require.Contains(t, a.stdout, "dep\nbad\nbad\nme\nhere none\n0\ngone\n"+where)
			require.Contains(t, a.stderr, "nothing changed")
			require.Contains(t, a.stderr, "no access to the gateway of agent stuck")
			require.Contains(t, w.maestro("shell", "stuck", "build/dev", "--keys", "--", "env").stdout, "SITE_TOKEN=swordfish-0123456789")
			a = w.maestro("shell", "stuck", "build/dev", "--", "missing-program")
			require.Equal(t, 127, a.code, a.stderr)
			require.Contains(t, a.stderr, "missing-program")
			require.Equal(t, before, w.kept(), "what the agent left is as it was")

			mend := `echo good > work.txt; rm -r docs; echo new > new.txt; echo more >> node_modules/dep`
			a = w.maestro("shell", "stuck", "build/dev", "--", "sh", "-c", mend)
			require.Zero(t, a.code)
			require.Contains(t, a.stderr, "changed: 4 files\nD docs/a.md\nD docs/b.md\nA new.txt\nM work.txt\n")
			command := regexp.MustCompile(`supply these files as the work of build/dev: maestro (resolve .*)`).FindStringSubmatch(a.stderr)
			require.NotNil(t, command, a.stderr)
			require.Equal(t, before, w.kept(), "what the agent left is as it was")
			require.Empty(t, w.scratches())

			w.must(strings.Fields(command[1])...)
			s := w.completes("stuck")
			require.Equal(t, session.Supplied, s.Phases[0].Assignments[0].Status)
			w.must("artifacts", "get", "stuck", "--out", filepath.Join(w.dir, "out"))
			require.FileExists(t, filepath.Join(w.dir, "out", "new.txt"))
			require.NoDirExists(t, filepath.Join(w.dir, "out", "docs"))
			require.NoFileExists(t, filepath.Join(w.dir, "out", "old.txt"))

			a = w.maestro("shell", "stuck", "build/dev", "--supply", "--", "sh", "-c", "mkdir many && cd many && seq 61 | xargs touch")
			require.Equal(t, 1, a.code)
			require.Contains(t, a.stderr, "changed: 61 files\nA many/1\n")
			require.Contains(t, a.stderr, "... and 11 more\n")
			require.Regexp(t, "(?m)^the files are not supplied; the store keeps them, to supply them later: maestro resolve stuck supply tree:[0-9a-f]{64}.* --for build/dev", a.stderr)

			require.NoError(t, os.RemoveAll(filepath.Join(w.state, "work")), "as on another host")
			a = w.maestro("shell", "stuck", "build/dev", "--", "cat", "work.txt", "new.txt", "link")
			require.Equal(t, answer{stdout: "good\nnew\ngood\n", stderr: a.stderr}, a)
			require.Contains(t, a.stderr, "files of build/dev as the store has them")
		})
	}
}

// running reports whether a process has a text in its command line.
func running(text string) bool {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err == nil && strings.Contains(strings.ReplaceAll(string(data), "\x00", " "), text) {
			return true
		}
	}
	return false
}

// person is a terminal with a program on it.
type person struct {
	*process
	w    *world
	keys *os.File
}

func (w *world) atTerminal(args ...string) *person {
	w.t.Helper()
	keys, tty, err := pty.Open()
	require.NoError(w.t, err)
	require.NoError(w.t, pty.Setsize(tty, &pty.Winsize{Rows: 31, Cols: 117}))
	p := &person{w: w, keys: keys, process: &process{cmd: exec.Command(filepath.Join(programs, "maestro"), args...), output: &proctest.Output{}, done: make(chan struct{})}}
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr, p.cmd.Env = tty, tty, tty, append(w.environment(), "TERM=xterm")
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(w.t, p.cmd.Start())
	require.NoError(w.t, tty.Close())
	go func() { _, _ = io.Copy(p.output, keys) }()
	go func() { _ = p.cmd.Wait(); close(p.done) }()
	w.t.Cleanup(func() {
		p.kill()
		_ = keys.Close()
		if w.t.Failed() {
			w.t.Logf("the terminal:\n%s", p.output.String())
		}
	})
	return p
}

func (p *person) types(text string) {
	p.w.t.Helper()
	_, err := p.keys.WriteString(text)
	require.NoError(p.w.t, err)
}

func (p *person) sees(pattern string) {
	p.w.t.Helper()
	p.w.eventually("the terminal shows "+pattern, func() bool { return regexp.MustCompile(pattern).MatchString(p.output.String()) })
}

// TestAShellAtATerminal has a person type: the shell has a terminal of its own with the size of
// theirs, keys stop and interrupt programs, and --supply continues the session at the end.
func TestAShellAtATerminal(t *testing.T) {
	t.Parallel()
	permitsRooms(t)
	w := newWorld(t)
	w.stuckSession(agent.IsolationRequired)
	p := w.atTerminal("shell", "stuck", "build/dev", "--supply")
	p.types("stty size; echo error > /dev/stderr; echo here > /dev/tty\n")
	p.sees(`31 117`)
	p.sees(`\nerror\r\nhere\r\n`)
	require.NoError(t, pty.Setsize(p.keys, &pty.Winsize{Rows: 40, Cols: 90}))
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGWINCH))
	p.types("until stty size | grep '40 90'; do sleep 0.1; done\n")
	p.sees(`40 90\r\n`)
	sleep := fmt.Sprint("sleep 76543.", os.Getpid())
	p.types(sleep + "\n")
	w.eventually("it sleeps", func() bool { return running(sleep) })
	p.types("\x1a") // Ctrl-Z
	p.sees(`Stopped +sleep 76543`)
	p.types("kill -9 %1; " + sleep + "1\n")
	w.eventually("it sleeps again", func() bool { return running(sleep + "1") })
	p.types("\x03") // Ctrl-C
	w.eventually("it is interrupted", func() bool { return !running(sleep) })
	p.types("echo in$((40+1))terrupted\n")
	p.sees(`in41terrupted`)
	p.types("echo good > work.txt; rm -r docs; exit 0\n")
	w.dies(p.process)
	require.Zero(t, p.cmd.ProcessState.ExitCode())
	p.sees(`D docs/a.md\r\nD docs/b.md\r\nM work.txt\r\nsession stuck continues: your files are used as the work of build/dev`)
	require.Equal(t, session.Supplied, w.completes("stuck").Phases[0].Assignments[0].Status)
}

// TestAKilledShellLeavesNothing kills the command whose shell has started a daemon, and hangs up
// the terminal of another one, whose files are kept.
func TestAKilledShellLeavesNothing(t *testing.T) {
	t.Parallel()
	permitsRooms(t)
	w := newWorld(t)
	w.stuckSession(agent.IsolationRequired)
	daemon := "sleep 1234567." + fmt.Sprint(os.Getpid())
	p := w.atTerminal("shell", "stuck", "build/dev")
	p.types("setsid " + daemon + " & echo pre$((1+1))pared\n")
	p.sees(`pre2pared`)
	w.eventually("the daemon runs", func() bool { return running(daemon) })
	require.Len(t, w.scratches(), 1)
	p.kill()
	w.eventually("the daemon is gone", func() bool { return !running(daemon) })
	mounts, err := os.ReadFile("/proc/self/mounts")
	require.NoError(t, err)
	require.False(t, bytes.Contains(mounts, []byte(w.state)))

	p = w.atTerminal("shell", "stuck", "build/dev")
	p.types("echo kept > kept.txt; setsid " + daemon + " & echo pre$((1+1))pared\n")
	p.sees(`pre2pared`)
	require.Len(t, w.scratches(), 1, "the directories of the killed one are gone")
	p.signal(syscall.SIGHUP) // the terminal hangs up
	w.dies(p.process)
	p.sees(`A kept.txt\r\nsupply these files`)
	require.False(t, running(daemon))
	require.Empty(t, w.scratches())
}
