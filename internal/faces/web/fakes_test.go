package web

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/ops/sessionstatus"
	"github.com/maestro-hive/maestro/internal/ops/workerpool"
	"github.com/maestro-hive/maestro/internal/platform/diskspace"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// plane is a control plane with fixed documents.
type plane struct {
	mu       sync.Mutex
	inbox    control.Inbox
	sessions control.SessionList
	read     sessionstatus.Session
	diff     control.Diff
	work     control.Work
	roster   workerpool.Roster
	breakers []workerpool.Breaker
	trips    []control.Trip
	events   access.EventPage
	// transcript is that of every attempt.
	transcript string
	// conflict is the error of answers; nil: they are taken.
	conflict error
	answers  []session.Answer
	raises   []control.Raise
	filters  []control.SessionFilter
	teams    control.TeamList
	plan     control.Plan
	foreseen control.Foreseen
	// invalid is the error of previews; nil: there is none.
	invalid error
	uploads [][]byte
	kept    []map[string]string
	started []control.NewSession
	// registered are the teams that were.
	registered []control.Registration
	resumed    []control.Resume
	forks      []control.Fork
	// deliver are the agents of kind delivery.
	deliver  []string
	days     []control.Day
	open     control.Budgets
	examined control.Examination
	away     []string
	// settled are the calls that were, and as what.
	settled []string
	alerts  control.AlertList
	// noAlerts is why alerts cannot be read.
	noAlerts error
	// hooks are those that the person is an admin of, noHooks why they cannot be read.
	hooks   []access.Hook
	noHooks error
}

func (p *plane) operations() Operations {
	return Operations{
		Sessions: fakeSessions{p}, Requests: fakeRequests{p}, Money: fakeMoney{p}, Pool: fakePool{p},
		Reviews: fakeReviews{p}, Attempts: fakeAttempts{p}, Audit: fakeAudit{p}, Checkpoints: fakeCheckpoints{p}, Starts: fakeStarts{p},
		Teams: fakeTeams{p}, Health: fakeHealth{p}, Alerts: fakeAlerts{p}, Hooks: fakeHooks{p}, Account: fakeAccount{},
	}
}

type (
	fakeSessions    struct{ *plane }
	fakeRequests    struct{ *plane }
	fakeMoney       struct{ *plane }
	fakePool        struct{ *plane }
	fakeReviews     struct{ *plane }
	fakeAttempts    struct{ *plane }
	fakeAudit       struct{ *plane }
	fakeCheckpoints struct{ *plane }
	fakeStarts      struct{ *plane }
	fakeTeams       struct{ *plane }
	fakeHealth      struct{ *plane }
	fakeAlerts      struct{ *plane }
	fakeHooks       struct{ *plane }
	fakeAccount     struct{}
)

func (fakeAccount) Own(context.Context) (control.Account, error) {
	person := control.Person{Person: access.Person{Name: "alice"}, State: "active"}
	in := []access.SignIn{{SignedInAt: ago(time.Hour), LastUsed: ago(time.Minute), ExpiresAt: ago(-time.Hour), This: true}}
	return control.Account{
		Person: person, SignIns: in, Passkeys: []state.Passkey{{ID: "k1", CreatedAt: ago(time.Hour)}},
		HasPassword: true,
	}, nil
}

func (f fakeSessions) List(_ context.Context, filter control.SessionFilter) (control.SessionList, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.filters = append(f.filters, filter)
	return f.sessions, nil
}

func (f fakeSessions) Read(_ context.Context, id string) (sessionstatus.Session, error) {
	if id == "absent" {
		return sessionstatus.Session{}, fmt.Errorf("session %q: %w", id, session.ErrNotFound)
	}
	return f.read, nil
}

func (f fakeSessions) Cancel(_ context.Context, id string) (control.Cancellation, error) {
	return control.Cancellation{Session: id, Requested: true}, nil
}

func (f fakeRequests) Inbox(context.Context, control.InboxFilter) (control.Inbox, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return control.Inbox{Waiting: slices.Clone(f.inbox.Waiting)}, nil
}

