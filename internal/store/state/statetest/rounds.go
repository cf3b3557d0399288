package statetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// work is what a session does with its assignment dev, in one Temporal run after the other.
type work struct {
	*bench
	t       *testing.T
	run     string
	ordered int
	because session.Because
	forced  bool
	seq     int
	opened  state.OpenedRound
}

func newWork(t *testing.T, b *bench) *work {
	w := &work{bench: b, t: t, run: "r1"}
	b.admit(t, "s", w.run)
	return w
}

func (w *work) order() state.RoundOrder {
	return state.RoundOrder{
		Assignment: dev("s"), TemporalRun: w.run, Ordered: w.ordered, Because: w.because, Forced: w.forced, Round: 1,
		Activity: fmt.Sprint(w.run, w.seq), Seq: w.seq, Holder: fmt.Sprint(w.run, w.seq),
	}
}

// begin opens the first round of the current order.
func (w *work) begin() session.Order {
	w.t.Helper()
	w.seq++
	var err error
	w.opened, err = w.OpenRound(w.t.Context(), w.order())
	require.NoError(w.t, err)
	return w.opened.Order
}

func (w *work) put(change func(*session.RoundRecord)) {
	w.t.Helper()
	r := session.RoundRecord{Order: w.opened.Order, Round: 1, Activity: fmt.Sprint(w.run, w.seq), Seq: w.seq}
	change(&r)
	require.NoError(w.t, w.PutRound(w.t.Context(), w.opened.Fence, dev("s"), r, nil))
}

// fails ends the round with a failure of a category; last: no other round follows.
func (w *work) fails(c failures.Category, last bool) {
	w.t.Helper()
	w.begin()
	w.put(func(r *session.RoundRecord) {
		r.Attempts = []session.AttemptReport{{Attempt: 1, Failure: failures.Failure{Category: c}}}
		r.GaveUp, r.Last = true, last
	})
}

func (w *work) succeeds() {
	w.t.Helper()
	w.begin()
	w.put(func(r *session.RoundRecord) { r.Result = &session.RoundResult{} })
}

func (w *work) again(why session.Because) { w.ordered, w.because = w.ordered+1, why }

// resume begins the next run as its admission does.
func (w *work) resume(run string) {
	w.t.Helper()
	w.admit(w.t, "s", run)
	w.reset(run)
}

// reset begins the next run without an admission.
func (w *work) reset(run string) { w.run, w.ordered, w.because, w.seq = run, 0, "", 0 }

func (w *work) continues(run string) {
	w.t.Helper()
	_, err := w.Admit(w.t.Context(), state.Admission{
		Key: sessionOf("s"), TemporalRun: run, OriginalRun: run, Team: team,
		Continues: true,
	})
	require.NoError(w.t, err)
	w.run = run
}

func (w *work) boundary(at time.Time, undone ...string) (late bool) {
	w.t.Helper()
	_, late, err := w.PutBoundary(w.t.Context(), state.Boundary{
		Key: sessionOf("s"), TemporalRun: w.run, FirstRun: w.run, At: at, Undone: undone,
		Status: session.Status{Team: team, Status: session.Running, Phases: []session.PhaseStatus{
			{Name: "build", Status: session.Running}, {Name: "plan", Status: session.Running},
		}},
	})
	require.NoError(w.t, err)
	return late
}

// happens is what may happen to an assignment's work before an order.
var happens = map[string]func(*work){
	"begins":          func(w *work) { w.begin() },
	"succeeds":        (*work).succeeds,
	"fails":           func(w *work) { w.fails(failures.TestFailure, true) },
	"round fails":     func(w *work) { w.fails(failures.TestFailure, false) },
	"provider fails":  func(w *work) { w.fails(failures.Auth, true) },
	"retried":         func(w *work) { w.again(session.BecauseRetried) },
	"sent back":       func(w *work) { w.again(session.BecauseSentBack) },
	"phase sent back": func(w *work) { w.boundary(w.clock.Now(), "build") },
	"forced":          func(w *work) { w.forced = true },
	"continues":       func(w *work) { w.continues(w.run + "+") },
	"resumed":         func(w *work) { w.resume(w.run + "+") },
	"reset":           func(w *work) { w.reset(w.run + "+") },
	"undone":          (*work).undo,
}

