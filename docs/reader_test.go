package docs_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// patience bounds every command of a page; the slowest builds Maestro and runs the demo.
const patience = 8 * time.Minute

// reader does what a page says, in a home directory of its own, in which maestro/ is a
// copy of the source. Terminals are named; the first has no name.
type reader struct {
	home      string
	environ   []string
	terminals map[string]*terminal
	// port, uiPort and dashboard are where this reader's `maestro dev` listens in place of
	// 7233, 8233 and 8088, which other readers need, too.
	port, uiPort, dashboard string
	// log hears of every command and what it printed.
	log func(format string, args ...any)
}

// terminal is a shell: where it is, what it exports, and what works in it.
type terminal struct {
	dir     string
	environ []string
	running *process
}

// process is a command under way. What it prints comes together as on a screen.
type process struct {
	cmd    *exec.Cmd
	note   string // where the shell leaves its directory and variables at its end
	mu     sync.Mutex
	output bytes.Buffer
	done   chan struct{}
}

func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.Write(b)
}

func (p *process) printed() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.String()
}

// follow does all steps of a page; it stops at the first that does not go as the page
// says, and tells what was printed.
func (r *reader) follow(p page) error {
	for _, s := range p.steps {
		if err := r.do(s); err != nil {
			return fmt.Errorf("%s:%w", p.name, err)
		}
	}
	return nil
}

func (r *reader) do(s step) error {
	t := r.terminal(s.terminal)
	if s.file != "" {
		path := filepath.Join(t.dir, s.file)
		err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(s.content), 0o644))
		if err != nil {
			return fmt.Errorf("%d: write %s: %w", s.line, s.file, err)
		}
		return nil
	}
	for i, c := range s.commands {
		want, last := 0, i == len(s.commands)-1
		if last {
			want = s.exit
		}
		if err := r.enter(t, c, want, last && s.terminal != ""); err != nil {
			return fmt.Errorf("%d: $ %s\n%w", c.line, c.typed, err)
		}
	}
	return nil
}

func (r *reader) terminal(name string) *terminal {
	if r.terminals[name] == nil {
		r.terminals[name] = &terminal{dir: filepath.Join(r.home, "maestro"), environ: slices.Clone(r.environ)}
	}
	return r.terminals[name]
}

// enter types a command, and holds what it prints and how it ends against the page.
// With stays it is left at work once it has printed what is shown.
func (r *reader) enter(t *terminal, c command, exit int, stays bool) error {
	before := 0
	if c.typed == interrupt {
		if t.running == nil {
			return errors.New("nothing is at work there")
		}
		before = len(t.running.printed())
		_ = syscall.Kill(-t.running.cmd.Process.Pid, syscall.SIGINT)
	} else {
		if t.running != nil { // the prompt is not back yet
			if err := t.ends(); err != nil {
				return err
			}
		}
		if err := t.start(r.asHere(c.typed)); err != nil {
			return err
		}
	}
	p := t.running
	defer func() { r.log("$ %s\n%s", c.typed, p.printed()[before:]) }()
	if stays && c.typed != interrupt {
		return r.awaits(p, c)
	}
	if err := t.ends(); err != nil {
		return err
	}
	if code := p.cmd.ProcessState.ExitCode(); code != exit {
		return fmt.Errorf("exit status %d, not %d; printed:\n%s", code, exit, p.printed())
	}
	printed := r.asThere(p.printed()[before:], c.shown)
	if len(c.shown) > 0 && !shows(c.shown, printed, false) {
		return differs(c.shown, printed)
	}
	return nil
}

// awaits waits until a command has printed what the page shows.
func (r *reader) awaits(p *process, c command) error {
	deadline := time.After(patience)
	for !shows(c.shown, r.asThere(p.printed(), c.shown), true) {
		select {
		case <-p.done:
			if shows(c.shown, r.asThere(p.printed(), c.shown), true) {
				return nil
			}
			return fmt.Errorf("it ended (%s); printed:\n%s", p.cmd.ProcessState, p.printed())
		case <-deadline:
			return differs(c.shown, r.asThere(p.printed(), c.shown))
		case <-time.After(50 * time.Millisecond):
		}
	}
	return nil
}

func differs(shown []string, printed string) error {
	return fmt.Errorf("the page shows:\n%s\nprinted was:\n%s", strings.Join(shown, "\n"), printed)
}

// start has a shell run a command that leaves, at its end, where it is and what it
// exports.
func (t *terminal) start(line string) error {
	note, err := os.CreateTemp("", "terminal-")
	if err != nil {
		return err
	}
	_ = note.Close()
	p := &process{note: note.Name(), done: make(chan struct{})}
	p.cmd = exec.Command("bash", "--norc", "-c", `trap '{ pwd; env -0; } > "`+p.note+`"' EXIT`+"\n"+line)
	p.cmd.Dir, p.cmd.Env = t.dir, t.environ
	p.cmd.Stdout, p.cmd.Stderr = p, p
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.WaitDelay = 5 * time.Second
	if err := p.cmd.Start(); err != nil {
		return err
	}
	go func() { _ = p.cmd.Wait(); close(p.done) }()
	t.running = p
	return nil
}

// ends waits until the terminal's command has ended, and continues from where it left
// the shell.
func (t *terminal) ends() error {
	p := t.running
	select {
	case <-p.done:
	case <-time.After(patience):
		return fmt.Errorf("it does not end; printed:\n%s", p.printed())
	}
	t.running = nil
	data, err := os.ReadFile(p.note)
	_ = os.Remove(p.note)
	dir, environ, ok := strings.Cut(string(data), "\n")
	if err != nil || !ok { // the shell itself was killed
		return nil //nolint:nilerr // it stays where it was
	}
	t.dir, t.environ = dir, strings.Split(strings.TrimSuffix(environ, "\x00"), "\x00")
	return nil
}

// leave ends everything that still works, as closing the terminals does.
func (r *reader) leave() {
	for _, t := range r.terminals {
		if t.running == nil {
			continue
		}
		_ = syscall.Kill(-t.running.cmd.Process.Pid, syscall.SIGTERM)
		select {
		case <-t.running.done:
		case <-time.After(30 * time.Second):
			_ = syscall.Kill(-t.running.cmd.Process.Pid, syscall.SIGKILL)
			<-t.running.done
		}
		_ = os.Remove(t.running.note)
	}
}

var dev = regexp.MustCompile(`\bmaestro dev\b`)

// asHere is a command with the ports of this reader's own server.
func (r *reader) asHere(line string) string {
	return dev.ReplaceAllString(line, "maestro dev --port "+r.port+" --ui-port "+r.uiPort+" --dashboard-port "+r.dashboard)
}

var stateNotice = regexp.MustCompile(`(?m)^the state is in .* because .*\n`)

// asThere is what was printed as the page's reader would have seen it: with the usual
// ports and another home. What every command says of where the state is, pages may
// leave out.
func (r *reader) asThere(printed string, shown []string) string {
	printed = strings.NewReplacer(
		" --address 127.0.0.1:"+r.port, "",
		"127.0.0.1:"+r.port, "127.0.0.1:7233",
		"127.0.0.1:"+r.uiPort, "127.0.0.1:8233",
		"127.0.0.1:"+r.dashboard, "127.0.0.1:8088",
		r.home, "/home/you",
	).Replace(printed)
	if !slices.ContainsFunc(shown, func(line string) bool { return stateNotice.MatchString(line + "\n") }) {
		printed = stateNotice.ReplaceAllString(printed, "")
	}
	return printed
}
