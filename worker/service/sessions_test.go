package service_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/breaker"
	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/models/agent"
	"github.com/maestro-hive/maestro/internal/testkit/worktest"
	"github.com/maestro-hive/maestro/workflows"
)

// scenario is a session on a real server, and what people do meanwhile.
type scenario struct {
	name string
	// agents are scripts by name. Each is the agent of a persona with the same name.
	agents map[string]string
	// fallbacks are the agents that take over from others.
	fallbacks map[string]string
	// check is one that a phase can name; empty: none.
	check  string
	phases []spec.Phase
	// tripped says that the breaker of agent a is open.
	tripped bool
	// team changes what the team has besides its phases; nil: nothing.
	team func(*spec.Team)
	// course selects what runs; nil: everything.
	course func(*stand) session.Course
	// meanwhile is what people do; nil: nothing.
	meanwhile func(*stand)
	// fails is part of the error that the session ends with; empty: it completes.
	fails string
	// resumed says that the session continues in a second run, in which $dir/again exists, and which completes.
	resumed bool
	// then is what people do in the second run; nil: nothing.
	then func(*stand)
	// tree has the files that the result consists of; nil: any.
	tree map[string]string
	// rounds are those of each phase's last assignment; nil: any.
	rounds []int
}

// The scripts that several scenarios use.
const (
	needsNote = `if told 'use the other port'; then echo ok > work.txt; else report '{"usage":{"output_tokens":7}}'; echo 'port 8080 is taken' >&2; exit 1; fi`
	copies    = `cp work.txt copy.txt`
	// tester sends the work back until it is good.
	tester = `if grep -q good work.txt; then echo tested > report.txt; else report '{"sends_back":{"reasons":["work.txt is not good"]}}'; fi`
	costly = `echo $phase > work.txt; report '{"usage":{"output_tokens":60}}'`
	yes    = `if told 'use both'; then echo both > word; elif [ ! -e word ]; then echo yes > word; fi`
	no     = `if told 'use both'; then echo both > word; elif [ ! -e word ]; then echo no > word; fi`
)

// branch is a phase that depends on no other.
func branch(name string, personas ...string) spec.Phase {
	p := phase(name, personas...)
	p.Needs = []string{}
	return p
}

// approved is a phase that a person approves.
func approved(p spec.Phase) spec.Phase {
	p.Approve.Count = 1
	return p
}

// checked is a phase whose work has to pass the scenario's check.
func checked(p spec.Phase) spec.Phase {
	p.Checks = []string{"check"}
	return p
}

// sendsBack is a phase that may send the work of phase one back.
func sendsBack(p spec.Phase) spec.Phase {
	p.SendsBack = &spec.SendsBack{To: "one", Times: 1}
	return p
}

// failing is a team that asks nobody.
func failing(tm *spec.Team) { tm.Help.Mode = spec.HelpFail }

func budgeted(b spec.Budget) func(*spec.Team) { return func(tm *spec.Team) { tm.Budget = b } }

// degrading is a team whose personas may work with the fallbacks of their agents.
func degrading(tm *spec.Team) {
	for name, p := range tm.Personas {
		p.Fallback = true
		tm.Personas[name] = p
	}
}

