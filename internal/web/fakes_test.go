package web

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/control"
	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/sessionstatus"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/workerpool"
	"github.com/maestro-hive/maestro/workflows"
)

// plane is a control plane with fixed documents.
type plane struct {
	mu       sync.Mutex
	inbox    control.Inbox
	sessions control.SessionList
	read     sessionstatus.Session
	// conflict is the error of answers; nil: they are taken.
	conflict error
	answers  []session.Answer
	raises   []workflows.Raise
	filters  []control.SessionFilter
}

func (p *plane) operations() Operations {
	return Operations{Sessions: fakeSessions{p}, Requests: fakeRequests{p}, Money: fakeMoney{p}, Pool: fakePool{p}}
}

type (
	fakeSessions struct{ *plane }
	fakeRequests struct{ *plane }
	fakeMoney    struct{ *plane }
	fakePool     struct{ *plane }
)

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

func (f fakeRequests) Inbox(context.Context) (control.Inbox, error) { return f.inbox, nil }

func (f fakeRequests) Answer(_ context.Context, id string, a session.Answer) (control.Answered, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.conflict != nil {
		return control.Answered{}, f.conflict
	}
	f.answers = append(f.answers, a)
	return control.Answered{Session: id, Answer: a, Taken: true}, nil
}

func (f fakeMoney) Raise(_ context.Context, id string, r workflows.Raise) (control.Raised, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.raises = append(f.raises, r)
	return control.Raised{Session: id}, nil
}

func (f fakePool) Workers(context.Context) (workerpool.Roster, error) {
	return workerpool.Roster{}, nil
}

func (f fakePool) Breakers(context.Context) ([]workerpool.Breaker, error) { return nil, nil }

// samplePlane has one of everything.
func samplePlane() *plane {
	s, _ := sampleSession()
	since, old, until := ago(34*time.Minute), ago(26*time.Hour), testNow.Add(6*24*time.Hour)
	closed := ago(5 * time.Hour)
	usage := cost.Usage{InputTokens: 912_000, OutputTokens: 48_000, CostUSD: 12_400_000_000}
	return &plane{
		read: sessionstatus.Session{Status: s, Requirement: "Build a web service that stores notes, with an API, a page and tests.", Limit: spec.Cap{USD: 20e9}, Notes: []string{"No worker serves agent reviewer."}},
		inbox: control.Inbox{Waiting: []control.InboxEntry{
			{Session: "web-5", Team: "web-service", Status: session.HelpIsNeeded, Request: "r-9", Kind: session.ForHelp, Phase: "backend", Persona: "developer", Category: failures.TestFailure, Message: "exit status 1: --- FAIL: TestStore (0.02s)\nstore_test.go:41: got 3 notes, want 2", Advice: "Look at the test.\n\nmaestro resolve web-5 retry", Actions: []session.Action{session.AnswerRetry, session.AnswerSkip, session.AnswerSupply, session.AnswerAbort}, Since: &old, Until: &until, Usage: usage, Ticket: &session.Ticket{Key: "MD-41", URL: "https://jira.example/browse/MD-41"}, Commands: []string{"maestro resolve web-5 retry", "maestro resolve web-5 supply PATH"}},
			{Session: "web-6", Team: "web-service", Status: session.HelpIsNeeded, Request: "r-2", Kind: session.ForBudget, Phase: "design", Persona: "architect", Category: failures.TokenBudget, Message: "the budget of the session is spent: 20 of 20 USD", Actions: []session.Action{session.AnswerRetry, session.AnswerSkip, session.AnswerSupply, session.AnswerAbort}, Since: &since, Usage: usage, Commands: []string{"maestro budget raise web-6 --usd N"}},
			{Session: "web-7", Team: "web-service", Status: session.AwaitingApproval, Request: "r-1", Kind: session.ForApproval, Phase: "frontend", Message: "frontend is done: 12 files, 3 decisions", Actions: []session.Action{session.AnswerApprove, session.AnswerReject}, Since: &since, Usage: usage},
			{Session: "web-8", Team: "web-service", Status: session.Running, Request: "r-3", Kind: session.ForOutage, Phase: "design", Persona: "architect", Category: failures.RateLimited, Message: "429: usage limit, back at 16:00", Actions: []session.Action{session.AnswerRetry, session.AnswerAbort}, Since: &since, Usage: usage},
			{Session: "far-1", Status: session.HelpIsNeeded, Store: "other", Kind: session.ForHelp, Message: "build/dev waits", Commands: []string{"maestro status far-1"}},
		}},
		sessions: control.SessionList{More: true, Cursor: "abc", Sessions: []control.ListedSession{
			{Session: "web-7", Team: "web-service", Status: session.AwaitingApproval, Phases: []string{"backend", "frontend"}, Tokens: 960_000, CostUSD: 12.4e9, Requirement: "Build a web service that stores notes, with an API, a page and tests.", StartedAt: &old, Temporal: true},
			{Session: "web-6", Team: "web-service", Status: session.Completed, Tokens: 1_200_000, CostUSD: 20e9, Requirement: "Fix the login", StartedAt: &old, ClosedAt: &closed, Temporal: true},
			{Session: "docs-2", Team: "docs", Status: session.Failed, Requirement: "Write the manual", StartedAt: &old, ClosedAt: &closed},
		}},
	}
}

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
			for i := range v.NumField() {
				if v.Type().Field(i).IsExported() {
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
				v.SetString(fmt.Sprintf("%d javascript:alert(1)//\"'><script>alert(2)</script><img src=x onerror=alert(3)>\u202e\x1b[2J&amp;</textarea></title>{{.}}", n))
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
