package control

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/models/config"
	"github.com/maestro-hive/maestro/internal/ops/sessionstatus"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/state"
	"github.com/maestro-hive/maestro/internal/store/state/statetest"
	"github.com/maestro-hive/maestro/internal/testkit/temporalfake"
	"github.com/maestro-hive/maestro/internal/testkit/worktest"
	"github.com/maestro-hive/maestro/workflows"
)

// Without Temporal, lists and statistics say what the store's documents say at that moment.
func TestListsAndStatisticsFollowTheStore(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	b, s, ctx := k.Base, k.Store, k.ctx
	sessions, money := Sessions{Base: b}, Money{Base: b}
	began := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	put := func(name, team string, state session.State) {
		statetest.Put(t, s.State, b.key(name), func(e *session.Execution) {
			e.Team, e.Status.Status, e.StartedAt = team, state, &began
			e.Phases = []session.PhaseStatus{{Name: "build", Status: state, Assignments: []session.AssignmentStatus{
				{Persona: "dev", AssignmentSummary: session.AssignmentSummary{Status: state, Attempts: 2}},
			}}}
		})
	}
	put("one", "web", session.Running)
	put("two", "web", session.Completed)
	put("three", "api", session.Failed)
	list := func(f SessionFilter) (names []string) {
		f.Limit = 10
		doc, err := sessions.List(ctx, f)
		require.NoError(t, err)
		for _, l := range doc.Sessions {
			names = append(names, l.Session)
		}
		return names
	}
	require.Equal(t, []string{"one", "three", "two"}, list(SessionFilter{}))
	require.Equal(t, []string{"one"}, list(SessionFilter{Team: "web", Status: session.Running}))
	put("one", "web", session.Completed)
	require.Equal(t, []string{"one", "two"}, list(SessionFilter{Status: session.Completed}))
	doc, err := sessions.List(ctx, SessionFilter{Limit: 2})
	require.NoError(t, err)
	require.Equal(t, []string{"two"}, list(SessionFilter{Cursor: doc.Cursor}))

	one := access.With(t.Context(), access.Actor{Name: "bob", Roles: access.Roles{"api": {access.RoleViewer}}})
	doc, err = sessions.List(one, SessionFilter{Limit: 1})
	require.NoError(t, err)
	require.Len(t, doc.Sessions, 1)
	require.Equal(t, "three", doc.Sessions[0].Session, "who may see one team gets pages of its sessions")
	require.False(t, doc.More)

	groups, err := sessions.Statistics(ctx, HistoryFilter{By: []string{"team"}})
	require.NoError(t, err)
	require.Len(t, groups.Groups, 2)
	require.Equal(t, "web", groups.Groups[1].Team)
	require.InDelta(t, 1, groups.Groups[1].Sessions.SuccessRate(), 0)
	require.InDelta(t, 2, groups.Groups[1].Assignments.AttemptsEach(), 0)
	require.InDelta(t, 0, groups.Groups[0].Assignments.SuccessRate(), 0)

	_, err = sessions.Statistics(one, HistoryFilter{By: []string{"team"}, Teams: []string{""}})
	require.ErrorAs(t, err, new(*access.DeniedError), "sessions of an unknown team")

	_, err = sessions.Statistics(ctx, HistoryFilter{By: []string{"session"}})
	require.Equal(t, Invalid, ProblemOf(err).Kind)
	_, err = money.Usage(ctx, UsageFilter{HistoryFilter: HistoryFilter{By: []string{"day", "day"}}})
	require.Equal(t, Invalid, ProblemOf(err).Kind)
	sums, err := money.Usage(ctx, UsageFilter{HistoryFilter: HistoryFilter{By: []string{"team"}}})
	require.NoError(t, err)
	require.Empty(t, sums.Rows)
}

// Temporal lists 200 old sessions of team web that run, and then newer ones that have ended, as servers with SQLite do.
func TestTheNewestSessionsNeedNotBeThoseThatTemporalListsFirst(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	b, s := k.Base, k.Store
	began := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	temporal := temporalfake.New()
	b.Temporal = Connected(temporal.Connection())
	put := func(id, team string, status enumspb.WorkflowExecutionStatus, started time.Time) {
		temporal.Put(id, status, started, map[string]any{workflows.MemoTeam: team, workflows.MemoStore: s.ID()})
	}
	for i := range listPage {
		put(fmt.Sprintf("old-%03d", i), "web", enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, began)
	}
	put("killed", "api", enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, began.Add(time.Hour))
	for _, name := range []string{"killed", "lost"} {
		started := began.Add(time.Hour)
		statetest.Put(t, s.State, b.key(name), func(e *session.Execution) {
			e.Team, e.Status.Status, e.StartedAt = "api", session.Running, &started
		})
	}

	doc, err := Sessions{b}.List(k.ctx, SessionFilter{Limit: 3})
	require.NoError(t, err)
	require.True(t, doc.More)
	var found []string
	for _, s := range doc.Sessions {
		found = append(found, fmt.Sprint(s.Session, " ", s.Temporal))
	}
	require.Equal(t, []string{"killed true", "lost false", "old-000 true"}, found)
	require.Equal(t, session.Failed, doc.Sessions[0].Status, "the store's document is older than its end")
}