func (f fakeRequests) Answer(_ context.Context, in control.AnswerInput) (control.Answered, error) {
	a := session.Answer{Request: in.Request, Action: in.Body.Action, Note: in.Body.Note, Files: in.Body.Files}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.conflict != nil {
		return control.Answered{}, f.conflict
	}
	f.answers = append(f.answers, a)
	f.answered(a.Request)
	return control.Answered{Session: in.Session, Answer: a, Taken: true}, nil
}

// conflict is an error of the control plane that says who was first.
type conflict string

func (c conflict) Error() string { return string(c) }

func (c conflict) As(target any) bool {
	e, ok := target.(**control.Error)
	if ok {
		*e = &control.Error{Problem: control.Problem{Kind: control.Conflict}}
	}
	return ok
}

// answered takes a request out of the inbox.
func (p *plane) answered(request string) {
	p.inbox.Waiting = slices.DeleteFunc(p.inbox.Waiting, func(e control.InboxEntry) bool { return e.ID == request })
}

func (f fakeHealth) Away() []string { return f.away }

func (f fakeHealth) Examine(context.Context, control.ExamineInput) (control.Examination, error) {
	return f.examined, nil
}

func (f fakeHealth) Size(context.Context) (control.StoreSize, error) {
	return control.StoreSize{Store: "st-1", FreeBytes: 42 << 30, CountedAt: ago(time.Minute), Size: control.Size{
		Sessions: 1840, Blobs: diskspace.Used{Files: 91_204, Bytes: 3 << 30},
		Documents: diskspace.Used{Files: 22_100, Bytes: 240 << 20}, Other: diskspace.Used{Files: 900, Bytes: 1 << 30},
	}}, nil
}

func (f fakePool) Workers(context.Context) (workerpool.Roster, error) { return f.roster, nil }

func (f fakePool) Breakers(context.Context) (control.BreakerList, error) {
	return control.BreakerList{Breakers: f.breakers}, nil
}

func (f fakePool) Trip(_ context.Context, _ string, r control.Trip) (workerpool.Breaker, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.trips = append(f.trips, r)
	return workerpool.Breaker{}, nil
}

func (f fakePool) Reset(context.Context, string, control.Reset) (workerpool.Breaker, error) {
	return workerpool.Breaker{}, nil
}

func (f fakeAudit) Events(context.Context, access.EventFilter) (access.EventPage, error) {
	return f.events, nil
}

func (f fakeCheckpoints) List(context.Context, string) (control.CheckpointList, error) {
	return control.CheckpointList{Session: "web-7", Checkpoints: []control.ListedCheckpoint{
		{
			Checkpoint: "9f86d081884c7d659a2feaa0c55ad015", Phase: "design", Run: 1, CreatedAt: ago(time.Hour), Assignments: 2,
			Artifacts: 5, Usage: cost.Usage{CostUSD: 1.9e9},
		},
		{Checkpoint: "2c26b46b68ffc68ff99b453c1d304134", Phase: "init", Run: 1, CreatedAt: ago(2 * time.Hour)},
	}}, nil
}

func (f fakeAlerts) List(context.Context) (control.AlertList, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return control.AlertList{Alerts: f.alerts.Alerts}, f.noAlerts
}

func (f fakeHooks) List(context.Context) (control.HookList, error) {
	return control.HookList{Hooks: f.hooks}, f.noHooks
}

func (f fakeHooks) Newest(context.Context, []access.Hook) (map[string]state.Session, error) {
	started := ago(time.Hour)
	return map[string]state.Session{"tickets": {Key: session.Key{Session: "tickets-1"}, StartedAt: &started}}, nil
}

