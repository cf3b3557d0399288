package cli

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	tea "charm.land/bubbletea/v2"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/faces/tui"
	"github.com/maestro-hive/maestro/internal/ops/sessionstatus"
)

// viewTerminal returns the terminal for the live view. It reports false without a terminal
// that can move its cursor, and with --plain or -o json.
func (a *app) viewTerminal() (*os.File, bool) {
	terminal, ok := a.stdout.(*os.File)
	name := a.environ.get("TERM")
	if !ok || !a.onTerminal || name == "" || name == "dumb" || a.plain || a.output == outputJSON {
		return nil, false
	}
	return terminal, true
}

// runView shows the live view of a session until it ends or the user quits; without keyboard
// input, also until it waits for a person. The terminal is restored on return, and the last
// view stays on it.
func (a *app) runView(ctx context.Context, w *lookout, terminal *os.File) (sessionstatus.Session, error) {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP)
	defer stop()
	options := []tea.ProgramOption{
		tea.WithContext(ctx), tea.WithoutSignalHandler(), tea.WithOutput(terminal), tea.WithEnvironment(a.env.Environ), tea.WithInput(nil),
	}
	keys, typed := a.env.Stdin.(*os.File)
	if typed = typed && a.env.IsTerminal(keys); typed {
		options = append(options, tea.WithInput(keys))
	}
	model := tui.New(&viewSource{app: a, session: w.session}, tui.Options{Now: a.env.Now, Colours: a.palette.On, Keys: typed})
	program := tea.NewProgram(model, options...)
	over := hasOutcome
	if typed {
		over = session.State.Closed
	}

	a.held.hold()
	defer a.held.release()
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
		v, err = track(life, w, &viewObserver{a.guide, w, program}, over)
		program.Send(tui.Ended{})
	}()
	_, viewErr := program.Run()
	end()
	<-tracked
	for _, line := range model.Final() {
		a.print("%s", line)
	}
	switch {
	case ctx.Err() == nil && model.Left() && hasOutcome(v.Status.Status): // the user has seen what it waits for
		return v, nil
	case ctx.Err() != nil || model.Left():
		return v, context.Canceled
	case viewErr != nil:
		return v, failf("the live view failed: %w; the session continues, and --plain shows it line by line", viewErr)
	}
	return v, err
}

// viewObserver updates the live view.
type viewObserver struct {
	guide   *guide
	lookout *lookout
	program *tea.Program
}

func (o *viewObserver) update(_ context.Context, v sessionstatus.Session) {
	o.program.Send(tui.Update{Session: o.lookout.view(o.guide, v)})
}

func (o *viewObserver) disconnected(why string) { o.program.Send(tui.Lost{Why: why}) }

// viewSource sends the answers that the user types in the live view.
type viewSource struct {
	app     *app
	session string
}

// captured returns a command line that writes into a buffer.
func (c *viewSource) captured() (*app, *bytes.Buffer) {
	out := &bytes.Buffer{}
	quiet := *c.app.console
	quiet.stdout, quiet.stderr, quiet.output, quiet.onTerminal = out, io.Discard, outputTable, true
	return c.app.printingTo(&quiet), out
}

// heldWriter buffers output to a terminal while the live view is on it.
type heldWriter struct {
	mu      sync.Mutex
	out     io.Writer
	buffer  bytes.Buffer
	holding bool
}

// maxHeld bounds the buffer; the rest is dropped.
const maxHeld = 64 * 1024

func (c *heldWriter) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.holding {
		return c.out.Write(p)
	}
	if c.buffer.Len() < maxHeld {
		c.buffer.Write(p)
	}
	return len(p), nil
}

// hold starts buffering.
func (c *heldWriter) hold() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holding = true
}

// release stops buffering, and writes the buffer.
func (c *heldWriter) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holding = false
	_, _ = c.out.Write(c.buffer.Bytes())
	c.buffer.Reset()
}