var scenarios = []scenario{
	{
		name: "side by side and in sequence",
		agents: map[string]string{
			"a": `echo a > a`, "b": `echo b > b`, "c": `cat a b > c`,
			"d": `cat c > d; report '{"decisions":{"x":"1"}}'`, "e": `told '"x":"1"' && cp d e`,
		},
		phases: []spec.Phase{
			branch("left", "a"), branch("right", "b"),
			{Name: "join", Needs: []string{"left", "right"}, Personas: []string{"c"}},
			{Name: "chain", Personas: []string{"d", "e"}, Order: spec.OrderSequence},
		},
		tree: map[string]string{"a": "a\n", "b": "b\n", "c": "a\nb\n", "d": "a\nb\n", "e": "a\nb\n"},
	},
	{
		name:   "failed check",
		agents: map[string]string{"a": `if told '"category":"test_failure"' && told 'the work is bad'; then echo good > work.txt; else echo bad > work.txt; fi`},
		check:  `grep good work.txt || { echo "the work is $(cat work.txt)"; exit 1; }`,
		phases: []spec.Phase{checked(phase("one", "a"))},
		team:   func(tm *spec.Team) { tm.Retry.Attempts = 2 },
		tree:   map[string]string{"work.txt": "good\n"},
		rounds: []int{1},
	},
	{
		name: "conflict that the integrator settles",
		agents: map[string]string{
			"a": `echo a > word; echo a > a`,
			"b": `if told 'merge conflict'; then echo both > word; else echo b > word; fi`,
		},
		check:  `test "$(cat word)" = both -a -f a`,
		phases: []spec.Phase{checked(phase("one", "a", "b"))},
		team:   func(tm *spec.Team) { tm.Retry = spec.Retry{RoundInitial: textfmt.Duration(100 * time.Millisecond)} },
		tree:   map[string]string{"word": "both\n", "a": "a\n"},
		rounds: []int{2},
	},
	{
		name:      "conflict that a person settles",
		agents:    map[string]string{"a": yes, "b": no, "c": `cp word after`},
		phases:    []spec.Phase{phase("one", "a", "b"), phase("two", "c")},
		meanwhile: func(s *stand) { s.answers(session.AnswerRetry, "use both") },
		tree:      map[string]string{"word": "both\n", "after": "both\n"},
	},
	{
		name:      "conflict at the end",
		agents:    map[string]string{"a": yes, "b": no},
		phases:    []spec.Phase{branch("left", "a"), branch("right", "b")},
		meanwhile: func(s *stand) { s.answers(session.AnswerAbort, "") },
		fails:     "aborted by ada",
		resumed:   true,
		then: func(s *stand) {
			require.Contains(s.t, s.answers(session.AnswerSkip, "").Message, "the work of all phases has a merge conflict",
				"it is asked again")
		},
	},
	{
		name:   "ignored files that a phase has to produce",
		agents: map[string]string{"a": `echo a > a.out; echo no > a.log`, "b": `echo b > b.out`},
		phases: []spec.Phase{{Name: "both", Personas: []string{"a", "b"}, Produces: []string{"a.out", "b.out"}}},
		team:   func(tm *spec.Team) { tm.Ignore = []string{"*.out", "*.log"} },
		tree:   map[string]string{"a.out": "a\n", "b.out": "b\n"},
	},
	{
		name:      "help",
		agents:    map[string]string{"a": needsNote},
		phases:    []spec.Phase{phase("one", "a")},
		meanwhile: help,
		tree:      map[string]string{"work.txt": "ok\n"},
		rounds:    []int{2},
	},
	{
		name:   "nobody helps",
		agents: map[string]string{"a": needsNote},
		phases: []spec.Phase{phase("one", "a")},
		team:   func(tm *spec.Team) { tm.Help.GiveUpAfter = textfmt.Duration(time.Second) },
		fails:  "(no answer within 1s)",
	},
	{
		name:   "spent rounds",
		agents: map[string]string{"a": needsNote},
		phases: []spec.Phase{phase("one", "a")},
		team: func(tm *spec.Team) {
			soon := textfmt.Duration(10 * time.Millisecond)
			tm.Help.Mode, tm.Retry = spec.HelpFail, spec.Retry{Attempts: 2, Rounds: 2, Initial: soon, RoundInitial: soon}
		},
		fails:  session.HelpNeeded,
		rounds: []int{2},
	},
	{
		name:      "skipped work",
		agents:    map[string]string{"a": needsNote, "b": `[ ! -e work.txt ]`},
		phases:    []spec.Phase{phase("one", "a"), phase("two", "b")},
		meanwhile: func(s *stand) { s.answers(session.AnswerSkip, "") },
		tree:      map[string]string{},
	},
	{
		name:   "supplied files",
		agents: map[string]string{"a": needsNote, "b": copies},
		check:  `grep right work.txt`,
		phases: []spec.Phase{checked(phase("one", "a")), phase("two", "b")},
		meanwhile: func(s *stand) {
			for _, content := range []string{"wrong\n", "right\n"} {
				require.NoError(s.t, s.update(workflows.ResolveUpdate, session.Answer{
					Request: s.asks().ID, Action: session.AnswerSupply, By: "ada",
					Files: worktest.Tree(s.t, s.store, map[string]string{"work.txt": content}),
				}))
			}
		},
		tree: map[string]string{"work.txt": "right\n", "copy.txt": "right\n"},
	},
	{
		name:   "approval",
		agents: map[string]string{"a": `if told 'say hello'; then echo hello >> work.txt; else echo draft > work.txt; fi`, "b": copies},
		phases: []spec.Phase{approved(phase("one", "a")), phase("two", "b")},
		meanwhile: func(s *stand) {
			require.Contains(s.t, s.answers(session.AnswerReject, "say hello").Command, "maestro approve s one")
			s.answers(session.AnswerApprove, "fine")
		},
		tree:   map[string]string{"work.txt": "draft\nhello\n", "copy.txt": "draft\nhello\n"},
		rounds: []int{2, 1},
	},
	{
		name: "work that is sent back takes its branches along",
		agents: map[string]string{
			"a": `if told 'is not good'; then echo good >> work.txt; else echo first > work.txt; fi`,
			"b": `grep -q good work.txt || sleep 60; cp work.txt copy.txt`, "c": tester, "d": `true`,
		},
		phases: []spec.Phase{
			phase("one", "a"),
			{Name: "docs", Needs: []string{"one"}, Personas: []string{"b"}},
			sendsBack(spec.Phase{Name: "two", Needs: []string{"one"}, Personas: []string{"c"}}),
			{Name: "end", Needs: []string{"docs", "two"}, Personas: []string{"d"}},
		},
		tree:   map[string]string{"work.txt": "first\ngood\n", "copy.txt": "first\ngood\n", "report.txt": "tested\n"},
		rounds: []int{2, 2, 2, 1},
	},
	{
		name: "work that is sent back too often",
		agents: map[string]string{
			"a": `if told 'make it good'; then echo good > work.txt; else echo more >> work.txt; fi`,
			"b": tester,
		},
		phases: []spec.Phase{
			phase("one", "a"),
			sendsBack(spec.Phase{Name: "two", Personas: []string{"b"}, Produces: []string{"report.txt"}}),
		},
		meanwhile: func(s *stand) {
			require.Contains(s.t, s.answers(session.AnswerAbort, "").Message,
				"two/b sends the work of phase one back, which may be sent back only 1 time: work.txt is not good")
		},
		fails:   "aborted by ada",
		resumed: true,
		then:    func(s *stand) { s.answers(session.AnswerRetry, "make it good") },
		tree:    map[string]string{"work.txt": "good\n", "report.txt": "tested\n"},
	},
	{
		name:    "assignment that fails until it is resumed",
		agents:  map[string]string{"a": `echo x >> a`, "b": `echo x >> b`, "c": `[ -e $dir/again ] && echo x >> c`},
		phases:  []spec.Phase{phase("one", "a"), phase("two", "b", "c"), phase("three", "a")},
		team:    failing,
		fails:   "two/c failed",
		resumed: true,
		tree:    map[string]string{"a": "x\nx\n", "b": "x\n", "c": "x\n"},
		rounds:  []int{1, 2, 1},
	},
	{
		name:   "cancelled",
		agents: map[string]string{"a": `touch $dir/begun; sleep 60`},
		phases: []spec.Phase{phase("one", "a")},
		meanwhile: func(s *stand) {
			s.eventually("the agent works", func() bool { return s.exists("begun") })
			require.NoError(s.t, s.client.CancelWorkflow(s.t.Context(), sessionID, ""))
		},
		fails: "canceled",
	},
	{
		name:   "parked",
		agents: map[string]string{"a": `true`},
		phases: []spec.Phase{phase("one", "a"), phase("two", "a"), phase("three", "a")},
		course: func(*stand) session.Course { return session.Course{PauseAfter: []string{"one", "three"}} },
		meanwhile: func(s *stand) {
			waitsAfter := func(n int) {
				s.shows("it waits after a phase", func(e session.Execution) bool {
					return e.Phases[n].Status == session.AwaitingApproval && e.Status.Status == session.AwaitingApproval
				})
			}
			waitsAfter(0)
			require.NoError(s.t, s.client.SignalWorkflow(s.t.Context(), sessionID, "", workflows.ResolveUpdate,
				session.Answer{Request: "one.approval.1", Action: session.AnswerApprove}))
			waitsAfter(2)
			require.NoError(s.t, s.update(workflows.ResolveUpdate,
				session.Answer{Request: "three.approval.1", Action: session.AnswerApprove}))
		},
	},
	{
		name:   "one phase on supplied work",
		agents: map[string]string{"a": `exit 1`, "b": copies},
		phases: []spec.Phase{phase("one", "a"), phase("two", "a"), phase("three", "b")},
		course: func(s *stand) session.Course {
			return session.Course{
				Only:     []string{"three"},
				Supplied: []session.SuppliedWork{{Phase: "two", Files: worktest.Tree(s.t, s.store, map[string]string{"work.txt": "mine\n"})}},
				Given:    map[string]string{"db": "x"},
			}
		},
		tree: map[string]string{"work.txt": "mine\n", "copy.txt": "mine\n"},
	},
	{
		name:   "spent budget",
		agents: map[string]string{"a": costly},
		phases: []spec.Phase{phase("one", "a"), phase("two", "a"), phase("three", "a")},
		team:   budgeted(spec.Budget{Tokens: 150, WarnAt: []float64{0.3, 0.7}, OnExceeded: spec.OnExceededAsk}),
		meanwhile: func(s *stand) {
			h := s.asks()
			require.Equal(s.t, "the budget of the session is not sufficient: 30 of 150 tokens left, and the next call needs 60", h.Message)
			require.Contains(s.t, h.Command, "maestro budget raise s --tokens N")
			require.ErrorContains(s.t, s.update(workflows.RaiseUpdate, workflows.Raise{USD: 1e9}), "no USD budget for the session")
			require.NoError(s.t, s.update(workflows.RaiseUpdate, workflows.Raise{Tokens: 100, By: "ada"}))
		},
		rounds: []int{1, 1, 1},
	},
	{
		name:   "spent day",
		agents: map[string]string{"a": costly},
		phases: []spec.Phase{phase("one", "a"), phase("two", "a")},
		team:   budgeted(spec.Budget{Daily: spec.Cap{Tokens: 100}, OnExceeded: spec.OnExceededAsk}),
		meanwhile: func(s *stand) {
			require.Contains(s.t, s.asks().Message, "the daily budget of team t is not sufficient: 40 of 100 tokens left, and the next "+
				"call needs 60; the next day begins at ")
			_, err := s.store.State.AddRaise(s.t.Context(), session.Key{}, budget.Raise{
				ID: "r", Scope: budget.DayScope, Team: "t",
				By: "ada", Added: cost.Amount{Tokens: 20},
			}, "cli")
			require.NoError(s.t, err)
		},
		rounds: []int{1, 1},
	},
	{
		name:      "fallback for a spent budget",
		agents:    map[string]string{"a": costly, "cheap": `echo cheap > work.txt`},
		fallbacks: map[string]string{"a": "cheap"},
		phases:    []spec.Phase{phase("one", "a"), phase("two", "a")},
		team:      budgeted(spec.Budget{Tokens: 100, OnExceeded: spec.OnExceededDegrade}),
		tree:      map[string]string{"work.txt": "cheap\n"},
	},
	{
		name: "fallback for refused work",
		agents: map[string]string{
			"a":     `report '{"error":{"category":"refused","message":"no"}}'; exit 1`,
			"spare": `echo spare > work.txt`,
		},
		fallbacks: map[string]string{"a": "spare"},
		phases:    []spec.Phase{phase("one", "a")},
		team: func(tm *spec.Team) {
			degrading(tm)
			tm.Retry.Rounds, tm.Retry.RoundInitial = 2, textfmt.Duration(10*time.Millisecond)
		},
		tree:   map[string]string{"work.txt": "spare\n"},
		rounds: []int{2},
	},
	{
		name:    "open breaker",
		tripped: true,
		agents:  map[string]string{"a": `true`},
		phases:  []spec.Phase{phase("one", "a")},
		meanwhile: func(s *stand) {
			e := s.shows("it waits", func(e session.Execution) bool { return e.Status.Status == session.WaitingForBreaker })
			require.Contains(s.t, e.Reason, "maintenance")
			_, err := s.breakers().Set(s.t.Context(), "reset", "a", breaker.ResetRequest{By: "ada"})
			require.NoError(s.t, err)
		},
		rounds: []int{1},
	},
	{
		name:      "fallback for an open breaker",
		tripped:   true,
		agents:    map[string]string{"a": `exit 1`, "spare": `echo spare > work.txt`},
		fallbacks: map[string]string{"a": "spare"},
		phases:    []spec.Phase{phase("one", "a")},
		team:      degrading,
		tree:      map[string]string{"work.txt": "spare\n"},
		rounds:    []int{1},
	},
	{
		name:   "outage",
		agents: map[string]string{"a": `[ -e $dir/up ] || { report '{"error":{"category":"api_error","message":"away"}}'; exit 1; }`},
		phases: []spec.Phase{phase("one", "a")},
		team: func(tm *spec.Team) {
			tm.Retry.Patience, tm.Retry.OnOutage = new(textfmt.Duration(time.Second)), spec.OutageWait
		},
		meanwhile: func(s *stand) {
			require.Equal(s.t, session.ForOutage, s.asks().Kind)
			s.touch("up")
		},
		rounds: []int{1},
	},
	{
		name:   "no worker for the team",
		phases: []spec.Phase{phase("one", "other")},
		agents: map[string]string{"a": `true`},
		fails:  `no worker has agent "other" of persona other; available: a`,
	},
}

