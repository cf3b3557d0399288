package tui

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/maestro-hive/maestro/internal/safetext"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

// The messages that a [Model] takes from who watches the session.
type (
	// Update brings the session as it is now.
	Update struct{ Session Session }
	// Lost says why no updates come. The next Update ends it.
	Lost struct{ Why string }
	// Ended says that no more updates come. The program then ends, once the
	// person has left what is open over the picture.
	Ended struct{}
)

// tick has the times redrawn.
type tick struct{}

// loaded is what a pane waited for.
type loaded struct {
	of   *pane
	text string
	err  error
}

// listed are the artifacts that a list waited for.
type listed struct {
	of  *list
	all []Artifact
	err error
}

// Options are what a [Model] works with.
type Options struct {
	// Now tells the time.
	Now func() time.Time
	// Colours switches colours on.
	Colours bool
	// Keys: a person can type.
	Keys bool
}

// Model is the live drawing of a session as a Bubble Tea model.
type Model struct {
	options       Options
	source        Source
	session       Session
	width, height int
	// selected is the person's selection; until there is one, the selection follows the events.
	selected spec.AssignmentID
	chosen   bool
	trouble  string
	// footnote is shown instead of the keys until the next key.
	footnote string
	// entry is the line in which an answer is typed, nil: none is; messages have the result
	// of the last one, until the next key. inFlight counts the answers that are being sent.
	entry    *entry
	messages []string
	inFlight int
	// pane, list and over it the list's pane are open over the picture; nil: not.
	pane *pane
	list *list
	// logs is the assignment whose logs the pane shows.
	logs spec.AssignmentID
	// seen is the state of the assignment that the pane's logs are from.
	seen string
	ends bool
	left bool
}

// New is a drawing of nothing yet. Nothing is asked of source before a key is typed.
func New(source Source, options Options) *Model {
	return &Model{options: options, source: source, width: 80, height: 24}
}

// Left reports whether the person has quit before the session had ended.
func (m *Model) Left() bool { return m.left }

// Final is the last drawing in its full height, which remains on the screen. It leaves out the next
// steps of a session that has ended or waits, which are printed below it.
func (m *Model) Final() []string {
	s := m.session
	if m.ends || len(s.Requests) > 0 && s.State != session.Running {
		s.Requests, s.Reason = nil, ""
	}
	return Picture{Session: s, Width: m.width, Now: m.options.Now(), Colours: m.options.Colours, Trouble: m.trouble}.Lines()
}

// Init begins to redraw the times.
func (m *Model) Init() tea.Cmd { return again() }

func again() tea.Cmd { return tea.Tick(time.Second, func(time.Time) tea.Msg { return tick{} }) }

// Update takes a message. It changes the model in place.
func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		if msg.Width > 0 && msg.Height > 0 { // a terminal that does not know says zero
			m.width, m.height = msg.Width, msg.Height
		}
	case tick:
		return m, again()
	case Update:
		return m, m.setSession(msg.Session)
	case Lost:
		m.trouble = msg.Why
	case Ended:
		m.ends = true
		if m.pane == nil && m.list == nil && m.entry == nil && !m.sending() {
			return m, tea.Quit
		}
	case loaded:
		m.load(msg)
	case listed:
		if msg.of == m.list {
			m.list.set(msg.all, msg.err)
		}
	case answered:
		return m, m.takeAnswered(msg)
	case tea.PasteMsg:
		if m.entry != nil {
			m.typed(msg.Content)
		}
	case tea.KeyPressMsg:
		if m.entry != nil {
			return m, m.entryKey(msg)
		}
		return m, m.key(msg.String())
	}
	return m, nil
}

// setSession sets the session's current state, and reads open logs again if
// an attempt has ended since.
func (m *Model) setSession(s Session) tea.Cmd {
	m.session, m.trouble = s, ""
	if !m.chosen || s.assignment(m.selected) == nil {
		m.selected, m.chosen = s.busiest(), false
	}
	if m.pane == nil || m.logs == (spec.AssignmentID{}) {
		return nil
	}
	m.pane.setLive(m.live(), m.height)
	if seen := m.stage(); seen != m.seen {
		m.seen = seen
		return m.readLogs()
	}
	return nil
}

// stage names how far the assignment is whose logs are open.
func (m *Model) stage() string {
	a := m.session.assignment(m.logs)
	if a == nil {
		return ""
	}
	return fmt.Sprint(a.State, a.Round, a.Attempt, len(a.Failures))
}

// live is what the assignment whose logs are open is doing.
func (m *Model) live() string {
	a := m.session.assignment(m.logs)
	if a == nil || a.State.Done() {
		return ""
	}
	t := theme{m.options.Colours}
	now := "now"
	if a.Attempt > 0 {
		now = fmt.Sprintf("running: round %d, attempt %d", a.Round, a.Attempt)
	}
	if a.Live != "" {
		return t.paint(active, now) + "\n" + safetext.Block(a.Live)
	}
	return t.paint(active, now+": "+cmp.Or(safe(a.Progress), lookOf(a.State).word))
}