func samplePool(p *plane) {
	until := testNow.Add(4 * time.Minute)
	p.roster = workerpool.Roster{
		Store: "st-1", Temporal: true,
		Workers: []workerpool.Worker{{
			Worker: "builder-1", Identity: "1@host", Host: "host", PID: 4711, Version: "0.9",
			Since: ago(5 * time.Hour), RenewedAt: ago(4 * time.Second), Checks: []string{"tests", "lint"},
			Agents: []workerpool.Agent{{Agent: "claude", OfferedAgent: spec.OfferedAgent{
				Kind: "claude-code", Model: "opus",
				Concurrency: 4,
			}}, {Agent: "reviewer", OfferedAgent: spec.OfferedAgent{Kind: "model", Concurrency: 2}}},
		}},
		Queues: []workerpool.Queue{
			{Queue: "maestro-st-1-wf", For: "sessions", Pollers: []string{"1@host"}},
			{Queue: "maestro-st-1-agent-tester", For: "agent tester"},
		},
		Missing: []spec.Lack{},
	}
	p.breakers = []workerpool.Breaker{
		{BreakerStatus: session.BreakerStatus{
			Name: "claude", State: session.BreakerIsOpen, Failures: 5, OpenUntil: &until,
			LastFailure: &session.AttemptFailure{Category: failures.APIError, Message: "529 overloaded"},
		}, Agents: []string{"claude"}},
		{BreakerStatus: session.BreakerStatus{Name: "reviewer", State: session.BreakerClosed}, Agents: []string{"reviewer"}},
	}
	p.events = access.EventPage{Cursor: "1", Events: []access.Event{
		{
			ID: 2, At: ago(time.Minute), Actor: "alice", Via: access.ViaLink, From: "127.0.0.1", Action: "session.cancel",
			Session: "web-3", Team: "web-service", Outcome: access.Done,
		},
		{
			ID: 1, At: ago(time.Hour), Actor: "bob", Via: access.ViaToken, Action: "request.answer", Session: "web-7", Subject: "frontend",
			Detail: "approve", Outcome: access.Denied, Error: "bob may not approve: the role approver is missing",
		},
	}}
}

func (f fakeReviews) Diff(_ context.Context, in control.DiffInput) (control.Diff, error) {
	if in.Which == "documentation" {
		return control.Diff{}, &control.Error{Problem: control.Problem{Kind: control.NotFound}}
	}
	return f.diff, nil
}

func (f fakeReviews) DiffFile(context.Context, control.FileDiffInput) (control.FileDiff, error) {
	return control.FileDiff{Session: f.diff.Session, ChangedFile: f.diff.Files[0]}, nil
}

func (f fakeAttempts) Work(context.Context, string) (control.Work, error) { return f.work, nil }

func (f fakeAttempts) Transcript(context.Context, string, control.Attempt) (string, bool, error) {
	return f.transcript, true, nil
}

// sampleWork has the attempts of the sample's records.
func sampleWork() control.Work {
	c := sampleCourse()
	_, phases := sampleSession()
	w := control.Work{Session: "web-7", Phases: phases, Records: c.Records, Answers: c.Answers, Budgets: sampleBudgets()}
	w.Interventions = []sessionstatus.Intervention{
		{At: ago(125 * time.Minute), By: "bob", Action: session.AnswerApprove, Phase: "requirements", Left: 1},
		{
			At: ago(117 * time.Minute), By: "alice", Action: session.AnswerReject, Phase: "design",
			Text: "Use <b>SQLite</b>, not files. " + strings.Repeat("The reasons are in the ticket. ", 20),
		},
		{
			At: ago(100 * time.Minute), By: "frontend/designer", Action: sessionstatus.SendBack, Phase: "design",
			Text: "the API has no paging",
		},
		{
			At: ago(61 * time.Minute), By: "alice", Action: session.AnswerRetry, Phase: "backend", Persona: "developer",
			Text: "The port is taken; use 9090.",
		},
		{
			At: ago(30 * time.Minute), By: "carol", Action: sessionstatus.Raise, Added: cost.Amount{USD: 5e9},
			Text: "approved by finance",
		},
	}
	ended := ago(96 * time.Minute)
	id := spec.AssignmentID{Phase: "backend", Persona: "developer"}
	usage := cost.Usage{InputTokens: 42_000, OutputTokens: 3_100, CacheReadTokens: 120_000, CostUSD: 1.37e9}
	w.Attempts = []control.Attempt{
		{
			AttemptRef: control.AttemptRef{AssignmentID: id, Pass: 1, Round: 1, Attempt: 1}, Status: session.Failed,
			Category: failures.TestFailure, Message: "check tests: exit status 1",
			Output: "--- FAIL: TestStore (0.02s)\n    store_test.go:41: got 3 notes, want 2\nFAIL\n", Agent: "claude", Usage: usage,
			StartedAt: ago(116 * time.Minute), EndedAt: &ended,
		},
		{
			AttemptRef: control.AttemptRef{AssignmentID: id, Pass: 1, Round: 1, Attempt: 2}, Status: session.Completed, Agent: "claude",
			From: failures.FromConversation, Usage: usage, Summary: "Stored notes in SQLite, with tests.",
			Decisions: map[string]string{"database": "SQLite"}, StartedAt: ago(95 * time.Minute), EndedAt: &ended,
		},
		{AttemptRef: control.AttemptRef{
			AssignmentID: spec.AssignmentID{Phase: "backend", Persona: "database-expert"}, Pass: 1,
			Round: 1, Attempt: 1,
		}, Status: session.Running, Agent: "claude", StartedAt: ago(20 * time.Minute)},
	}
	return w
}

