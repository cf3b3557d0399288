package tui_test

import (
	"errors"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/faces/tui"
)

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
