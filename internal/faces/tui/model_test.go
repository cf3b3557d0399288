package tui_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/faces/tui"
)

// shelf takes answers.
type shelf struct {
	// answers are those that were sent; said and refusal are what happens to them.
	answers []tui.Answer
	said    string
	refusal error
}

func (s *shelf) Answer(_ context.Context, a tui.Answer) (string, error) {
	s.answers = append(s.answers, a)
	return s.said, s.refusal
}

// viewer is a person before a model.
type viewer struct {
	t    *testing.T
	m    *tui.Model
	quit bool
}

func watch(t *testing.T, source tui.Source) *viewer {
	v := &viewer{t: t, m: tui.New(source, tui.Options{Now: func() time.Time { return now }, Keys: true})}
	v.gets(tea.WindowSizeMsg{Width: 80, Height: 24})
	return v
}

// gets has the model take a message, and those that follow from it.
func (v *viewer) gets(msg tea.Msg) {
	v.t.Helper()
	_, cmd := v.m.Update(msg)
	if cmd == nil {
		return
	}
	switch next := cmd().(type) {
	case tea.QuitMsg:
		v.quit = true
	case nil:
	default:
		v.gets(next)
	}
}

var keyCodes = map[string]rune{
	"up": tea.KeyUp, "down": tea.KeyDown, "enter": tea.KeyEnter, "esc": tea.KeyEscape,
	"end": tea.KeyEnd, "home": tea.KeyHome, "pgdown": tea.KeyPgDown, "tab": tea.KeyTab, "backspace": tea.KeyBackspace,
}

// types types keys, one after the other.
func (v *viewer) types(keys ...string) {
	v.t.Helper()
	for _, key := range keys {
		if code, special := keyCodes[key]; special {
			v.gets(tea.KeyPressMsg{Code: code})
			continue
		}
		v.gets(tea.KeyPressMsg{Code: rune(key[0]), Text: key})
	}
}

func (v *viewer) sees() string { return ansi.Strip(v.m.View().Content) }

// marked is the line with the mark.
func (v *viewer) marked() string {
	for line := range strings.Lines(v.sees()) {
		if strings.Contains(line, "▸") {
			return line
		}
	}
	return ""
}

func TestSelectionFollowsWhatHappensUntilAPersonSelects(t *testing.T) {
	t.Parallel()
	v := watch(t, &shelf{})
	s := working()
	v.gets(tui.Update{Session: s})
	require.Contains(t, v.marked(), "backend")
	s.Phases[1].Assignments[0].State = session.Completed
	v.gets(tui.Update{Session: s})
	require.Contains(t, v.marked(), "frontend", "the other one is still at work")
	s.Phases[2].Assignments[0].State = session.HelpIsNeeded
	v.gets(tui.Update{Session: s})
	require.Contains(t, v.marked(), "writer", "who needs help comes first")

	v.types("up", "k")
	require.Contains(t, v.marked(), "backend")
	v.gets(tui.Update{Session: s})
	require.Contains(t, v.marked(), "backend", "what a person has selected stays")
	v.types("home")
	require.Contains(t, v.marked(), "architect")
	v.types("up")
	require.Contains(t, v.marked(), "architect")
	v.types("end", "down")
	require.Contains(t, v.marked(), "operator")
}

func TestLostConnectionKeepsThePicture(t *testing.T) {
	t.Parallel()
	v := watch(t, &shelf{})
	v.gets(tui.Update{Session: working()})
	v.gets(tui.Lost{Why: "lost the connection"})
	require.Contains(t, v.sees(), "! lost the connection")
	require.Contains(t, v.sees(), "● backend")
	v.gets(tui.Update{Session: working()})
	require.NotContains(t, v.sees(), "lost the connection")
}

// asking is a session with three open requests.
func asking() tui.Session {
	s := working()
	request := func(id, phase, persona string, takes ...session.Action) tui.Request {
		return tui.Request{
			ID: id, Title: phase + " waits", Of: spec.AssignmentID{Phase: phase, Persona: persona},
			Name: strings.TrimSuffix(phase+"/"+persona, "/"), Takes: takes, Amounts: "tokens",
		}
	}
	s.Requests = []tui.Request{
		request("h1", "implementation", "frontend", session.AnswerRetry),
		request("h2", "implementation", "backend", session.AnswerRetry, tui.Raise),
		request("a1", "requirements", "", session.AnswerApprove, session.AnswerReject),
	}
	return s
}