const sampleTranscript = `-- call 1 at 09:12:04 to anthropic: claude-sonnet-4-5
? tools: Bash, Edit, Read
? system: You are a backend developer in a team.
  │ Work in /workspace.
? user: Store notes in SQLite, with tests.
~ The tests show what the store has to do.
I look at the tests first, then I change the store.

There are two places that matter.
> read internal/store/store_test.go
-- call 1: tool_use after 4.2s; tokens: 12000 in, 210 out, 0 from and 11000 into the cache; 0.08 USD
-- call 2 at 09:12:09 to anthropic: claude-sonnet-4-5; 6 items as before
< read internal/store/store_test.go
  │ package store
  │ 
  │ func TestStore(t *testing.T) {
> edit internal/store/store.go
  │ - return nil
  │ + return s.insert(note)
< edit internal/store/store.go: Wrote internal/store/store.go: 1822 bytes.
-- call 2: tool_use after 2.1s; tokens: 900 in, 95 out, 12000 from and 900 into the cache; 0.02 USD
> run go test ./...
< run go test ./...
  │ failed: exit status 1
  │ --- FAIL: TestStore (0.02s)
! call 3: the provider failed: status 529: Overloaded
maestro: the attempt continues after 12 s
The test was wrong about the order. I mend it.
`

// sampleDiff has the kinds of files that there are.
func sampleDiff() control.Diff {
	d := control.Diff{Session: "web-7", Phase: "frontend", Before: "web-7 before frontend", After: "web-7 after frontend"}
	d.Files = append(d.Files, sampleFiles()...)
	d.Files = append(d.Files, control.ChangedFile{Path: "big.sql", Change: "added", Added: 90_000, Omitted: true})
	return d
}

