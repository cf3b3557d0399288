package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"sync"
	"syscall"

	tea "charm.land/bubbletea/v2"

	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/sessionstatus"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/tui"
)

// canDraw reports whether the session can be drawn live, and on what: on a terminal
// that can move its cursor, without --plain and -o json.
func (a *app) canDraw() (*os.File, bool) {
	terminal, ok := a.env.Stdout.(*os.File)
	name := a.environ.get("TERM")
	if !ok || !a.env.IsTerminal(terminal) || name == "" || name == "dumb" || a.plain || a.output == outputJSON {
		return nil, false
	}
	return terminal, true
}

// live draws a session on a terminal until it ends or the person leaves. On return the
// last picture stays on the terminal. Without keyboard input it also ends when the session waits. The terminal is restored when it returns.
func (a *app) live(ctx context.Context, w *sessionstatus.Watcher, terminal *os.File) (sessionstatus.Session, error) {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP)
	defer stop()
	options := []tea.ProgramOption{
		tea.WithContext(ctx), tea.WithoutSignalHandler(), tea.WithOutput(terminal), tea.WithEnvironment(a.env.Environ), tea.WithInput(nil),
	}
	keys, typed := a.env.Stdin.(*os.File)
	if typed = typed && a.env.IsTerminal(keys); typed {
		options = append(options, tea.WithInput(keys))
	}
	model := tui.New(&closerLook{app: a, session: w.Session}, tui.Options{Now: a.env.Now, Colours: a.palette.On, Keys: typed})
	program := tea.NewProgram(model, options...)
	over := settled
	if typed {
		over = session.State.Closed
	}

	a.curtain.draw()
	defer a.curtain.open()
	life, end := context.WithCancel(ctx)
	defer end()
	tracked := make(chan struct{})
	var v sessionstatus.Session
	var err error
	go func() {
		defer close(tracked)
		defer func() {
			if r := recover(); r != nil {
				program.Kill()
				panic(r)
			}
		}()
		near := &closeUp{Watcher: w}
		defer near.forgetAll()
		v, err = a.track(life, w, &onScreen{app: a, near: near, program: program}, over)
		program.Send(tui.Ended{})
	}()
	_, drawn := program.Run()
	end()
	<-tracked
	for _, line := range model.Final() {
		a.print("%s", line)
	}
	switch {
	case ctx.Err() == nil && model.Left() && settled(v.Status.Status): // it waits for a person, who knows
		return v, nil
	case ctx.Err() != nil || model.Left():
		return v, context.Canceled
	case drawn != nil:
		return v, failf("the live view failed: %w; the session continues, and --plain shows it line by line", drawn)
	}
	return v, err
}

// onScreen is an audience that updates a drawing.
type onScreen struct {
	app     *app
	near    *closeUp
	program *tea.Program
}

func (o *onScreen) shows(ctx context.Context, v sessionstatus.Session) {
	o.program.Send(tui.Update{Session: o.near.drawn(ctx, o.app, v)})
}

func (o *onScreen) lost(why string) { o.program.Send(tui.Lost{Why: why}) }

// closerLook reads details of a session from the store on request.
type closerLook struct {
	app     *app
	session string
}

// quietly is the command line with its output kept, for commands whose output is
// shown elsewhere.
func (c *closerLook) quietly() (*app, *bytes.Buffer) {
	out := &bytes.Buffer{}
	quiet := *c.app
	quiet.env.Stdout, quiet.env.Stderr, quiet.output = out, io.Discard, outputTable
	quiet.env.IsTerminal = func(any) bool { return true } // it ends up on one
	return &quiet, out
}

// Logs is what `logs` prints of an assignment.
func (c *closerLook) Logs(ctx context.Context, id spec.AssignmentID) (string, error) {
	quiet, out := c.quietly()
	err := quiet.logs(ctx, logsOptions{session: c.session, selection: id.String(), tail: -1})
	if err == nil && out.Len() == 0 {
		return "no attempt has finished yet", nil
	}
	return out.String(), err
}

// Artifacts lists the files as of the newest checkpoint.
func (c *closerLook) Artifacts(ctx context.Context) ([]tui.Artifact, error) {
	quiet, _ := c.quietly()
	_, newest, err := quiet.latest(ctx, c.session)
	var all []tui.Artifact
	for _, f := range newest.Artifacts {
		all = append(all, tui.Artifact{Path: f.Path, Size: f.Size, By: f.AssignmentID})
	}
	return all, err
}

// Content is how a file differs from what the session started from.
func (c *closerLook) Content(ctx context.Context, path string) (string, error) {
	quiet, _ := c.quietly()
	s, newest, err := quiet.latest(ctx, c.session)
	if err != nil {
		return "", err
	}
	for d, err := range s.Patch(ctx, newest.Workspace, newest.Tree, store.PatchOptions{}) {
		if err != nil {
			return "", err
		}
		if d.Path == path {
			return c.app.painted(withShortNames(d.Text)), nil
		}
	}
	return "", fmt.Errorf("%s is unchanged since the session started", path)
}

// objectNames are those of a difference's two sides.
var objectNames = regexp.MustCompile(`(?m)^index ([0-9a-f]{10})[0-9a-f]*\.\.([0-9a-f]{10})[0-9a-f]*`)

// withShortNames is a difference whose objects' names fit into a line of a terminal.
func withShortNames(diff string) string { return objectNames.ReplaceAllString(diff, "index $1..$2") }

// curtain buffers output to a terminal while something is drawn on it.
type curtain struct {
	mu    sync.Mutex
	out   io.Writer
	held  bytes.Buffer
	drawn bool
}

// heldMost bounds the buffer; the rest is dropped.
const heldMost = 64 * 1024

func (c *curtain) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.drawn {
		return c.out.Write(p)
	}
	if c.held.Len() < heldMost {
		c.held.Write(p)
	}
	return len(p), nil
}

// draw buffers what is written from now on.
func (c *curtain) draw() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drawn = true
}

// open writes the buffer, and stops buffering.
func (c *curtain) open() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drawn = false
	_, _ = c.out.Write(c.held.Bytes())
	c.held.Reset()
}
