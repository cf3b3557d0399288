package service_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/models/agent"
	"github.com/maestro-hive/maestro/internal/models/wire"
	"github.com/maestro-hive/maestro/internal/testkit/providertest"
	"github.com/maestro-hive/maestro/workflows"
)

// replies is a model that writes one file and then finishes, as told by what its
// first message says.
func replies(write func(told string) (path, text string), finish func(told string) any) providertest.Script {
	return func(r providertest.Request) providertest.Reply {
		usage := cost.Usage{InputTokens: 100, OutputTokens: 10}
		told := r.Messages[0].Text
		path, text := write(told)
		if path != "" && r.Turn() == 1 {
			return providertest.Reply{Usage: usage, Calls: []providertest.Call{
				providertest.Tool("write", map[string]string{"path": path, "content": text + "\n"}),
			}}
		}
		return providertest.Reply{Usage: usage, Calls: []providertest.Call{providertest.Tool("finish", finish(told))}}
	}
}

func done(string) any { return map[string]string{"summary": "done"} }

// twoModels are agents a and b, each with a provider of its own.
func twoModels(format wire.API, a, b string) agent.Config {
	other := model()
	other.Provider = "q"
	providers := served(format, a)
	providers["q"] = agent.Provider{Format: format, BaseURL: b}
	return agent.Config{Agents: map[string]agent.Definition{"a": model(), "b": other}, Providers: providers}
}

// TestResetSessionPaysForNoReworkAgain resets a session in which work was sent back.
func TestResetSessionPaysForNoReworkAgain(t *testing.T) {
	t.Parallel()
	for format, path := range map[wire.API]string{wire.Anthropic: "", wire.OpenAI: "/v1"} {
		t.Run(string(format), func(t *testing.T) {
			t.Parallel()
			developer, tester := sender(nil)
			asked, looked := providertest.New(t, developer), providertest.New(t, tester)
			s := newStand(t, twoModels(format, asked.URL()+path, looked.URL()+path))
			tm := sendsBack()
			result, err := s.run("s", tm)
			require.NoError(t, err)
			calls := fmt.Sprint(asked.Count(), looked.Count())
			require.Equal(t, "4 3", calls)
			require.Equal(t, int64(770), result.Usage.Tokens())
			tree := map[string]string{"a.txt": "bad\n", "b.txt": "good\n", "report.txt": "fine\n"}
			require.Equal(t, tree, s.tree("s"), "the second pass goes on from the first")

			run := s.reset("s")
			require.NoError(t, s.client.GetWorkflow(t.Context(), "s", run).Get(t.Context(), &result))
			require.Equal(t, calls, fmt.Sprint(asked.Count(), looked.Count()), "no call is made again")
			require.Equal(t, int64(770), result.Usage.Tokens(), "and none is counted again")
			require.Equal(t, tree, s.tree("s"))
		})
	}
}

// sendsBack is a team whose second phase may send the work of the first back once.
func sendsBack() spec.Team {
	return short(
		spec.Phase{Name: "one", Personas: []string{"dev"}},
		spec.Phase{Name: "two", Personas: []string{"other"}, Produces: []string{"report.txt"}, SendsBack: &spec.SendsBack{To: "one"}},
	)
}

// sender is a developer whose first work a tester sends back. before hears of every
// call of the developer while it does the work again; nil: nobody does.
func sender(before func(turn int)) (developer, tester providertest.Script) {
	rejected := func(told string) bool {
		return strings.Contains(told, "two/other sent the work back (1 of 1)") && strings.Contains(told, "- a.txt is not good")
	}
	works := replies(func(told string) (path, text string) {
		if rejected(told) {
			return "b.txt", "good"
		}
		return "a.txt", "bad"
	}, done)
	developer = func(r providertest.Request) providertest.Reply {
		if before != nil && rejected(r.Messages[0].Text) {
			before(r.Turn())
		}
		return works(r)
	}
	tester = replies(func(told string) (path, text string) {
		if strings.Contains(told, "b.txt") {
			return "report.txt", "fine"
		}
		return "", ""
	}, func(told string) any {
		if strings.Contains(told, "b.txt") {
			return map[string]string{"summary": "done"}
		}
		return map[string]any{"summary": "no", "sends_back": []string{"a.txt is not good"}}
	})
	return developer, tester
}

// TestResumeGoesOnInTheMiddleOfARework cancels a session while work is done again
// that was sent back, and resumes it.
func TestResumeGoesOnInTheMiddleOfARework(t *testing.T) {
	t.Parallel()
	arrived, stuck := make(chan struct{}), make(chan struct{})
	var held atomic.Bool
	developer, tester := sender(func(turn int) {
		if turn == 2 && held.CompareAndSwap(false, true) { // the first one is never answered
			close(arrived)
			<-stuck
		}
	})
	asked, looked := providertest.New(t, developer), providertest.New(t, tester)
	t.Cleanup(func() { close(stuck) })
	s := newStand(t, twoModels(wire.Anthropic, asked.URL(), looked.URL()))
	run := s.start("s", sendsBack())
	<-arrived
	require.NoError(t, s.client.CancelWorkflow(t.Context(), "s", ""))
	require.ErrorContains(t, run.Get(t.Context(), nil), "canceled")
	require.Equal(t, 4, asked.Count())

	_, err := s.run("s", sendsBack(), func(in *workflows.SessionInput) { in.Base, in.Run = s.execution("s").Checkpoint, 2 })
	require.NoError(t, err)
	require.Equal(t, 5, asked.Count(), "only the call that nobody has answered is made")
	require.Equal(t, 3, looked.Count())
	require.Equal(t, map[string]string{"a.txt": "bad\n", "b.txt": "good\n", "report.txt": "fine\n"}, s.tree("s"))
}

// TestWorkThatWasSentBackIsNotRestored aborts a session whose tester has sent work
// back once too often: resumed, it has nothing finished of the tester's.
func TestWorkThatWasSentBackIsNotRestored(t *testing.T) {
	t.Parallel()
	s := newStand(t, agent.Config{Agents: map[string]agent.Definition{
		"a": shell("cat > brief.json; if grep -q 'make it good' brief.json; then echo good > work.txt; else echo more >> work.txt; fi; rm brief.json"),
		"b": picky(),
	}})
	run := s.start("s", sendsBack())
	_, err := s.answer("s", session.Answer{Request: s.asks("s").ID, Action: session.AnswerAbort, By: "ada"})
	require.NoError(t, err)
	require.ErrorContains(t, run.Get(t.Context(), nil), "aborted by ada")

	answered := make(chan error, 1)
	go func() {
		for { // the session is still the old one for a while
			e, err := s.store.State.Execution(t.Context(), s.key("s"))
			if err == nil && e.Run == 2 && len(e.Help) == 1 {
				_, err = s.answer("s", session.Answer{Request: e.Help[0].ID, Action: session.AnswerRetry, Note: "make it good", By: "ada"})
				answered <- err
				return
			}
			select {
			case <-t.Context().Done():
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	_, err = s.run("s", sendsBack(), func(in *workflows.SessionInput) { in.Base, in.Run = s.execution("s").Checkpoint, 2 })
	require.NoError(t, err)
	select {
	case err := <-answered:
		require.NoError(t, err, "it asks again")
	case <-time.After(time.Minute):
		t.Fatal("it did not ask again")
	}
	require.Equal(t, map[string]string{"work.txt": "good\n", "report.txt": "tested\n"}, s.tree("s"))
}