// samplePlane has one of everything.
func samplePlane() *plane {
	s, _ := sampleSession()
	since, old, until := ago(34*time.Minute), ago(26*time.Hour), testNow.Add(6*24*time.Hour)
	closed := ago(5 * time.Hour)
	usage := cost.Usage{InputTokens: 912_000, OutputTokens: 48_000, CostUSD: 12_400_000_000}
	p := &plane{
		read: sessionstatus.Session{
			Status: s, Requirement: "Build a web service that stores notes, with an API, a page and tests.",
			Limit: spec.Cap{USD: 20e9}, Notes: []string{"No worker serves agent reviewer."},
		},
		plan: samplePlan(), foreseen: sampleForeseen(),
		teams: control.TeamList{Teams: []control.ListedTeam{{Name: "web", Description: "A web service"}, {Name: "docs"}}},
		diff:  sampleDiff(), work: sampleWork(), transcript: sampleTranscript,
		inbox: control.Inbox{Waiting: []control.InboxEntry{
			{
				Session: "web-5", Team: "web-service", Status: session.HelpIsNeeded,
				Request: session.Request{
					ID: "r-9", Kind: session.ForHelp, Phase: "backend", Persona: "developer",
					Category: failures.TestFailure, Message: "exit status 1: --- FAIL: TestStore (0.02s)\nstore_test.go:41: got 3 notes, want 2",
					Actions: []session.Action{session.AnswerRetry, session.AnswerSkip, session.AnswerSupply, session.AnswerAbort},
					Ticket:  &session.Ticket{Key: "MD-41", URL: "https://jira.example/browse/MD-41"}, Since: old, Until: until,
				}, Usage: usage,
				Commands: []string{"maestro resolve web-5 retry", "maestro resolve web-5 supply PATH"},
			},
			{
				Session: "web-6", Team: "web-service", Status: session.HelpIsNeeded,
				Request: session.Request{
					ID: "r-2", Kind: session.ForBudget, Phase: "design", Persona: "architect",
					Category: failures.TokenBudget, Message: "the budget of the session is spent: 20 of 20 USD",
					Actions: []session.Action{session.AnswerRetry, session.AnswerSkip, session.AnswerSupply, session.AnswerAbort}, Since: since,
				},
				Usage: usage, Commands: []string{"maestro budget raise web-6 --usd N"},
			},
			{
				Session: "web-7", Team: "web-service", Status: session.AwaitingApproval,
				Request: session.Request{
					ID: "r-1", Kind: session.ForApproval, Phase: "frontend",
					Message: "frontend is done: 12 files, 3 decisions", Actions: []session.Action{session.AnswerApprove, session.AnswerReject},
					Since: since,
				}, Usage: usage,
			},
			{Session: "web-8", Team: "web-service", Status: session.Running, Request: session.Request{
				ID: "r-3", Kind: session.ForOutage,
				Phase: "design", Persona: "architect", Category: failures.RateLimited, Message: "429: usage limit, back at 16:00",
				Actions: []session.Action{session.AnswerRetry, session.AnswerAbort}, Since: since,
			}, Usage: usage},
			{Session: "far-1", Status: session.HelpIsNeeded, Store: "other", Request: session.Request{
				Kind:    session.ForHelp,
				Message: "build/dev waits",
			}, Commands: []string{"maestro status far-1"}},
		}},
		sessions: control.SessionList{More: true, Cursor: "abc", Sessions: []control.ListedSession{
			{
				Session: "web-7", Team: "web-service", Status: session.AwaitingApproval, Phases: []string{"backend", "frontend"},
				Tokens: 960_000, CostUSD: 12.4e9, Requirement: "Build a web service that stores notes, with an API, a page and tests.",
				StartedAt: &old, Temporal: true, Labels: map[string]string{"area": "<b>\u202eweb", "for": "a, b"},
			},
			{
				Session: "web-6", Team: "web-service", Status: session.Completed, Tokens: 1_200_000, CostUSD: 20e9,
				Requirement: "Fix the login", StartedAt: &old, ClosedAt: &closed, Temporal: true,
			},
			{Session: "docs-2", Team: "docs", Status: session.Failed, Requirement: "Write the manual", StartedAt: &old, ClosedAt: &closed},
		}},
	}
	for i := range p.inbox.Waiting {
		e := &p.inbox.Waiting[i]
		e.Choices = e.Request.Choices()
	}
	p.inbox.Waiting[1].Raise = &session.BudgetRaise{Scope: session.BudgetOfPhase, Name: "design", Tokens: true, USD: true}
	samplePool(p)
	sampleMoney(p)
	p.alerts = sampleAlerts()
	p.hooks = []access.Hook{
		{Name: "gh", Kind: access.HookGitHub, Team: "web", By: "ann@<b>", CreatedAt: old},
		{Name: "tickets", Kind: access.HookGeneric, Team: "web", Directory: "site", By: "ann", CreatedAt: old},
	}
	return p
}

// named are the types of names that were checked when the team was admitted.
var named = []reflect.Type{reflect.TypeFor[spec.AssignmentID](), reflect.TypeFor[spec.Phase]()}

// hostile replaces all texts of a document by what an attacker would write.
func hostile(v any) {
	n := 0
	var walk func(reflect.Value)
	walk = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Pointer, reflect.Interface:
			if !v.IsNil() {
				walk(v.Elem())
			}
		case reflect.Struct:
			if v.Type() == reflect.TypeFor[time.Time]() {
				return
			}
			if slices.Contains(named, v.Type()) {
				return
			}
			for i := range v.NumField() {
				name := v.Type().Field(i).Name
				if name == "Call" && v.Type() == reflect.TypeFor[control.OpenCall]() {
					continue // Maestro makes the ids of calls
				}
				if v.Type().Field(i).IsExported() && name != "Persona" &&
					(name != "Name" || v.Type() != reflect.TypeFor[session.PhaseStatus]()) {
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
					"onerror=alert(3)>\u202e\x1b[2J&amp;</textarea></title>{{.}}", n))
			}
		default:
		}
	}
	walk(reflect.ValueOf(v))
}

// as has everybody who asks be somebody.
func as(a access.Actor) func(context.Context) context.Context {
	return func(ctx context.Context) context.Context { return access.With(ctx, a) }
}