// passes are the orders after what has happened: the pass, the one from which answers are used, the run, and why.
var passes = map[string]string{
	"":                        "1 1 1 start",
	"forced":                  "1 1 1 forced",
	"sent back":               "1 1 1 sent_back",
	"begins":                  "1 1 1 start",
	"round fails":             "1 1 1 start",
	"begins, continues":       "1 1 1 start",
	"fails, retried":          "2 2 1 retried",
	"provider fails, retried": "2 1 1 retried",
	"fails, retried, provider fails, retried":                   "3 2 1 retried",
	"succeeds, sent back":                                       "2 2 1 sent_back",
	"begins, resumed":                                           "2 1 2 resumed",
	"succeeds, resumed, undone":                                 "2 1 2 resumed",
	"fails, resumed":                                            "2 2 2 resumed",
	"round fails, resumed":                                      "2 1 2 resumed",
	"succeeds, phase sent back, resumed":                        "2 2 2 resumed",
	"begins, resumed, forced":                                   "2 2 2 forced",
	"succeeds, reset":                                           "2 1 2 resumed",
	"fails, reset":                                              "2 1 2 resumed",
	"succeeds, phase sent back, sent back, succeeds, reset":     "3 1 2 resumed",
	"succeeds, sent back, succeeds, reset, succeeds, sent back": "4 2 2 resumed",
	"succeeds, reset, succeeds, sent back":                      "3 3 2 sent_back",
	"begins, resumed, forced, begins, reset":                    "3 2 3 resumed",
}

func (w *work) undo() {
	w.t.Helper()
	require.NoError(w.t, w.Undo(w.t.Context(), sessionOf("s"), w.run, []spec.AssignmentID{dev("s").AssignmentID}))
}

// passesAreNumbered: a new order is the next pass, and uses the answers of the one before unless a person wants the work anew or
// it failed by its own fault. A repeated order finds its pass.
func passesAreNumbered(t *testing.T, open func(*testing.T) *bench) {
	for before, order := range passes {
		t.Run(before, func(t *testing.T) {
			t.Parallel()
			w := newWork(t, open(t))
			for name := range strings.SplitSeq(before, ", ") {
				if name != "" {
					happens[name](w)
				}
			}
			var want session.Order
			_, err := fmt.Sscan(order, &want.Pass, &want.AnswersFrom, &want.Run, &want.Because)
			require.NoError(t, err)
			require.Equal(t, want, w.begin())
			require.Equal(t, want, w.begin(), "a repeated order")
		})
	}
}

// writes are the statements of an executor.
func (w *work) writes(fence state.Fence, pass int) map[string]func() error {
	order := session.Order{Pass: pass}
	return map[string]func() error{
		"put": func() error {
			return w.PutRound(w.t.Context(), fence, dev("s"), session.RoundRecord{Order: order, Round: 1}, nil)
		},
		"add": func() error {
			return w.PutRound(w.t.Context(), fence, dev("s"), session.RoundRecord{Order: order, Round: 2}, nil)
		},
		"drop": func() error { return w.DropRound(w.t.Context(), fence, dev("s"), pass, 1) },
		"reserve": func() error {
			c := w.call(dev("s"), fence.Run, 10)
			c.Holder = fence.Holder
			_, err := w.Begin(w.t.Context(), c)
			return err
		},
	}
}

// lateExecutorsAreFenced: an executor whose activity or lease has passed changes nothing.
func lateExecutorsAreFenced(t *testing.T, b *bench) {
	w := newWork(t, b)
	w.succeeds()
	first, late := w.opened, w.order()
	w.begin()
	w.put(func(r *session.RoundRecord) { r.Lost = 1 })
	before := w.record()
	_, err := w.OpenRound(t.Context(), late)
	require.ErrorIs(t, err, state.ErrFenced, "a later activity has worked on it")
	for name, do := range w.writes(first.Fence, 1) {
		require.ErrorIs(t, do(), state.ErrFenced, "%s: another execution has the lease", name)
	}
	require.Equal(t, before, w.record())

	order := w.order()
	same, err := w.OpenRound(t.Context(), order)
	require.NoError(t, err)
	require.Equal(t, w.opened.Fence, same.Fence, "the same execution tries again")
	order.Holder = "another"
	next, err := w.OpenRound(t.Context(), order)
	require.NoError(t, err)
	require.Equal(t, "another", next.Fence.Holder)
	_, err = w.OpenRound(t.Context(), state.RoundOrder{Assignment: dev("unknown"), TemporalRun: "r"})
	require.ErrorIs(t, err, state.ErrNotFound)
}

