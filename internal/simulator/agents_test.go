package simulator

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/breaker"
	"github.com/maestro-hive/maestro/internal/chat"
	"github.com/maestro-hive/maestro/internal/team"
)

// agents are the agents of a process: models behind the real conversation, and programs.
// Methods that no simulated agent needs are those of nil.
type agents struct {
	activities.Agents
	p *process
}

// agentLimit is how long an agent may take.
const agentLimit = time.Hour

func (a agents) Run(ctx context.Context, job team.Job) (team.Outcome, error) {
	id := team.AssignmentID{Phase: job.Brief.Phase, Persona: job.Brief.Persona}
	var out team.Outcome
	var failed error
	_, err := call(a.p, "Run", false, func() (any, error) {
		a.p.world.agentStarted(ctx, a.p, id)
		return nil, nil
	})
	if err != nil {
		return out, err
	}
	if job.Calls != nil {
		job.Calls = calls{job.Calls, a.p, id}
	}
	if slices.Contains(a.p.world.plan.Programs, job.Agent) {
		return a.program(ctx, id, job)
	}
	model := &chat.Agent{
		Name: job.Agent, Kind: "anthropic", Model: "model", Provider: provider{a.p, id, job.Brief}, Transport: http.DefaultTransport,
		MaxTurns: 20, MaxOutputTokens: 2000, ContextTokens: 100_000, Timeout: agentLimit, IdleTimeout: 5 * time.Minute,
		Mask: func(s string) string { return s }, Now: time.Now,
	}
	out, failed = model.Run(ctx, job)
	return out, failed
}

// program works without a model: it takes its time and writes its file.
func (a agents) program(ctx context.Context, id team.AssignmentID, job team.Job) (team.Outcome, error) {
	for i := range 3 {
		if _, err := call(a.p, "Ask", false, func() (any, error) { return nil, nil }); err != nil {
			return team.Outcome{}, team.Failf(team.Unknown, "%v", err)
		}
		select {
		case <-time.After(a.p.world.think(id, i)):
		case <-ctx.Done():
			return team.Outcome{}, context.Cause(ctx)
		}
	}
	err := os.WriteFile(filepath.Join(job.Dir, id.Persona+".txt"), []byte(a.p.world.content(job.Brief)), 0o600)
	return team.Outcome{Summary: "done"}, err
}

// content is what an agent writes: bad work as often as the plan says, unless a person
// has said how to do it.
func (w *world) content(b team.Brief) string {
	id := team.AssignmentID{Phase: b.Phase, Persona: b.Persona}
	n := (b.Round-1)*w.plan.Team.Personas[b.Persona].Attempts + b.Attempt
	if n <= w.plan.Bad[id.String()] && (b.Feedback == nil || b.Feedback.Note == "") {
		return fmt.Sprintf("bad work %d", n)
	}
	return "good work by " + id.String()
}

// Check looks for bad work.
func (a agents) Check(ctx context.Context, job team.CheckJob) (team.Outcome, error) {
	var failed *team.Failure
	_, err := call(a.p, "Check."+job.Check, false, func() (any, error) {
		names, _ := filepath.Glob(filepath.Join(job.Dir, "*.txt"))
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err == nil && strings.HasPrefix(string(data), "bad") {
				failed = team.Failf(team.TestFailure, "%s: %s", filepath.Base(name), data)
			}
		}
		return nil, nil
	})
	switch {
	case err != nil:
		return team.Outcome{}, err
	case failed != nil:
		return team.Outcome{}, failed
	case job.Check != "merged" || a.p.world.plan.SlowCheck == 0 || !a.p.world.first():
		return team.Outcome{}, nil
	}
	timer := time.NewTimer(a.p.world.plan.SlowCheck.Std())
	defer timer.Stop()
	select {
	case <-timer.C:
		return team.Outcome{}, nil
	case <-ctx.Done():
		return team.Outcome{}, context.Cause(ctx)
	}
}

// Reported: no program notes what it has used.
func (a agents) Reported(string, team.WorkDir) (used, estimate team.Usage, ok bool) {
	return used, estimate, false
}

func (a agents) Continuable(string, team.WorkDir) bool { return false }
func (a agents) Sweep(team.WorkDir) error              { return nil }
func (a agents) Removed(team.WorkDir) int64            { return 0 }
func (a agents) EndStopped()                           {}
func (a agents) Forget(team.WorkDir) error             { return nil }
func (a agents) Offered(name string) team.OfferedAgent { return a.p.world.offered(name) }
func (a agents) Keep(string) []string                  { return nil }
func (a agents) Breaker(name string) team.Breaker      { return team.Breaker{}.For(name) }
func (a agents) Mask(text string) string               { return text }
func (a agents) Secrets() []string                     { return nil }

func (w *world) offered(name string) team.OfferedAgent {
	o := team.OfferedAgent{Kind: "anthropic", Model: "model", Concurrency: 4, Digest: "d", Breaker: name, Conversation: team.InJournal}
	if slices.Contains(w.plan.Programs, name) {
		o.Kind, o.Conversation = "command", ""
	}
	return o
}

// think is how long an answer takes.
func (w *world) think(id team.AssignmentID, n int) time.Duration {
	return time.Duration(hash(w.plan.Seed, "think "+id.String(), n) % uint64(20*time.Second))
}