const forkedTeam = `version: 1
name: web
personas:
  dev: {role: Developer, agent: coder, instructions: Write it.}
phases:
  - {name: plan, personas: [dev]}
  - {name: api, personas: [dev], needs: [plan]}
  - {name: page, personas: [dev], needs: [plan]}
  - {name: release, personas: [dev], needs: [api, page]}
`

// kit is a store with sessions.
type kit struct {
	*testing.T
	*Base
	ctx context.Context //nolint:containedctx // of the test
}

func newKit(t *testing.T) kit {
	t.Helper()
	s, err := store.Create(filepath.Join(t.TempDir(), "store"), store.Options{Clock: time.Now})
	require.NoError(t, err)
	return kit{t, &Base{Store: s, Namespace: "default", Now: time.Now}, access.With(t.Context(), access.Local("ann"))}
}

// session puts a session of a team into the store.
func (k kit) session(id, team string, state session.State, course session.Course) {
	k.Helper()
	t, err := config.ParseTeam("team", []byte(team))
	require.NoError(k, err)
	e := session.Execution{Status: session.NewStatus(id, t), Course: course}
	e.Status.Status = state
	_, err = k.Store.ImportCheckpoints(k.ctx, k.key(id), e, []session.Checkpoint{worktest.Checkpoint(k.T, k.Store, t,
		spec.AssignmentID{Phase: "plan", Persona: "dev"}, nil, nil, session.Checkpoint{})})
	require.NoError(k, err)
}

// offer has a worker offer agents, by their kinds.
func (k kit) offer(kinds map[string]string) {
	k.Helper()
	o := spec.Offer{Worker: "w", StartedAt: time.Now(), RenewedAt: time.Now(), Agents: map[string]spec.OfferedAgent{}}
	for name, kind := range kinds {
		o.Agents[name] = spec.OfferedAgent{Kind: kind}
	}
	require.NoError(k, k.Store.State.PutOffer(k.ctx, o))
}

func TestADeliveryIsAResumeWithOneMorePhase(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	cloned := &session.Source{Remote: "git@github.com:acme/shop.git"}
	k.session("done", forkedTeam, session.Completed, session.Course{Source: cloned})
	k.session("part", forkedTeam, session.Completed, session.Course{Source: cloned, Only: []string{"plan", "api", "page"}})
	k.session("taken", forkedTeam+"  - {name: deliver, personas: [dev]}\n", session.Completed, session.Course{Source: cloned})
	k.offer(map[string]string{"coder": "command", "github": spec.KindDelivery})

	last := func(id string, in Deliver) (spec.Phase, Resume) {
		next, err := Starts{k.Base}.Delivering(k.ctx, id, in)
		require.NoError(t, err)
		team, err := config.ParseTeam("team", []byte(next.Team.File))
		require.NoError(t, err)
		return team.Phases[len(team.Phases)-1], next
	}
	phase, next := last("done", Deliver{Base: "main", Merge: spec.MergeAsk})
	require.Equal(t, "deliver", phase.Name)
	require.Equal(t, []string{"release"}, phase.Needs)
	require.Equal(t, &spec.Deliver{
		To: "github", Base: "main", Fix: "release", Times: spec.DefaultFixes, Merge: spec.MergeAsk, Method: spec.MethodMerge,
	}, phase.Deliver)
	require.Empty(t, next.Only)
	require.Empty(t, next.Force)

	phase, next = last("part", Deliver{Repository: "acme/other", Fix: "api"})
	require.Equal(t, []string{"api", "page"}, phase.Needs, "the work that there is")
	require.Equal(t, "acme/other", phase.Deliver.Repository)
	require.Equal(t, "api", phase.Deliver.Fix)
	require.Equal(t, []string{"plan", "api", "page", "deliver"}, next.Only, "what was left out stays so")

	phase, _ = last("taken", Deliver{})
	require.Equal(t, "delivery", phase.Name)
}

func TestWhatCannotBeDeliveredIsRefused(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.session("done", forkedTeam, session.Completed, session.Course{})
	k.session("failed", forkedTeam, session.Failed, session.Course{})
	k.session("delivers", forkedTeam+"  - {name: ship, deliver: {to: github}}\n", session.Completed, session.Course{})
	refused := func(says, id string, in Deliver) {
		t.Helper()
		_, err := Starts{k.Base}.Delivering(k.ctx, id, in)
		require.ErrorContains(t, err, says)
		require.NotEmpty(t, ProblemOf(err).Kind, "a person can correct it")
	}
	shop := Deliver{Repository: "acme/shop"}
	refused("no worker offers an agent of kind delivery", "done", shop)
	k.offer(map[string]string{"gitlab": spec.KindDelivery, "github": spec.KindDelivery, "coder": "command"})
	refused("several agents of kind delivery; name one of github, gitlab", "done", shop)
	refused(`no worker offers "coder" as an agent of kind delivery; name one of github, gitlab`, "done", Deliver{To: "coder"})
	refused("give the repository, like acme/shop", "done", Deliver{To: "github"})
	refused(`phase "relaese" not found in team web; did you mean "release"?`, "done",
		Deliver{To: "github", Repository: "acme/shop", Fix: "relaese"})
	refused("session failed is failed; only the work of a completed session is delivered", "failed", shop)
	refused("`maestro resume delivers` continues the session", "delivers", shop)
	_, err := Starts{k.Base}.Delivering(access.With(t.Context(), access.Actor{Roles: access.Roles{"web": {access.RoleViewer}}}),
		"done", shop)
	require.ErrorAs(t, err, new(*access.DeniedError))
}