// help has a person give wrong answers, which say what would be right, before a right one.
func help(s *stand) {
	h := s.asks()
	require.Contains(s.t, h.Command, "maestro resolve s retry --request one.a.1")
	for want, wrong := range map[string]session.Answer{
		`request "one.a.2" is not open; open requests: one.a.1 (retry`: {Request: "one.a.2", Action: session.AnswerRetry},
		"the answer is empty; open requests: one.a.1":                  {},
		`request "" is not open`:                                       {Action: session.AnswerRetry},
		`cannot be answered with action "approve"`:                     {Request: h.ID, Action: session.AnswerApprove},
		`cannot be answered with action "again"; it takes retry`:       {Request: h.ID, Action: "again"},
		"files: missing manifest":                                      {Request: h.ID, Action: session.AnswerSupply},
	} {
		require.ErrorContains(s.t, s.update(workflows.ResolveUpdate, wrong), want)
	}
	answer := session.Answer{Request: h.ID, Action: session.AnswerRetry, Note: "use the other port", By: "ada"}
	require.NoError(s.t, s.update(workflows.ResolveUpdate, answer))
	require.Error(s.t, s.update(workflows.ResolveUpdate, answer), "a repeated answer")
}

func (s *stand) breakers() *breaker.Breakers { return &breaker.Breakers{State: s.store.State} }

