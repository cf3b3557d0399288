package tui_test

import (
	"context"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
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

func TestTheEnd(t *testing.T) {
	t.Parallel()
	v := watch(t, &shelf{})
	v.gets(tui.Update{Session: situations()["failed"].Session})
	v.gets(tui.Ended{})
	require.True(t, v.quit)
	require.False(t, v.m.Left())
	final := strings.Join(v.m.Final(), "\n")
	require.Contains(t, final, "✗ developer")
	require.NotContains(t, final, "maestro resume", "the closing words say that")
}
