package activities_test

import (
	"context"
	"errors"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/secrets"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// agents plays the worker's agents in place of processes.
type agents struct {
	run   func(ctx context.Context, job session.Job) (session.Outcome, error)
	check func(job session.CheckJob) error
	// checkIn, if set, is called in place of check.
	checkIn func(ctx context.Context) error
	// fills answers whether a check fills caches; nil: it does not.
	fills func() bool
	runs  []session.Brief
	// conversation is where it is kept.
	conversation spec.Conversation
	// gateway names the providers that it reaches through the gateway.
	gateway []string
	// lacks is an agent that the worker does not have.
	lacks string
	// continuable: there is one that can continue, noted as note has it.
	continuable bool
	note        session.Conversation
	// reserve is what an attempt may cost, and paid the call that it is.
	reserve cost.Amount
	paid    session.Call
	// breaker is how every agent's breaker is set.
	breaker spec.Breaker
	// secrets are what no artifact may hold.
	secrets *secrets.Set
	// reported is what a program's files tell of the call under way; nil: nothing.
	reported *cost.Usage
	// survives is why processes of an earlier attempt cannot be ended; nil: there are none.
	survives error
}

func (a *agents) Run(ctx context.Context, job session.Job) (session.Outcome, error) {
	a.runs = append(a.runs, job.Brief)
	out, err := a.attempt(ctx, job)
	if errors.Is(err, errKilled) {
		panic(err) // nobody notes how that ended
	}
	return out, err
}

func (a *agents) attempt(ctx context.Context, job session.Job) (session.Outcome, error) {
	if a.conversation == spec.InCalls { // it is paid by the call
		return a.run(ctx, job)
	}
	paid, err := job.Calls.Begin(ctx, session.CallPlan{Whole: true, Agent: job.Agent, Want: a.reserve, Least: a.reserve})
	if err != nil {
		return session.Outcome{}, err
	}
	a.paid = paid
	out, err := a.run(ctx, job)
	return out, errors.Join(err, paid.Settle(ctx, nil, out.Usage))
}

func (a *agents) Check(ctx context.Context, job session.CheckJob) (session.Outcome, error) {
	if a.checkIn != nil {
		return session.Outcome{}, a.checkIn(ctx)
	}
	return session.Outcome{}, a.check(job)
}

func (a *agents) Offered(agent string) spec.OfferedAgent {
	if agent == a.lacks {
		return spec.OfferedAgent{}
	}
	return spec.OfferedAgent{Kind: "command", Conversation: a.conversation, Gateway: a.gateway}
}
func (a *agents) Breaker(agent string) spec.Breaker { return a.breaker.For(agent) }

func (a *agents) Conversation(string, session.WorkDir) (session.Conversation, bool) {
	return a.note, a.continuable
}

func (a *agents) ConversationFiles(string, string) []string {
	if a.conversation != spec.InDirectory {
		return nil
	}
	return []string{"talk/**"}
}

func (a *agents) NoteConversation(_ session.WorkDir, c session.Conversation) error {
	a.note, a.continuable = c, true
	return nil
}

func (a *agents) Reported(string, session.WorkDir, string) (used, estimate cost.Usage, ok bool) {
	if a.reported == nil {
		return used, estimate, false
	}
	return *a.reported, cost.Usage{InputTokens: 12_000}, true
}

func (a *agents) Sweep(session.WorkDir) error { return a.survives }

func (a *agents) Removed(session.WorkDir) (int64, bool) { return 0, false }

func (a *agents) EndStopped() {}

func (a *agents) Forget(session.WorkDir) error {
	a.continuable, a.note = false, session.Conversation{}
	return nil
}

func (a *agents) Keep(string) []string                         { return nil }
func (a *agents) FillsCaches(string, string, spec.Digest) bool { return a.fills != nil && a.fills() }
func (a *agents) Mask(text string) string                      { return text }
func (a *agents) Secrets() *secrets.Set                        { return a.secrets }
