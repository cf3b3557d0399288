package web

import (
	"context"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/maestro-hive/maestro/breaker"
	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/delivery"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/models/config"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/cas"
	"github.com/maestro-hive/maestro/internal/store/state"
	"github.com/maestro-hive/maestro/internal/store/state/statetest"
	"github.com/maestro-hive/maestro/internal/testkit/temporalfake"
	"github.com/maestro-hive/maestro/internal/testkit/worktest"
	"github.com/maestro-hive/maestro/workflows"
)

// plane is a control plane on a store with something of each kind, and on a Temporal whose sessions take every message.
type plane struct {
	*control.Base
	t        testing.TB
	ctx      context.Context //nolint:containedctx // of the test
	temporal *temporalfake.Temporal
	// calls are those of session web-7 whose cost is not known.
	calls []string
	// spoils changes the texts of what is stored.
	spoils func(document any)
}

func newPlane(t testing.TB) *plane {
	t.Helper()
	return spoiledPlane(t, func(any) {})
}

// spoiledPlane is a plane whose texts are changed before they are stored.
func spoiledPlane(t testing.TB, spoils func(any)) *plane {
	t.Helper()
	now := func() time.Time { return testNow }
	s, err := store.Create(filepath.Join(t.TempDir(), "store"), store.Options{Clock: now})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	p := &plane{t: t, ctx: access.With(t.Context(), access.Local("alice")), temporal: temporalfake.New(), spoils: spoils}
	dir := t.TempDir()
	p.Base = &control.Base{
		Store: s, Namespace: "default", Now: now, Serves: true, Audit: access.NewAudit(s.State, now),
		Temporal: control.Connected(p.temporal.Connection()), Examiner: p.examine,
		Directories: []control.Directory{{
			Name: "shop", Source: func(context.Context) session.Source { return session.Source{Dir: dir} },
			Options: func(_ context.Context, o cas.SnapshotOptions) cas.SnapshotOptions { return o },
		}},
	}
	p.temporal.Takes = func(string) error { return nil }
	p.temporal.Starts = func(id, _ string, _ workflows.SessionInput) {
		p.put(session.Status{Session: id, Team: "web", Status: session.Running})
	}
	p.pool()
	p.web7()
	p.waiting()
	p.ended()
	return p
}

func (p *plane) key(id string) session.Key { return session.Key{Namespace: "default", Session: id} }

func (p *plane) examine(context.Context, *store.Store, *temporalutil.Connection, func() time.Time) ([]control.Finding, error) {
	found := []control.Finding{
		{Check: "store", Result: control.ResultOK, Message: "st-1 in /var/lib/maestro"},
		{Check: "store space", Result: control.ResultWarning, Message: "only 900 MiB free", Remedy: "free space on its disk"},
		{
			Check: "workers", Result: control.ResultBad, Message: "no worker serves the store st-1", Remedy: "start a worker",
			Command: "maestro worker --agents agents.yaml",
		},
	}
	p.spoils(found)
	return found, nil
}

const running = enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING

// webTeam is the file of the team web.
const webTeam = `version: 1
name: web
description: A <b>web</b> service
personas:
  architect: {role: Architect, agent: claude, instructions: Design it.}
  developer: {role: Developer, agent: claude, instructions: Build it.}
phases:
  - {name: design, personas: [architect], approve: {count: 2}}
  - {name: frontend, personas: [developer], needs: [design]}
  - {name: ship, deliver: {to: github, repository: acme/shop}}
`

// pool has a worker, a breaker that is open, a team and its hooks.
func (p *plane) pool() {
	p.t.Helper()
	o := spec.Offer{
		Worker: "builder-1", Identity: "1@host", Host: "host", PID: 4711, Version: "0.9", StartedAt: ago(5 * time.Hour),
		RenewedAt: ago(4 * time.Second), Checks: map[string]spec.Digest{"tests": "1", "lint": "2"},
		Agents: map[string]spec.OfferedAgent{
			"claude": {Kind: "claude-code", Model: "opus", Concurrency: 4, Breaker: "claude"},
			"github": {Kind: spec.KindDelivery}, "gitlab": {Kind: spec.KindDelivery},
		},
	}
	agents := o.Agents
	p.spoils(&o)
	o.Agents = agents
	require.NoError(p.t, p.Store.State.PutOffer(p.ctx, o))
	trip := breaker.TripRequest{By: "ann", Why: "5 failures: 529 overloaded"}
	p.spoils(&trip)
	_, err := (&breaker.Breakers{State: p.Store.State}).Set(p.ctx, "1", "claude", trip)
	require.NoError(p.t, err)
	_, err = control.Teams{Base: p.Base}.Register(p.ctx, control.Registration{Text: webTeam})
	require.NoError(p.t, err)
	ann := access.With(p.ctx, access.Local("ann@<b>"))
	for _, h := range []control.NewHook{
		{Name: "gh", Kind: access.HookGitHub, Team: "web"},
		{Name: "tickets", Team: "web", Directory: "shop"},
	} {
		_, err := control.Hooks{Base: p.Base}.Add(ann, h)
		require.NoError(p.t, err)
	}
	e := access.Event{Action: "session.cancel", Session: "web-3", Team: "web-service", Detail: "too slow"}
	p.spoils(&e)
	require.NoError(p.t, p.Audit.Change(p.ctx, access.Operate, e, func(context.Context) error { return nil }))
}