// TestSessions runs one session of each kind over a real server. With -histories they are what
// the workflows' replay test replays.
func TestSessions(t *testing.T) {
	t.Parallel()
	for _, c := range scenarios {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cfg := agent.Config{Agents: shells(c.agents)}
			for name, fallback := range c.fallbacks {
				definition := cfg.Agents[name]
				definition.Fallback = fallback
				cfg.Agents[name] = definition
			}
			if c.check != "" {
				cfg.Checks = map[string]agent.CheckDefinition{"check": check(c.check)}
			}
			s := newStand(t, cfg, standOptions{})
			if c.tripped {
				_, err := s.breakers().Set(t.Context(), "t", "a", breaker.TripRequest{By: "ada", Why: "maintenance"})
				require.NoError(t, err)
			}
			c.run(s)
		})
	}
}

// run has the session run to its end, and again if it is resumed.
func (c scenario) run(s *stand) {
	tm := team(c.phases...)
	if c.team != nil {
		c.team(&tm)
	}
	c.once(s, tm, 1, c.meanwhile, c.fails)
	if c.resumed {
		s.t.Run("resumed", func(t *testing.T) {
			s.t = t
			s.touch("again")
			c.once(s, tm, 2, c.then, "")
		})
	}
}

// once has the session run once, and checks what it has left.
func (c scenario) once(s *stand, tm spec.Team, number int, meanwhile func(*stand), fails string) {
	run := s.start(sessionID, tm, func(in *workflows.SessionInput) {
		if c.course != nil {
			in.Course = c.course(s)
		}
		if number > 1 {
			in.Base, in.Run = s.execution(sessionID).Checkpoint, number
		}
	})
	if meanwhile != nil {
		meanwhile(s)
	}
	result, err := s.ends(run)
	if fails != "" {
		require.ErrorContains(s.t, err, fails)
		return
	}
	require.NoError(s.t, err)
	e := s.execution(sessionID)
	require.Equal(s.t, session.Completed, e.Status.Status)
	require.Empty(s.t, e.Help)
	require.Empty(s.t, e.Reason)
	require.Equal(s.t, e.Checkpoint, result.Checkpoint)
	require.Equal(s.t, e.Usage, result.Usage)
	if c.tree != nil {
		require.Equal(s.t, c.tree, s.tree(sessionID))
	}
	for n, rounds := range c.rounds {
		done := e.Phases[n].Assignments
		require.Equal(s.t, rounds, done[len(done)-1].Rounds, "phase %s", e.Phases[n].Name)
	}
}