func TestAPullRequestIsShownAsItWasSeenLast(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.session("one", forkedTeam+"  - {name: ship, deliver: {to: github}}\n", session.Running, session.Course{})
	seen := time.Now().UTC().Truncate(time.Second)
	row := state.Delivery{Key: k.key("one"), Phase: "ship"}
	put := func() session.Status {
		require.NoError(t, k.Store.State.PutDelivery(k.ctx, state.Fence{Run: 1}, spec.DeliveryPersona, row))
		v, err := Sessions{k.Base}.Read(k.ctx, "one")
		require.NoError(t, err)
		return v.Status
	}
	row.PullRequest = session.PullRequest{Host: "github", Repository: "acme/shop"}
	require.Nil(t, put().Phases[4].PullRequest, "it is not open yet")
	row.PullRequest = session.PullRequest{
		Host: "github", Repository: "acme/shop", Number: 7, URL: "https://github.com/acme/shop/pull/7", State: session.PullOpen,
		Draft:    true,
		WaitsFor: "waits for CI", ChecksPassed: 2, ChecksFailed: 1, ChecksPending: 3, Approvals: 1, ChangedAt: seen,
	}
	s := put()
	require.Equal(t, "pull request #7 of acme/shop: open as a draft, 2 of 6 checks passed, 1 failed, 3 pending, 1 approval",
		s.Phases[4].PullRequest.String())
	require.Equal(t, row.URL, s.Phases[4].PullRequest.URL)
	require.Equal(t, "waits for CI", s.Phases[4].PullRequest.WaitsFor)
	require.Equal(t, seen, s.Phases[4].PullRequest.ChangedAt)
	require.Nil(t, s.Phases[3].PullRequest)

	statetest.Put(t, k.Store.State, k.key("one"), func(e *session.Execution) { e.Phases[4].Status = session.Skipped })
	require.Empty(t, put().Phases[4].PullRequest.WaitsFor, "nobody waits any more")
}

// TestAResumeApprovesNoPhase has phases that wait, one of which needs an approval by its team. Its
// request may be unknown here.
func TestAResumeApprovesNoPhase(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	const file = "version: 1\nname: web\npersonas:\n  ann: {role: Writer, agent: coder, instructions: x}\nphases:\n" +
		"  - {name: plan, personas: [ann]}\n  - {name: design, personas: [ann], approve: true}\n  - {name: build, personas: [ann]}\n"
	k.session("one", file, session.Running, session.Course{})
	team, err := config.ParseTeam("team", []byte(file))
	require.NoError(t, err)
	waiting := session.NewStatus("one", team)
	waiting.Phases[1].Status, waiting.Phases[2].Status = session.AwaitingApproval, session.AwaitingApproval
	for name, open := range map[string][]session.Request{
		"unknown": nil,
		"known":   {{Kind: session.ForApproval, Phase: "design"}, {Kind: session.ForApproval, Phase: "build"}},
	} {
		waiting.Help = open
		require.Equal(t, []string{"build"}, Starts{k.Base}.pausedAfter(k.ctx, sessionstatus.Session{Status: waiting}), name)
	}
	waiting.Session = "another"
	require.Empty(t, Starts{k.Base}.pausedAfter(k.ctx, sessionstatus.Session{Status: waiting}), "its team cannot be read")
}

// TestARaiseOfNoBudgetIsRefusedWithoutAWorker: nobody would hear that the worker has refused the signal.
func TestARaiseOfNoBudgetIsRefusedWithoutAWorker(t *testing.T) {
	t.Parallel()
	m := Money{newKit(t).Base}
	statetest.Admit(t, m.Store.State, m.key("s"), "t", statetest.Limit(session.BudgetOfSession, "", spec.Cap{Tokens: 10}),
		statetest.Limit(session.BudgetOfPhase, "build", spec.Cap{USD: 5}))
	for says, r := range map[string]workflows.Raise{
		"":                                {Tokens: 5, Session: true},
		"no USD budget for the session":   {USD: 5, Session: true},
		"no token budget for phase build": {Tokens: 5, Phase: "build"},
		"no token budget for persona ann": {Tokens: 5, Persona: "ann"},
	} {
		if err := m.checkRaise(t.Context(), "s", r); says == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, says)
		}
	}
}