// earlierRunsEndTheirAgents: a later run, which waits for the lock, would otherwise count a lost worker. Once another
// execution holds the assignment, they say nothing any more.
func earlierRunsEndTheirAgents(t *testing.T, b *bench) {
	w := newWork(t, b)
	w.begin()
	atWork := func(r *session.RoundRecord) { r.AtWork = true }
	w.put(atWork)
	earlier, pass := w.opened.Fence.Holder, w.opened.Order.Pass
	w.continues("r2")
	require.NoError(t, w.EndWork(t.Context(), earlier, dev("s"), pass, 1))
	require.False(t, w.record().Rounds[0].AtWork)
	w.begin()
	w.put(atWork)
	require.NoError(t, w.EndWork(t.Context(), earlier, dev("s"), pass, 1))
	require.True(t, w.record().Rounds[0].AtWork)
}

// earlierRunsChangeNothing: once a later run was admitted, no statement of an executor of the one before changes anything.
func earlierRunsChangeNothing(t *testing.T, b *bench) {
	w := newWork(t, b)
	w.succeeds()
	fence, order, run, before := w.opened.Fence, w.order(), w.run, w.record()
	paid := w.bench.begin(t, w.call(dev("s"), fence.Run, 9))
	w.resume("r2")
	writes := w.writes(fence, 1)
	writes["open"] = func() error { _, err := w.OpenRound(t.Context(), order); return err }
	writes["undo"] = func() error {
		return w.Undo(t.Context(), sessionOf("s"), run, []spec.AssignmentID{dev("s").AssignmentID})
	}
	writes["merge"] = func() error {
		return w.Merge(t.Context(), sessionOf("s"), "build", run, "1", func(l *session.MergeLog) { l.Started = true })
	}
	writes["boundary"] = func() error {
		_, _, err := w.PutBoundary(t.Context(), state.Boundary{
			Key: sessionOf("s"), TemporalRun: run, At: w.clock.Now(),
			Undone: []string{"build"},
		})
		return err
	}
	for name, do := range writes {
		require.ErrorIs(t, do(), state.ErrFenced, name)
	}
	require.Equal(t, before, w.record())
	require.NoError(t, w.End(t.Context(), paid.ID, answered(5)), "what was paid is booked")
	require.EqualValues(t, 5, w.record().Total.OutputTokens)
	later, err := w.IsFenced(t.Context(), sessionOf("s"), run)
	require.NoError(t, err)
	require.True(t, later)
	require.Equal(t, 1, w.begin().AnswersFrom, "numbers of activities count anew in a later run")
}

func (w *work) execution() session.Execution {
	w.t.Helper()
	e, err := w.Execution(w.t.Context(), sessionOf("s"))
	require.NoError(w.t, err)
	return e
}

func (w *work) record() session.Record {
	w.t.Helper()
	r, err := w.Record(w.t.Context(), dev("s"))
	require.NoError(w.t, err)
	return r
}

// lateBoundariesChangeNothing: neither the status, nor requests and answers, nor the work.
func lateBoundariesChangeNothing(t *testing.T, b *bench) {
	w := newWork(t, b)
	w.succeeds()
	now := w.clock.Now()
	require.False(t, w.boundary(now))
	e := w.execution()
	before := w.record()
	opened, late, err := w.PutBoundary(t.Context(), state.Boundary{
		Key: sessionOf("s"), TemporalRun: w.run, At: now.Add(-time.Second), Undone: []string{"build"},
		Status: session.Status{
			Team: team, Status: session.Failed,
			Help: []session.Request{{ID: "1", Actions: []session.Action{session.AnswerRetry}}},
		},
	})
	require.NoError(t, err)
	require.True(t, late)
	require.Empty(t, opened, "nobody is told of it")
	require.Equal(t, e, w.execution())
	require.Equal(t, before, w.record())
	require.False(t, w.boundary(now, "build"), "the same boundary again")
	require.True(t, w.record().Rounds[0].Stale())

	e = w.execution()
	w.resume("r2")
	require.Equal(t, e, w.execution(), "a run that was admitted has said nothing yet")
}