// put stores a session, which runs in Temporal if it has not ended.
func (p *plane) put(s session.Status, caps ...budget.Budget) {
	p.t.Helper()
	if s.StartedAt == nil {
		s.StartedAt = new(ago(26 * time.Hour))
	}
	key, run, asked := p.key(s.Session), temporalfake.RunOf(s.Session), "Add a --shout flag to "+s.Session+"."
	p.spoils(&s)
	p.spoils(&asked)
	if s.Team == "web-service" {
		caps = append(caps, statetest.Limit(session.BudgetOfDay, s.Team, spec.Cap{USD: 50e9, Tokens: 2_000_000}))
	}
	admit := func() {
		_, err := p.Store.State.Admit(p.ctx, state.Admission{
			Key: key, TemporalRun: run, OriginalRun: run, Team: s.Team, Requirement: asked, Caps: caps,
			Selection: session.Course{Source: &session.Source{LeftOut: s.LeftOut}},
		})
		require.NoError(p.t, err)
	}
	admit()
	statetest.Put(p.t, p.Store.State, key, func(e *session.Execution) { e.Status, e.Run = s, 1 })
	admit() // with its limits, which Put has removed
	is := running
	if s.Status.Closed() {
		is = enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED
	}
	memo := map[string]any{
		workflows.MemoStore: p.Store.ID(), workflows.MemoTeam: s.Team, workflows.MemoRequirement: asked, workflows.MemoLabels: s.Labels,
	}
	p.temporal.Put(s.Session, is, *s.StartedAt, memo)
}

func (p *plane) blob(text string) spec.Digest { return worktest.Blob(p.t, p.Store, text) }

// kept stores a checkpoint of a session after a phase of one persona, whose work is the difference of two trees.
func (p *plane) kept(id string, team spec.Team, of spec.AssignmentID, before, after map[string]string, c session.Checkpoint) {
	p.t.Helper()
	p.spoils(&c)
	c.CreatedAt = ago(time.Hour + time.Duration(len(c.Reworks)))
	worktest.Put(p.t, p.Store, p.key(id), worktest.Checkpoint(p.t, p.Store, team, of, before, after, c))
}

// The files of the phase frontend of session web-7.
var (
	filesBefore = map[string]string{
		"server.go": "package main\n\nimport \"net/http\"\n\nfunc main() {\n\thttp.ListenAndServe(\":8080\", nil)\n}\n",
	}
	filesAfter = map[string]string{
		"server.go": "package main\n\nimport \"net/http\"\n\n// main serves until it is stopped.\nfunc main() {\u202e\n" +
			"\thttp.ListenAndServe(\":9090\", nil) // \"<script>alert(1)</script>\"\n}\n",
		"web/logo.png": "\x89PNG\x00", "web/package-lock.json": "{\n}\n",
	}
	designer = spec.AssignmentID{Phase: "frontend", Persona: "designer"}
)

// web7Team is the team of session web-7.
func web7Team() spec.Team {
	s, phases := sampleSession()
	team := spec.Team{Name: "web-service", Personas: map[string]spec.Persona{}, Phases: phases}
	for i, phase := range s.Phases {
		for _, a := range phase.Assignments {
			team.Phases[i].Personas = append(team.Phases[i].Personas, a.Persona)
			team.Personas[a.Persona] = spec.Persona{Role: a.Persona, Agent: "claude"}
		}
	}
	return team
}