func (m *Model) load(msg loaded) {
	text := msg.text
	if msg.err != nil {
		text = "cannot be read: " + safe(msg.err.Error())
	}
	target := m.pane
	if m.list != nil && m.list.open != nil {
		target = m.list.open
	}
	if target != nil && msg.of == target {
		target.resize(m.width)
		target.set(text, m.height)
	}
}

// key handles a key press on the open page.
func (m *Model) key(key string) tea.Cmd {
	m.footnote, m.messages = "", nil
	switch {
	case key == "ctrl+c":
		return m.leave()
	case key == "ctrl+z":
		return tea.Suspend
	case m.pane != nil:
		if closes(key) {
			m.pane = nil
			return m.closed()
		}
		scroll(m.pane, key, m.height)
		return nil
	case m.list != nil:
		return m.listKey(key)
	}
	switch key {
	case "q", "esc":
		return m.leave()
	case "up", "k":
		m.move(-1)
	case "down", "j":
		m.move(1)
	case "home", "g":
		m.move(-len(m.session.assignments()))
	case "end", "G":
		m.move(len(m.session.assignments()))
	case "l", "enter":
		return m.openLogs()
	case "f":
		m.list = &list{}
		return m.readArtifacts(m.list)
	case "w":
		return m.address()
	case "?", "h":
		m.pane, m.logs = &pane{title: "Keys and symbols", loading: true}, spec.AssignmentID{}
		m.pane.resize(m.width)
		m.pane.lay = explained
		m.pane.set(helpText, m.height)
	default:
		m.beginAnswer(key)
	}
	return nil
}

// leave ends the program. If the session has ended already, it does not count as quitting.
func (m *Model) leave() tea.Cmd {
	m.left = !m.ends
	return tea.Quit
}

// closed ends the program if it was kept only by something open over the drawing.
func (m *Model) closed() tea.Cmd {
	if m.ends {
		return tea.Quit
	}
	return nil
}

// move selects another assignment.
func (m *Model) move(by int) {
	all := m.session.assignments()
	if len(all) == 0 {
		return
	}
	i := slices.Index(all, m.selected) + by
	m.selected, m.chosen = all[min(max(i, 0), len(all)-1)], true
}

func (m *Model) openLogs() tea.Cmd {
	if m.session.assignment(m.selected) == nil {
		return nil
	}
	m.logs, m.chosen = m.selected, true
	m.pane = &pane{title: "Logs of " + safe(m.logs.String()), loading: true, live: m.live(), follows: m.live() != ""}
	m.pane.resize(m.width)
	m.seen = m.stage()
	return m.readLogs()
}

func (m *Model) readLogs() tea.Cmd {
	of, id := m.pane, m.logs
	return func() tea.Msg {
		text, err := m.source.Logs(context.Background(), id)
		return loaded{of, text, err}
	}
}

func (m *Model) readArtifacts(of *list) tea.Cmd {
	return func() tea.Msg {
		all, err := m.source.Artifacts(context.Background())
		return listed{of, all, err}
	}
}

func (m *Model) readContent(of *pane, path string) tea.Cmd {
	return func() tea.Msg {
		text, err := m.source.Content(context.Background(), path)
		return loaded{of, text, err}
	}
}

// address shows the address of the session's page, and copies it to the clipboard of a terminal
// that supports this.
func (m *Model) address() tea.Cmd {
	if m.session.WebUI == "" {
		m.footnote = "the Web UI's address is unknown; set web_ui in the worker file"
		return nil
	}
	if m.footnote = safe(m.session.WebUI); len(m.footnote) > m.width-2 {
		m.pane, m.logs = &pane{title: "Address of the session's page"}, spec.AssignmentID{}
		m.pane.resize(m.width)
		m.pane.set(m.footnote, m.height)
	}
	return tea.SetClipboard(m.session.WebUI)
}

// View draws what is to be seen.
func (m *Model) View() tea.View {
	t := theme{m.options.Colours}
	v := tea.View{AltScreen: true}
	var lines []string
	switch {
	case m.pane != nil:
		m.pane.resize(m.width)
		lines = m.pane.draw(t, m.width, m.height, m.paneFooter())
	case m.list != nil:
		lines = m.list.draw(t, m.width, m.height, m.listFooter())
	default:
		lines = Picture{
			Session: m.session, Width: m.width, Height: m.height, Now: m.options.Now(), Colours: m.options.Colours,
			Selected: m.selected, Trouble: m.trouble, Prompt: m.prompt(t), Footer: m.footer(),
		}.Lines()
	}
	v.SetContent(join(lines))
	return v
}