// attemptInProgressCosts: what an attempt has cost is known while it runs, and counts as the attempt's when it has failed.
func attemptInProgressCosts(t *testing.T, b *bench) {
	w := newWork(t, b)
	w.begin()
	w.put(func(r *session.RoundRecord) { r.AtWork, r.AttemptAt = true, w.clock.Now() })
	require.NoError(t, w.End(t.Context(), w.bench.begin(t, w.call(dev("s"), 1, 9)).ID, answered(5)))
	require.EqualValues(t, 5, w.record().Rounds[0].Spent.OutputTokens)
	w.put(func(r *session.RoundRecord) {
		r.Attempts = []session.AttemptReport{{Attempt: 1, Failure: failures.Failure{Category: failures.Timeout}}}
	})
	round := w.record().Rounds[0]
	require.Zero(t, round.Spent)
	require.EqualValues(t, 5, round.Attempts[0].Usage.OutputTokens)
}

// workIsUndone: a resume undoes what is done, and a rework all passes of its phases.
func workIsUndone(t *testing.T, b *bench) {
	w := newWork(t, b)
	undone := func() (all []session.Undone) {
		for _, r := range w.record().Rounds {
			all = append(all, r.Undone)
		}
		return all
	}
	w.fails(failures.Auth, true)
	w.again(session.BecauseRetried)
	w.succeeds()
	w.resume("r2")
	require.NoError(t, w.Undo(t.Context(), sessionOf("s"), w.run, []spec.AssignmentID{lead("s").AssignmentID}))
	require.Equal(t, []session.Undone{"", ""}, undone(), "another's work")
	require.NoError(t, w.Undo(t.Context(), sessionOf("s"), w.run, []spec.AssignmentID{dev("s").AssignmentID}))
	require.Equal(t, []session.Undone{"", session.UndoneResumed}, undone())
	w.succeeds()
	w.boundary(w.clock.Now(), "plan")
	require.Equal(t, []session.Undone{"", session.UndoneResumed, ""}, undone(), "another phase")
	w.boundary(w.clock.Now(), "build")
	require.Equal(t, []session.Undone{session.UndoneSentBack, session.UndoneResumed, session.UndoneSentBack}, undone())

	e := w.execution()
	require.Equal(t, []session.PhaseStatus{
		{Name: "build", Status: session.Running, SentBack: true}, {Name: "plan", Status: session.Running},
	}, e.Phases)
	w.again(session.BecauseSentBack)
	w.begin()
	w.put(func(*session.RoundRecord) {})
	require.Len(t, w.record().Rounds, 4)
	require.NoError(t, w.DropRound(t.Context(), w.opened.Fence, dev("s"), w.opened.Order.Pass, 1))
	require.Len(t, w.record().Rounds, 3)
	require.Equal(t, 4, w.begin().Pass, "the order stays")
}

// requestsAreOpenedAndClosed: a boundary reports the new ones once, and those that it does not have are closed.
func requestsAreOpenedAndClosed(t *testing.T, b *bench) {
	w := newWork(t, b)
	cause := failures.RateLimited // it changes while a request is open
	ask := func(status session.State, ids ...string) (opened []string) {
		t.Helper()
		w.clock.Pass(time.Second)
		cause += "x"
		s := session.Status{Team: team, Status: status}
		for _, id := range ids {
			s.Help = append(s.Help, session.Request{
				ID: id, Kind: session.ForHelp, Phase: "build", Persona: "dev", Category: cause,
				Message: "m", Actions: []session.Action{session.AnswerRetry}, Since: w.clock.Now(),
			})
		}
		found, late, err := w.PutBoundary(t.Context(), state.Boundary{
			Key: sessionOf("s"), TemporalRun: w.run, At: w.clock.Now(),
			Status: s,
		})
		require.NoError(t, err)
		require.False(t, late)
		for _, r := range found {
			opened = append(opened, r.ID)
		}
		e := w.execution()
		shown := []string{}
		for _, r := range e.Help {
			shown = append(shown, r.ID)
			require.Equal(t, cause, r.Category)
		}
		require.Equal(t, append([]string{}, ids...), shown)
		listed, _, err := w.Session(t.Context(), sessionOf("s"))
		require.NoError(t, err)
		if !status.Closed() {
			require.Equal(t, len(ids), listed.Requests)
		} else {
			require.Zero(t, listed.Requests, "nobody is asked any more")
		}
		return opened
	}
	require.Equal(t, []string{"2", "1"}, ask(session.HelpIsNeeded, "2", "1"))
	require.Equal(t, []string{"3"}, ask(session.HelpIsNeeded, "1", "3"))
	require.Empty(t, ask(session.HelpIsNeeded, "1", "3"))
	require.Empty(t, ask(session.Running))
	require.Equal(t, []string{"4"}, ask(session.HelpIsNeeded, "4"))
	require.Empty(t, ask(session.Failed, "4"), "the last status shows what it failed of")
}
