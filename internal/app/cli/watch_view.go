package cli

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/faces/tui"
	"github.com/maestro-hive/maestro/internal/ops/control"
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
		tea.WithContext(ctx), tea.WithoutSignalHandler(), tea.WithOutput(terminal), tea.WithEnvironment(a.env.Environ),
		tea.WithInput(nil),
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
		v, err = track(life, w, &viewObserver{a, program}, over)
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
	app     *app
	program *tea.Program
}

func (o *viewObserver) update(_ context.Context, v sessionstatus.Session) error {
	o.program.Send(tui.Update{Session: o.app.view(v)})
	return nil
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

// view returns the session as the live view shows it.
func (a *app) view(v sessionstatus.Session) tui.Session {
	s := tui.Session{
		ID: v.Session, Team: v.Team, State: v.Status.Status, Run: v.Run, Requirement: v.Requirement,
		Usage: v.Usage, Limit: v.Limit, Spent: v.Spent, Reason: v.Reason,
		Started: timeOf(v.StartedAt), Closed: timeOf(v.ClosedAt),
	}
	var waits []string
	for _, p := range v.Phases {
		phase := tui.Phase{
			Name: p.Name, State: p.Status, Needs: p.Needs, SentBack: p.SentBack, Left: !v.Course.Selects(p.Name),
			Delivers: p.PullRequest.String(),
		}
		for _, as := range p.Assignments {
			phase.Assignments = append(phase.Assignments, tui.Assignment{
				Persona: as.Persona, State: as.Status, Agent: as.Agent, Pass: as.Pass, Round: as.Round, Attempt: as.Attempt,
				Worked: time.Duration(as.Seconds * float64(time.Second)), Usage: as.Usage, Progress: as.Progress, Summary: as.Summary,
				Failures: as.Failures, LostWorkers: as.LostWorkers, Awaits: as.Awaits,
			})
			if p.Status == session.Pending && as.Status == session.Running {
				phase.State = session.Running // the status document follows
			}
			if as.Awaits != nil {
				waits = append(waits, as.Awaits.String())
			}
		}
		s.Phases = append(s.Phases, phase)
	}
	for _, note := range notesOf(v) {
		if !slices.ContainsFunc(waits, func(w string) bool { return strings.Contains(note, w) }) { // the view lists breakers itself
			s.Notes = append(s.Notes, note)
		}
	}
	s.Requests, s.Budgets = a.viewRequests(v.Status), ownBudget(v)
	return s
}

// viewRequests lists the open requests with the commands that answer them. For a session
// that ended without completing it has the command that resumes it.
func (a *app) viewRequests(s session.Status) []tui.Request {
	goOn := tui.Command{Text: a.commandLine("resume " + s.Session), Does: "resumes with the finished work restored"}
	var all []tui.Request
	for _, h := range s.Help {
		r := tui.Request{Title: h.Subject() + " " + h.Need() + ": " + messageOf(h), Until: h.Until}
		for _, w := range h.Commands(s.Session, s.Help) {
			r.Commands = append(r.Commands, tui.Command{Text: a.commandLine(w.Line), Does: w.Does})
		}
		if s.Status.Closed() {
			r.Commands = []tui.Command{goOn}
		} else {
			addKeyActions(&r, h)
		}
		all = append(all, r)
	}
	switch {
	case len(all) > 0:
	case s.Status == session.AwaitingApproval:
		for _, p := range s.Phases {
			if p.Status == session.AwaitingApproval {
				all = append(all, tui.Request{
					Title:    "phase " + p.Name + " is done; the session pauses after it (--pause-after)",
					Commands: []tui.Command{{Text: a.commandLine("resume " + s.Session), Does: "continues the session"}},
				})
			}
		}
	case s.Status == session.Failed, s.Status == session.WasCancelled:
		title := cmp.Or(safetext.Line(s.Reason), "the session ended without completing")
		all = append(all, tui.Request{Title: title, Commands: []tui.Command{goOn}})
	}
	return all
}

func timeOf(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

// Answer sends an answer that the user typed in the live view, and returns what the command for
// it prints.
func (c *viewSource) Answer(ctx context.Context, answer tui.Answer) (string, error) {
	ctx = c.app.env.acting(ctx)
	quiet, out := c.captured()
	quiet.stderr, quiet.palette.On = out, false
	if answer.Action == tui.Raise {
		err := quiet.raiseTyped(ctx, c.session, answer)
		return out.String(), err
	}
	command := resolveCommand{app: quiet}
	err := command.answerTyped(ctx, c.session, answer)
	return out.String(), err
}

// answerTyped answers a request like `approve`, `reject` and `resolve SESSION retry`.
func (c *resolveCommand) answerTyped(ctx context.Context, sessionID string, answer tui.Answer) error {
	if err := checkPhaseAnswer(answer.Action, answer.Note); err != nil {
		return err
	}
	c.action, c.request, c.note = answer.Action, answer.Request.ID, answer.Note
	return c.resolve(ctx, sessionID, "")
}

// raiseTyped raises a budget like `budget raise`.
func (a *app) raiseTyped(ctx context.Context, sessionID string, answer tui.Answer) error {
	r := control.Raise{Note: answer.Note}
	if err := addAmount(&r, answer.Amount, answer.Request.Amounts); err != nil {
		return err
	}
	switch b := answer.Request.Budget; b.Scope {
	case session.BudgetOfPersona:
		r.Persona = b.Name
	case session.BudgetOfPhase:
		r.Phase = b.Name
	case session.BudgetOfDay:
		return a.raiseDay(ctx, b.Name, r)
	case session.BudgetOfSession:
	}
	return a.raiseBudget(ctx, sessionID, r)
}

// addAmount parses a typed amount: a number of tokens, also like 50k, or dollars with a $ before them. unit is the unit
// of a number without one.
func addAmount(r *control.Raise, text, unit string) error {
	invalid := usagef("%q is not an amount; use a number of tokens like 50000, or dollars like $1.50", textfmt.Shorten(text, 40))
	number, money := strings.CutPrefix(strings.ToLower(strings.ReplaceAll(strings.TrimSpace(text), ",", "")), "$")
	if money || unit == unitUSD {
		if err := r.USD.UnmarshalText([]byte(number)); err != nil || r.USD <= 0 {
			return invalid
		}
		return nil
	}
	factor := int64(1)
	for suffix, f := range map[string]int64{"k": 1_000, "m": 1_000_000} {
		if cut, ok := strings.CutSuffix(number, suffix); ok {
			number, factor = cut, f
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n <= 0 || n > 1e12 {
		return invalid
	}
	r.Tokens = n * factor
	return nil
}

// unitUSD is the unit of a budget in dollars only.
const unitUSD = "USD"

// units names the units of a budget.
func units(tokens, usd bool) string {
	switch {
	case tokens && usd:
		return "tokens or $USD"
	case usd:
		return unitUSD
	}
	return "tokens"
}

// addKeyActions adds to a request what its answers can do.
func addKeyActions(r *tui.Request, h session.Request) {
	r.ID, r.Of, r.Name = h.ID, spec.AssignmentID{Phase: h.Phase, Persona: h.Persona}, h.Subject()
	for _, action := range h.Actions {
		if h.Takes(action) {
			r.Takes = append(r.Takes, action)
		}
	}
	if h.Raise == nil {
		return
	}
	r.Takes, r.Budget = append(r.Takes, tui.Raise), *h.Raise
	r.Amounts = units(h.Raise.Tokens, h.Raise.USD)
}

// ownBudget returns the session's budget if a key can raise it: no budget request is open.
func ownBudget(v sessionstatus.Session) []tui.Request {
	asked := slices.ContainsFunc(v.Help, func(h session.Request) bool { return h.Kind == session.ForBudget })
	if v.Status.Status.Closed() || asked || v.Limit == (spec.Cap{}) {
		return nil
	}
	return []tui.Request{{
		Name: "the session's budget", Takes: []session.Action{tui.Raise}, Amounts: units(v.Limit.Tokens > 0, v.Limit.USD > 0),
	}}
}