func TestRequestsAreAnsweredByKeys(t *testing.T) {
	t.Parallel()
	source := &shelf{said: "session s goes on\n"}
	v := watch(t, source)
	v.gets(tui.Update{Session: asking()})
	require.Contains(t, v.sees(), "a approve  x reject  r retry  + raise")

	v.types("r")
	require.Contains(t, v.sees(), "retry implementation/backend (2 of 2, Tab: next)", "what is selected")
	v.types("tab", "p", "o", "r", "t", " ", "q", "backspace", "l")
	require.Contains(t, v.sees(), "retry implementation/frontend (1 of 2, Tab: next)")
	require.Contains(t, v.sees(), "note for the agent: port l▏")
	require.Empty(t, source.answers, "nothing is sent without Enter")
	v.types("enter")
	require.Len(t, source.answers, 1)
	require.Equal(t, []string{"h1", "retry", "port l"}, []string{
		source.answers[0].Request.ID, string(source.answers[0].Action),
		source.answers[0].Note,
	})
	require.Contains(t, v.sees(), "· session s goes on")
	v.types("j")
	require.NotContains(t, v.sees(), "goes on\n", "until the next key")

	v.types("a", "enter")
	require.Equal(t, "a1", source.answers[1].Request.ID)
	v.types("x", "enter")
	require.Len(t, source.answers, 2)
	require.Contains(t, v.sees(), "describe what is wrong")
	v.types("n", "o", "enter")
	require.Equal(t, session.AnswerReject, source.answers[2].Action)

	v.types("+", "enter")
	require.Contains(t, v.sees(), "type the amount to add")
	v.types("5", "0", "enter")
	require.Contains(t, v.sees(), "raise implementation/backend by 50")
	v.gets(tea.PasteMsg{Content: "a note\nof two lines"})
	v.types("enter")
	require.Equal(t, "50", source.answers[3].Amount)
	require.Equal(t, "a note of two lines", source.answers[3].Note)
}

func TestAnAnswerMayBeLeftOrRefused(t *testing.T) {
	t.Parallel()
	source := &shelf{refusal: errors.New("session s has no open request h1;\nsomebody was faster")}
	v := watch(t, source)
	v.types("r")
	require.Contains(t, v.sees(), "no request for a retry")
	v.gets(tui.Update{Session: asking()})
	v.types("r", "q", "esc")
	require.Empty(t, source.answers)
	require.False(t, v.quit, "the q was text")
	require.Contains(t, v.sees(), "nothing was sent")
	require.Contains(t, v.sees(), "q quit")
	v.gets(tea.WindowSizeMsg{Width: 40, Height: 24})
	v.types("r")
	v.gets(tui.Update{Session: asking()})
	require.Contains(t, v.sees(), "note for the agent: ▏")
	v.types("enter")
	require.Contains(t, v.sees(), "· not sent: session s has no open")
	require.Contains(t, v.sees(), "somebody was faster")
	for line := range strings.Lines(v.sees()) {
		require.LessOrEqual(t, len([]rune(strings.TrimRight(line, "\n"))), 40)
	}

	v.types("r")
	v.gets(tui.Ended{})
	require.False(t, v.quit, "what is being typed is not taken away")
	v.types("esc")
	require.True(t, v.quit)
}

func TestPhasesThatAreNotRunAreNotCounted(t *testing.T) {
	t.Parallel()
	s := working()
	for i := range s.Phases {
		s.Phases[i].Left = i > 1
	}
	v := watch(t, &shelf{})
	v.gets(tui.Update{Session: s})
	require.Contains(t, v.sees(), "1/2 phases")
	require.Contains(t, v.sees(), "not selected")
}

// hostile would retitle a terminal, clear it and ring its bell.
const hostile = "\x1b]0;owned\x07\x1b[2J\u009b2J\rtext"

// poison puts hostile text behind every text that a value holds, but for states,
// which say what is drawn.
func poison(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if v.Type() != reflect.TypeFor[session.State]() {
			v.SetString(v.String() + hostile)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			poison(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			poison(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				poison(v.Field(i))
			}
		}
	default:
	}
}

// mute is a source whose texts are empty: they are its own affair.
type mute struct{ shelf }

// Whoever can write into a store can write whatever into a session's status.
func TestNoTextOfASessionIsMoreThanSeen(t *testing.T) {
	t.Parallel()
	s := working()
	until := now.Add(time.Hour)
	s.Reason, s.Notes = "because", []string{"a note"}
	writer := &s.Phases[2].Assignments[0]
	writer.Agent, writer.Awaits = "other", &session.BreakerWait{Breaker: "claude", Until: &until, Why: "429"}
	poison(reflect.ValueOf(&s).Elem())
	asking := s
	asking.Requests = []tui.Request{{
		Title: "title", Until: until, Commands: []tui.Command{{Text: "command", Does: "does"}},
		Name: "build", Takes: []session.Action{session.AnswerRetry, tui.Raise}, Amounts: "tokens",
	}}
	poison(reflect.ValueOf(&asking.Requests).Elem())

	source := &mute{}
	harmless := func(what, text string) {
		require.NotContains(t, text, "\x1b", what)
		require.Equal(t, -1, strings.IndexFunc(text, func(r rune) bool { return r < ' ' && r != '\n' || r >= 0x7f && r < 0xa0 }),
			"%s: %q", what, text)
	}
	for _, size := range []tea.WindowSizeMsg{{Width: 40, Height: 24}, {Width: 80, Height: 24}, {Width: 300, Height: 60}} {
		for _, shown := range []tui.Session{s, asking} {
			v := watch(t, source)
			v.gets(size)
			v.gets(tui.Update{Session: shown})
			harmless("the picture", v.m.View().Content)
			harmless("the last picture", strings.Join(v.m.Final(), "\n"))
			v.gets(tui.Lost{Why: "lost" + hostile})
			harmless("the trouble", v.m.View().Content)
			for _, key := range []string{"down", "w", "r", "x", "esc", "+"} {
				v.types(key)
				harmless("after "+key, v.m.View().Content)
			}
		}
	}
}
