package tui_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/faces/tui"
)

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
