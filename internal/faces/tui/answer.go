package tui

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"

	tea "charm.land/bubbletea/v2"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// Raise is the action of the live view that raises a budget. The others are those of requests.
const Raise session.Action = "raise"

// actionKey is a key and the action that it begins.
type actionKey struct {
	key    string
	action session.Action
}

// actionKeys lists the actions that have a key, in the order in which they are shown.
func actionKeys() []actionKey {
	var all []actionKey
	for _, rule := range session.ActionRules() {
		if rule.Key != "" {
			all = append(all, actionKey{rule.Key, rule.Action})
		}
	}
	return append(all, actionKey{"+", Raise})
}

// Answer is what a person has typed about a request.
type Answer struct {
	// Request is the one that is answered, as the session has it.
	Request Request
	Action  session.Action
	// Amount is what a budget is raised by, as it was typed; empty for other actions.
	Amount string
	// Note is why, as it was typed.
	Note string
}

// answered is the result of an answer.
type answered struct {
	text string
	err  error
}

// entry is the line in which a person types an answer.
type entry struct {
	action session.Action
	// open are the requests that take the action, and at is the one that is answered.
	open []Request
	at   int
	// amount was typed already, where the action needs one; text is being typed.
	amount     string
	wantAmount bool
	text       []rune
}

// takers are the open requests that take an action.
func (s Session) takers(a session.Action) []Request {
	var all []Request
	for _, r := range slices.Concat(s.Requests, s.Budgets) {
		if slices.Contains(r.Takes, a) {
			all = append(all, r)
		}
	}
	return all
}

// answerKeys lists the keys that answer something, in words.
func (m *Model) answerKeys() []string {
	var all []string
	for _, k := range actionKeys() {
		if len(m.session.takers(k.action)) > 0 {
			all = append(all, k.key+" "+string(k.action))
		}
	}
	return all
}

// beginAnswer opens the line for an action; false: no request takes it, or no key stands
// for one. The request of what is selected comes first.
func (m *Model) beginAnswer(key string) bool {
	keys := actionKeys()
	i := slices.IndexFunc(keys, func(k actionKey) bool { return k.key == key })
	if i < 0 {
		return false
	}
	action := keys[i].action
	open := m.session.takers(action)
	if len(open) == 0 {
		m.messages = []string{"no request for " + requestFor(action)}
		return true
	}
	m.entry = &entry{action: action, open: open, wantAmount: action == Raise}
	for _, match := range []func(spec.AssignmentID) bool{
		func(of spec.AssignmentID) bool { return of == m.selected },
		func(of spec.AssignmentID) bool { return of.Phase == m.selected.Phase },
	} {
		if at := slices.IndexFunc(open, func(r Request) bool { return match(r.Of) }); at >= 0 {
			m.entry.at = at
			break
		}
	}
	return true
}

// requestFor is what a request is for that takes an action.
func requestFor(a session.Action) string {
	return map[session.Action]string{
		session.AnswerApprove: "an approval", session.AnswerReject: "an approval", session.AnswerRetry: "a retry",
		Raise: "a larger budget",
	}[a]
}

// entryKey types into the line.
func (m *Model) entryKey(msg tea.KeyPressMsg) tea.Cmd {
	e := m.entry
	switch key := msg.String(); key {
	case "ctrl+c":
		return m.leave()
	case "esc":
		m.entry, m.messages = nil, []string{"nothing was sent"}
		return m.closed()
	case "tab", "down":
		e.at = (e.at + 1) % len(e.open)
	case "shift+tab", "up":
		e.at = (e.at + len(e.open) - 1) % len(e.open)
	case "enter":
		return m.enter()
	case "backspace":
		e.text = e.text[:max(len(e.text)-1, 0)]
	case "ctrl+u":
		e.text = nil
	case "ctrl+w":
		text := strings.TrimRight(string(e.text), " ")
		e.text = []rune(text[:strings.LastIndex(text, " ")+1])
	default:
		m.typed(msg.Text)
	}
	return nil
}

// typed adds text to the line; what is no text of one line is left out.
func (m *Model) typed(text string) {
	for _, r := range strings.ReplaceAll(text, "\n", " ") {
		if unicode.IsPrint(r) {
			m.entry.text = append(m.entry.text, r)
		}
	}
}

// enter continues from the amount to the note, and from the note to the session.
func (m *Model) enter() tea.Cmd {
	e := m.entry
	text := strings.TrimSpace(string(e.text))
	switch {
	case e.wantAmount && e.amount == "" && text == "":
		m.messages = []string{"type the amount to add, or press Esc"}
		return nil
	case e.wantAmount && e.amount == "":
		e.amount, e.text, m.messages = text, nil, nil
		return nil
	case e.action.LacksNote(text):
		m.messages = []string{"describe what is wrong: the personas get this text"}
		return nil
	}
	a := Answer{Request: e.open[e.at], Action: e.action, Amount: e.amount, Note: text}
	m.entry, m.messages = nil, []string{"sending: " + string(a.Action) + " " + a.Request.Name}
	m.inFlight++
	return func() tea.Msg {
		text, err := m.source.Answer(context.Background(), a)
		return answered{text, err}
	}
}

// takeAnswered shows the result of an answer.
func (m *Model) takeAnswered(msg answered) tea.Cmd {
	m.messages, m.inFlight = nil, m.inFlight-1
	text := msg.text
	if msg.err != nil {
		text = "not sent: " + msg.err.Error()
	}
	for line := range strings.Lines(text) {
		if line = safe(line); line != "" {
			m.messages = append(m.messages, line)
		}
	}
	return m.closed()
}

// sending reports whether an answer is being sent.
func (m *Model) sending() bool { return m.inFlight > 0 }

// maxMessages is how many lines the result of an answer may have.
const maxMessages = 5

// prompt draws the line, or the result of the last answer.
func (m *Model) prompt(t theme) []string {
	e := m.entry
	var lines []string
	for _, text := range m.messages {
		for _, line := range fold(text, m.width-4) {
			lines = append(lines, " "+t.Paint(strong, "· "+line))
		}
	}
	lines = lines[:min(len(lines), maxMessages)]
	if e == nil {
		return lines
	}
	title := string(e.action) + " " + safe(e.open[e.at].Name)
	if len(e.open) > 1 {
		title += fmt.Sprintf(" (%d of %d, Tab: next)", e.at+1, len(e.open))
	}
	label := cmp.Or(e.action.Rule().Note, "note (optional)") + ": "
	switch {
	case e.wantAmount && e.amount == "":
		label = "add " + safe(e.open[e.at].Amounts) + ": "
	case e.wantAmount:
		title += " by " + e.amount
	}
	room := max(m.width-4-len(label), 8)
	text := e.text[max(len(e.text)-room, 0):]
	return append(lines, " "+t.Paint(active, clip(title, m.width-2)), " "+t.Paint(faint, label)+string(text)+"▏")
}