// provider is a model of a provider, as an assignment's conversation reaches it.
type provider struct {
	p     *process
	id    team.AssignmentID
	brief team.Brief
}

func (m provider) Ask(ctx context.Context, request chat.Request, x chat.Exchange) (chat.Answer, error) {
	w, ex := m.p.world, executionOf(ctx)
	return call(m.p, "Ask", false, func() (chat.Answer, error) {
		n := w.count("ask " + m.id.String())
		w.watch.asksAgain(m.id, ex)
		if err := w.refusal(m.id, n, ex); err != nil {
			w.note(m.p, "provider refuses %s: %v", m.id, err)
			return chat.Answer{}, err
		}
		wait := time.NewTimer(w.think(m.id, n))
		defer wait.Stop()
		select {
		case <-wait.C:
		case <-ctx.Done():
			return chat.Answer{}, context.Cause(ctx)
		}
		if err := w.outage("provider"); err != nil { // in the middle of an answer
			return chat.Answer{}, err
		}
		answer := m.answer(request, n)
		w.watch.asForecast(m.id, &answer.Usage)
		w.delivered(m.id, answer.Usage)
		_ = x.Hear(chat.Event{Usage: &answer.Usage, Whole: true})
		return answer, nil
	})
}

// answer is what the model says: some turns of looking, one that writes, one that ends.
func (m provider) answer(request chat.Request, n int) chat.Answer {
	turn := (len(request.Messages) + 1) / 2
	a := chat.Answer{Stop: chat.Done, Usage: team.Usage{InputTokens: 500 + int64(hash(m.p.world.plan.Seed, "in", n)%2000), OutputTokens: 100 + int64(hash(m.p.world.plan.Seed, "out", n)%900)}}
	call := chat.Call{ID: "c" + strconv.Itoa(turn), Name: "list", Arguments: "{}"}
	switch turns := m.p.world.plan.Turns[m.id.String()]; {
	case turn == turns:
		call.Name, call.Arguments = "write", fmt.Sprintf(`{"path": %q, "content": %q}`, m.id.Persona+".txt", m.p.world.content(m.brief))
	case turn > turns:
		call.Name, call.Arguments = "finish", `{"summary": "done"}`
	}
	a.Calls = []chat.Call{call}
	return a
}

// refusal is what the provider answers instead of working.
func (w *world) refusal(id team.AssignmentID, n int, ex *execution) error {
	for _, l := range w.plan.Limited {
		if l.Of == id.String() && l.N == n {
			f := &chat.Fault{Status: l.Status, Message: "slow down", Header: http.Header{}}
			if l.RetryAfter > 0 {
				f.Header.Set("Retry-After", strconv.Itoa(l.RetryAfter))
				w.watch.askedToWait(id, time.Duration(l.RetryAfter)*time.Second, ex)
			}
			return f
		}
	}
	return w.outage("provider")
}

// outage is the provider's error while it is away.
func (w *world) outage(what string) error {
	for _, o := range w.plan.Windows {
		if o.What == what && w.within(o) {
			return &chat.Fault{Status: o.Status, Message: "out of order", Header: http.Header{}}
		}
	}
	return nil
}

// breakers are the circuit breakers of the store: the real machine, reached through
// Temporal.
type breakers struct{ p *process }

func (b breakers) ask(op, id string, set team.Breaker, e breaker.Event) (breaker.Answer, error) {
	w := b.p.world
	return call(b.p, op, false, func() (breaker.Answer, error) {
		if w.away("temporal") || w.away("breaker") {
			return breaker.Answer{}, errAway
		}
		return w.applyBreaker(id, set, e), nil
	})
}

func (b breakers) Read(_ context.Context, name string) (breaker.View, error) {
	answer, err := b.ask("Breaker.Read", "", team.Breaker{}.For(name), nil)
	return answer.View, err
}

func (b breakers) Report(_ context.Context, r team.BreakerReport) (breaker.Answer, error) {
	return b.ask("Breaker.Report", r.ID, r.Breaker, breaker.Report{
		Outcome: r.Outcome, Generation: r.Generation, Holder: r.Holder, Category: r.Category, Message: r.Message,
	})
}

func (b breakers) Acquire(_ context.Context, id string, set team.Breaker, holder string) (breaker.Answer, error) {
	return b.ask("Breaker.Acquire", id, set, breaker.Acquire{Holder: holder})
}

func (b breakers) Renew(_ context.Context, id string, set team.Breaker, holder string) (breaker.Answer, error) {
	return b.ask("Breaker.Renew", id, set, breaker.Renew{Holder: holder})
}

// applyBreaker changes a breaker, once for each id.
func (w *world) applyBreaker(id string, set team.Breaker, e breaker.Event) breaker.Answer {
	w.mu.Lock()
	defer w.mu.Unlock()
	state := w.breakers[set.Name]
	answer := breaker.Answer{View: breaker.View{Name: set.Name, Since: w.began, Settings: set, State: state}}
	if e == nil {
		return answer
	}
	if before, ok := w.answered[id]; ok {
		return before
	}
	before := state
	answer.State, answer.Effect = breaker.Apply(state, breaker.SettingsOf(set), e, time.Now(), 0.5)
	w.breakers[set.Name], w.answered[id] = answer.State, answer
	w.watchBreaker(set.Name, before, answer, e)
	return answer
}
