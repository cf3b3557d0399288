package tui_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/tui"
)

// shelf is a source of what a session has made.
type shelf struct {
	logs      func(id spec.AssignmentID) (string, error)
	artifacts []tui.Artifact
	// answers are those that were sent; said and refusal are what happens to them.
	answers []tui.Answer
	said    string
	refusal error
}

func (s *shelf) Logs(_ context.Context, id spec.AssignmentID) (string, error) { return s.logs(id) }

func (s *shelf) Answer(_ context.Context, a tui.Answer) (string, error) {
	s.answers = append(s.answers, a)
	return s.said, s.refusal
}

func (s *shelf) Artifacts(context.Context) ([]tui.Artifact, error) { return s.artifacts, nil }

func (s *shelf) Content(_ context.Context, path string) (string, error) {
	return "+all of " + path + "\n", nil
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

var keyCodes = map[string]rune{"up": tea.KeyUp, "down": tea.KeyDown, "enter": tea.KeyEnter, "esc": tea.KeyEscape, "end": tea.KeyEnd, "home": tea.KeyHome, "pgdown": tea.KeyPgDown, "tab": tea.KeyTab, "backspace": tea.KeyBackspace}

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

func TestLogsScrollAndFollowTheAssignment(t *testing.T) {
	t.Parallel()
	attempts := 1
	source := &shelf{logs: func(id spec.AssignmentID) (string, error) {
		var b strings.Builder
		for i := range attempts * 40 {
			fmt.Fprintf(&b, "%s printed line %d\n", id, i)
		}
		return b.String(), nil
	}}
	v := watch(t, source)
	s := working()
	v.gets(tui.Update{Session: s})
	v.types("l")
	require.Contains(t, v.sees(), "Logs of implementation/backend")
	require.NotContains(t, v.sees(), "printed line 0\n", "who is at work is seen at the end")
	require.Contains(t, v.sees(), "printed line 39\n")
	require.Contains(t, v.sees(), "running: round 1, attempt 1: go test ./store")

	attempts = 2
	s.Phases[1].Assignments[0].Attempt = 2
	v.gets(tui.Update{Session: s})
	require.Contains(t, v.sees(), "printed line 79\n", "who is at the end stays there")
	require.Contains(t, v.sees(), "running: round 1, attempt 2")
	v.types("home", "pgdown")
	require.Contains(t, v.sees(), "printed line 21\n")
	v.gets(tui.Update{Session: s})
	require.Contains(t, v.sees(), "printed line 21\n", "who has scrolled up stays there")
	v.types("end", "esc")
	require.Contains(t, v.sees(), "1/5 phases")
	require.False(t, v.quit)

	s.Phases[1].Assignments[0].State = session.Completed
	v.gets(tui.Update{Session: s})
	v.types("up", "down", "l")
	require.Contains(t, v.sees(), "printed line 0\n", "what has ended is read from its beginning")
}

func TestWhatCannotBeReadIsSaid(t *testing.T) {
	t.Parallel()
	v := watch(t, &shelf{logs: func(spec.AssignmentID) (string, error) { return "", errors.New("the store\x1b[2J is gone") }})
	v.gets(tui.Update{Session: working()})
	v.types("l")
	require.Contains(t, v.sees(), "cannot be read: the store is gone")
}

func TestArtifactsAreListedAndShown(t *testing.T) {
	t.Parallel()
	source := &shelf{}
	for i := range 60 {
		source.artifacts = append(source.artifacts, tui.Artifact{Path: fmt.Sprintf("docs/%02d.md", i), Size: 2048, By: spec.AssignmentID{Phase: "design", Persona: "architect"}})
	}
	v := watch(t, source)
	v.gets(tui.Update{Session: working()})
	v.types("f")
	require.Contains(t, v.sees(), "Artifacts: 60 files")
	require.Contains(t, v.marked(), "docs/00.md")
	require.Contains(t, v.marked(), "2.0 K")
	require.Contains(t, v.marked(), "design/architect")
	v.types("end")
	require.Contains(t, v.marked(), "docs/59.md")
	v.types("enter")
	require.Contains(t, v.sees(), "+all of docs/59.md")
	v.types("esc")
	require.Contains(t, v.marked(), "docs/59.md")
	v.types("esc")
	require.Contains(t, v.sees(), "1/5 phases")

	source.artifacts = nil
	v.types("f")
	require.Contains(t, v.sees(), "no phase has created a file yet")
}

func TestWebUIAddress(t *testing.T) {
	t.Parallel()
	v := watch(t, &shelf{})
	s := working()
	v.gets(tui.Update{Session: s})
	_, copies := v.m.Update(tea.KeyPressMsg{Code: 'w', Text: "w"})
	require.NotNil(t, copies, "it goes into the clipboard")
	require.Contains(t, v.sees(), s.WebUI)
	v.types("up")
	require.NotContains(t, v.sees(), s.WebUI)

	v.gets(tea.WindowSizeMsg{Width: 40, Height: 20})
	v.types("w")
	require.Contains(t, strings.ReplaceAll(v.sees(), "\n ", ""), s.WebUI, "it is whole where it needs more lines")
	v.types("esc")

	s.WebUI = ""
	v.gets(tea.WindowSizeMsg{Width: 80, Height: 20})
	v.gets(tui.Update{Session: s})
	v.types("w")
	require.Contains(t, v.sees(), "web_ui in the worker file")
}

func TestItResizes(t *testing.T) {
	t.Parallel()
	v := watch(t, &shelf{})
	v.gets(tui.Update{Session: working()})
	for _, size := range [][2]int{{200, 50}, {40, 12}, {1, 1}, {80, 24}} {
		v.gets(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
		lines := strings.Split(v.sees(), "\n")
		require.LessOrEqual(t, len(lines), size[1])
		for _, line := range lines {
			require.LessOrEqual(t, lipgloss.Width(line), size[0])
		}
	}
	before := v.sees()
	v.gets(tea.WindowSizeMsg{})
	require.Equal(t, before, v.sees(), "a terminal that does not know its size changes nothing")
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

func TestHelpIsShown(t *testing.T) {
	t.Parallel()
	v := watch(t, &shelf{})
	v.types("?")
	require.Contains(t, v.sees(), "quit; the session continues")
	require.Contains(t, v.sees(), "\n "+"l, enter          the logs of the selected assignment: output of finished\n                   attempts and current activity\n")
	v.gets(tea.WindowSizeMsg{Width: 60, Height: 40})
	require.Contains(t, v.sees(), "\n "+"l, enter          the logs of the selected assignment:\n                   output of finished attempts and current\n")
	v.types("q")
	require.False(t, v.quit, "q closes what is open first")
}

func TestLeaving(t *testing.T) {
	t.Parallel()
	for _, key := range []tea.KeyPressMsg{{Code: 'q', Text: "q"}, {Code: 'c', Mod: tea.ModCtrl}} {
		v := watch(t, &shelf{})
		v.gets(tui.Update{Session: working()})
		v.gets(key)
		require.True(t, v.quit)
		require.True(t, v.m.Left())
		require.Contains(t, strings.Join(v.m.Final(), "\n"), "backend", "the picture stays")
	}
}

// A session that ends takes nothing away from a person who reads.
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

	reading := watch(t, &shelf{})
	reading.gets(tui.Update{Session: working()})
	reading.types("?")
	reading.gets(tui.Ended{})
	require.False(t, reading.quit)
	require.Contains(t, reading.sees(), "the session has ended; esc quits")
	reading.types("esc")
	require.True(t, reading.quit)
	require.False(t, reading.m.Left())
}

func TestWithoutKeysNoneAreNamed(t *testing.T) {
	t.Parallel()
	m := tui.New(&shelf{}, tui.Options{Now: func() time.Time { return now }})
	m.Update(tui.Update{Session: working()})
	require.Contains(t, m.View().Content, "Ctrl-C quits; the session continues")
	require.NotContains(t, m.View().Content, "? help")
}
