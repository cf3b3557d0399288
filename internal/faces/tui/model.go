package tui

import (
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
)

// The messages that a [Model] takes from who watches the session.
type (
	// Update brings the session as it is now.
	Update struct{ Session Session }
	// Lost says why no updates come. The next Update ends it.
	Lost struct{ Why string }
	// Ended says that no more updates come. The program then ends, once the
	// person has sent or left an answer.
	Ended struct{}
)

// tick has the times redrawn.
type tick struct{}

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
	// entry is the line in which an answer is typed, nil: none is; messages have the result
	// of the last one, until the next key. inFlight counts the answers that are being sent.
	entry    *entry
	messages []string
	inFlight int
	ends     bool
	left     bool
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
		m.setSession(msg.Session)
	case Lost:
		m.trouble = msg.Why
	case Ended:
		m.ends = true
		if m.entry == nil && !m.sending() {
			return m, tea.Quit
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

// setSession sets the session's current state.
func (m *Model) setSession(s Session) {
	m.session, m.trouble = s, ""
	if !m.chosen || s.assignment(m.selected) == nil {
		m.selected, m.chosen = s.busiest(), false
	}
}

// key handles a key press.
func (m *Model) key(key string) tea.Cmd {
	m.messages = nil
	switch key {
	case "q", "esc", "ctrl+c":
		return m.leave()
	case "ctrl+z":
		return tea.Suspend
	case "up", "k":
		m.move(-1)
	case "down", "j":
		m.move(1)
	case "home", "g":
		m.move(-len(m.session.assignments()))
	case "end", "G":
		m.move(len(m.session.assignments()))
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

// closed ends the program if it was kept only by an answer.
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

// View draws what is to be seen.
func (m *Model) View() tea.View {
	t := theme{terminal.Palette{On: m.options.Colours}}
	v := tea.View{AltScreen: true}
	v.SetContent(strings.Join(Picture{
		Session: m.session, Width: m.width, Height: m.height, Now: m.options.Now(), Colours: m.options.Colours,
		Selected: m.selected, Trouble: m.trouble, Prompt: m.prompt(t), Footer: m.footer(),
	}.Lines(), "\n"))
	return v
}