// web7 has a session that waits for an approval, with all that a session can have.
func (p *plane) web7() {
	p.t.Helper()
	s, _ := sampleSession()
	s.Alerts = append(s.Alerts, session.Alert{
		Rule: "waiting: 30m", Value: 1800, Threshold: 1800, Request: "r-1", At: ago(4 * time.Minute),
		Message: "request r-1 has waited for 30m; the threshold is 30m",
	})
	s.Labels = map[string]string{"area": "<b>\u202eweb", "for": "a, b"}
	s.Phases = append(s.Phases, session.PhaseStatus{Name: "ship", Status: session.Running, Assignments: []session.AssignmentStatus{
		sampleAssignment(spec.DeliveryPersona, session.Waiting, 0, 0),
	}})
	p.put(s, statetest.Limit(session.BudgetOfSession, "", spec.Cap{USD: 20e9, Tokens: 1_000_000}),
		statetest.Limit(session.BudgetOfPhase, "backend", spec.Cap{USD: 10e9}))
	key, db := p.key("web-7"), p.Store.State
	for id, r := range sampleCourse().Records {
		for i := range r.Rounds {
			r.Rounds[i].Basis = &session.Basis{Input: worktest.Tree(p.t, p.Store, filesBefore)}
			for j := range r.Rounds[i].Attempts {
				transcript := sampleTranscript
				p.spoils(&transcript)
				r.Rounds[i].Attempts[j].Log = p.blob(transcript)
				r.Rounds[i].Attempts[j].Files = worktest.Tree(p.t, p.Store, filesAfter)
			}
		}
		p.spoils(&r.Rounds)
		statetest.PutRounds(p.t, db, state.Assignment{Key: key, AssignmentID: id}, r.Rounds...)
	}
	for i, phase := range s.Phases {
		for _, a := range phase.Assignments {
			if id := (spec.AssignmentID{Phase: s.Phases[i].Name, Persona: a.Persona}); a.Usage != (cost.Usage{}) {
				p.book("web-7", id, state.CallAnswered, a.Usage)
			}
		}
	}
	dev, expert := designer, designer
	dev.Phase, dev.Persona, expert.Phase, expert.Persona = "backend", "developer", "backend", "database-expert"
	for _, call := range []struct {
		of  spec.AssignmentID
		end state.CallState
	}{{dev, state.CallUnsettled}, {designer, state.CallBegun}, {expert, state.CallUnsettled}, {expert, state.CallBegun}} {
		p.calls = append(p.calls, p.book("web-7", call.of, call.end, cost.Usage{InputTokens: 1000, CostUSD: 1e8}))
	}
	for _, r := range []budget.Raise{
		{ID: "1", Scope: budget.SessionScope, By: "carol", Note: "approved by finance", Added: cost.Amount{USD: 5e9}},
		{ID: "2", Scope: budget.DayScope, Team: "web-service", By: "alice", Note: "release", Added: cost.Amount{USD: 10e9}},
	} {
		_, err := db.AddRaise(p.ctx, key, r, "cli")
		require.NoError(p.t, err)
	}
	require.NoError(p.t, p.delivers("https://github.com/acme/shop/pull/7"))
	p.kept("web-7", web7Team(), designer, filesBefore, filesAfter, session.Checkpoint{
		Answers: []session.Answer{
			{By: "bob", Action: session.AnswerApprove, Phase: "requirements", Left: 1, At: ago(125 * time.Minute)},
			{
				By: "alice", Action: session.AnswerReject, Phase: "design", Note: "Use <b>SQLite</b>, not files.",
				At: ago(117 * time.Minute),
			},
			{
				By: "alice", Action: session.AnswerRetry, Phase: "backend", Persona: "developer", Note: "The port is taken; use 9090.",
				At: ago(61 * time.Minute),
			},
		},
		Reworks: []session.Rework{{
			To: "design", From: designer, Reasons: []string{"the API has no paging"}, At: ago(100 * time.Minute),
		}},
	})
}

func (p *plane) book(id string, of spec.AssignmentID, end state.CallState, used cost.Usage) string {
	p.t.Helper()
	return statetest.Book(p.t, p.Store.State, statetest.Booking{
		Assignment: state.Assignment{Key: p.key(id), AssignmentID: of}, Team: "web-service", Agent: "claude", Model: "opus <b>",
		End: end, Cost: used,
	})
}

// delivers has the phase ship of session web-7 deliver by a pull request.
func (p *plane) delivers(address string) error {
	return p.Store.State.PutDelivery(p.ctx, state.Fence{Run: 1}, spec.DeliveryPersona, state.Delivery{
		Key: p.key("web-7"), Phase: "ship", Record: delivery.Record{PullRequest: session.PullRequest{
			Host: "github", Repository: "acme/shop", Number: 7, URL: address, State: session.PullOpen, Draft: true,
			ChecksPassed: 2, ChecksFailed: 1, ChecksPending: 1, Approvals: 1, ChangedAt: ago(6 * time.Minute),
		}},
	})
}

// asks stores a session of team web-service with a request.
func (p *plane) asks(id string, state session.State, r session.Request) {
	p.t.Helper()
	p.put(session.Status{
		Session: id, Team: "web-service", Status: state, Help: []session.Request{r}, Phases: []session.PhaseStatus{{
			Name: r.Phase, Status: session.Running, Assignments: []session.AssignmentStatus{{
				Persona: "developer", AssignmentSummary: session.AssignmentSummary{Status: session.HelpIsNeeded},
			}},
		}},
	})
}

