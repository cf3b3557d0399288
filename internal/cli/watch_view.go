package cli

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/signal"
	"regexp"
	"sync"
	"syscall"

	tea "charm.land/bubbletea/v2"

	"github.com/maestro-hive/maestro/internal/control"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/sessionstatus"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/tui"
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
		detail := &sessionDetail{lookout: w}
		defer detail.close()
		v, err = track(life, w, &viewObserver{guide: a.guide, detail: detail, program: program}, over)
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
	detail  *sessionDetail
	program *tea.Program
}

func (o *viewObserver) update(ctx context.Context, v sessionstatus.Session) {
	o.program.Send(tui.Update{Session: o.detail.view(ctx, o.guide, v)})
}

func (o *viewObserver) disconnected(why string) { o.program.Send(tui.Lost{Why: why}) }

// viewSource reads details for the live view from the store, and sends the user's answers.
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

// Logs returns what `logs` prints for an assignment.
func (c *viewSource) Logs(ctx context.Context, id spec.AssignmentID) (string, error) {
	ctx = c.app.env.acting(ctx)
	quiet, out := c.captured()
	logs := logsCommandOf(quiet)
	logs.session, logs.selection = c.session, id.String()
	err := logs.run(ctx)
	if err == nil && out.Len() == 0 {
		return "no attempt has finished yet", nil
	}
	return out.String(), err
}

// Artifacts lists the files of the newest checkpoint.
func (c *viewSource) Artifacts(ctx context.Context) ([]tui.Artifact, error) {
	ctx = c.app.env.acting(ctx)
	p, err := c.reading(ctx)
	if err != nil {
		return nil, err
	}
	defer p.close()
	doc, err := p.reviews.Artifacts(ctx, c.session)
	var all []tui.Artifact
	for _, f := range doc.Artifacts {
		all = append(all, tui.Artifact{Path: f.Path, Size: f.Size, By: f.AssignmentID})
	}
	return all, err
}

// Content returns a file's difference from the session's input.
func (c *viewSource) Content(ctx context.Context, path string) (string, error) {
	ctx = c.app.env.acting(ctx)
	p, err := c.reading(ctx)
	if err != nil {
		return "", err
	}
	defer p.close()
	d, err := p.reviews.DiffFile(ctx, control.DiffInput{Session: c.session}, path)
	return c.app.colouredPatch(shortenObjectNames(d.Diff)), err
}

// reading has the operations that read the session's files.
func (c *viewSource) reading(ctx context.Context) (*plane, error) {
	quiet, _ := c.captured()
	return quiet.reading(ctx)
}

// objectNames matches the object names of a patch's two sides.
var objectNames = regexp.MustCompile(`(?m)^index ([0-9a-f]{10})[0-9a-f]*\.\.([0-9a-f]{10})[0-9a-f]*`)

// shortenObjectNames shortens the object names in a patch, to fit a terminal's line.
func shortenObjectNames(diff string) string {
	return objectNames.ReplaceAllString(diff, "index $1..$2")
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