// waiting has sessions that wait for people, one of them of another store.
func (p *plane) waiting() {
	p.t.Helper()
	help := []session.Action{session.AnswerRetry, session.AnswerSkip, session.AnswerSupply, session.AnswerAbort}
	p.asks("web-5", session.HelpIsNeeded, session.Request{
		ID: "r-9", Kind: session.ForHelp, Phase: "backend", Persona: "developer", Category: failures.TestFailure,
		Message: "exit status 1: --- FAIL: TestStore (0.02s)\nstore_test.go:41: got 3 notes, want 2", Actions: help,
		Ticket: &session.Ticket{Key: "MD-41", URL: "https://jira.example/browse/MD-41"}, Since: ago(26 * time.Hour),
		Until: testNow.Add(6 * 24 * time.Hour),
	})
	p.asks("web-6", session.HelpIsNeeded, session.Request{
		ID: "r-2", Kind: session.ForBudget, Phase: "design", Persona: "developer", Category: failures.TokenBudget,
		Message: "the budget of the session is spent: 20 of 20 USD", Actions: help, Since: ago(34 * time.Minute),
		Raise: &session.BudgetRaise{Scope: session.BudgetOfPhase, Name: "design", Tokens: true, USD: true},
	})
	p.asks("web-8", session.Running, session.Request{
		ID: "r-3", Kind: session.ForOutage, Phase: "design", Persona: "developer", Category: failures.RateLimited,
		Message: "429: usage limit, back at 16:00", Actions: []session.Action{session.AnswerRetry, session.AnswerAbort},
		Since: ago(34 * time.Minute),
	})
}

// ended has sessions of team web that have failed, completed, and were started by a hook.
func (p *plane) ended() {
	p.t.Helper()
	team, err := config.ParseTeam("team", []byte(webTeam))
	require.NoError(p.t, err)
	closed := ago(5 * time.Hour)
	for id, is := range map[string]session.State{
		"docs-2": session.Failed, "done-1": session.Completed, "tickets-1": session.Completed,
	} {
		s := session.NewStatus(id, team)
		s.Status, s.ClosedAt, s.StartedAt = is, &closed, new(ago(6*time.Hour))
		for i := range s.Phases {
			s.Phases[i].Status = is
		}
		if id == "tickets-1" {
			s.Labels = map[string]string{"hook": "tickets"}
		}
		p.put(s)
		p.kept(id, team, spec.AssignmentID{Phase: "design", Persona: "architect"}, nil, map[string]string{"docs/a.md": "# A\n"},
			session.Checkpoint{})
	}
}

// sampleTranscript is what an attempt of session web-7 has said.
const sampleTranscript = `-- call 1 at 09:12:04 to anthropic: claude-sonnet-4-5
? system: You are a backend developer in a team.
  │ Work in /workspace.
? user: Store notes in SQLite, with tests.
~ The tests show what the store has to do.
I look at the tests first, then I change the store.
> edit internal/store/store.go
  │ - return nil
  │ + return s.insert(note)
< edit internal/store/store.go: Wrote internal/store/store.go: 1822 bytes.
-- call 1: tool_use after 4.2s; tokens: 12000 in, 210 out, 0 from and 11000 into the cache; 0.08 USD
> run go test ./...
< run go test ./...
  │ failed: exit status 1
! call 2: the provider failed: status 529: Overloaded
maestro: the attempt continues after 12 s
`

// keptNames are the fields by which rows find each other.
var keptNames = []string{"Session", "Phase", "Persona", "Name", "Request", "RunID", "Team", "Worker", "Action"}

// hostile puts what an attacker would write behind all texts of a document.
func hostile(document any) {
	n := 0
	var walk func(reflect.Value)
	walk = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Pointer:
			if !v.IsNil() {
				walk(v.Elem())
			}
		case reflect.Struct:
			for i := range v.NumField() {
				f := v.Type().Field(i)
				if f.IsExported() && !slices.Contains(keptNames, f.Name) {
					walk(v.Field(i))
				}
			}
		case reflect.Slice:
			for i := range v.Len() {
				walk(v.Index(i))
			}
		case reflect.Map:
			for _, key := range v.MapKeys() {
				value := reflect.New(v.Type().Elem()).Elem()
				value.Set(v.MapIndex(key))
				walk(value)
				v.SetMapIndex(key, value)
			}
		case reflect.String:
			if v.CanSet() && v.Type() == reflect.TypeFor[string]() && v.Len() > 0 {
				n++
				v.SetString(fmt.Sprintf("%d javascript:alert(1)//\"'><script>alert(2)</script><img src=x "+
					"onerror=alert(3)>\u202e\x1b[2J&amp;</textarea></title>{{.}}", n) + strings.Repeat(" ", n%2) + v.String())
			}
		default:
		}
	}
	walk(reflect.ValueOf(document))
}
