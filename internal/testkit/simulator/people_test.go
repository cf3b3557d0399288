package simulator

import (
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/testsuite"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/workflows"
)

// visits has people look at the session: at the times of the plan, and every hour, when
// they answer what is asked.
func (w *world) visits(env *testsuite.TestWorkflowEnvironment) {
	for _, v := range w.plan.Visits {
		if v.Does == "raise-at-end" {
			w.atEnd = func() { env.RegisterDelayedCallback(func() { w.visit(env, "raise") }, 500*time.Millisecond) }
			continue
		}
		env.RegisterDelayedCallback(func() { w.visit(env, v.Does) }, v.At.Std()+1)
	}
	if w.plan.Cancel > 0 {
		env.RegisterDelayedCallback(func() {
			w.note(nil, "a person cancels")
			w.watch.cancelled = true
			env.CancelWorkflow()
		}, w.plan.Cancel.Std()+1)
	}
	var again func()
	again = func() {
		w.visit(env, "answer")
		env.RegisterDelayedCallback(again, time.Hour)
	}
	env.RegisterDelayedCallback(again, time.Hour)
}

func (w *world) status(env *testsuite.TestWorkflowEnvironment) (s session.Status, ok bool) {
	value, err := env.QueryWorkflow(workflows.StatusQuery)
	if err != nil || value.Get(&s) != nil {
		return s, false
	}
	return s, true
}

func (w *world) visit(env *testsuite.TestWorkflowEnvironment, does string) {
	s, ok := w.status(env)
	if !ok {
		return
	}
	w.watch.seen(s)
	n := w.count("visit")
	say := func(verb session.Action, h session.Request, id string) {
		a := session.Answer{Request: h.ID, Action: verb, Note: "do it well", By: "ann"}
		if h.Quorum != nil { // the second person comes later
			a.Person, a.Group = []string{"ann", "bob"}[min(len(h.Quorum.Approvals), 1)], "leads"
		}
		env.UpdateWorkflow(workflows.ResolveUpdate, id, &reply{w, h.ID, 0}, a)
	}
	switch does {
	case "stale":
		env.UpdateWorkflow(workflows.ResolveUpdate, fmt.Sprintf("stale-%d", n), &reply{w, "stale", 0},
			session.Answer{Request: "help-99", Action: session.AnswerRetry})
	case "raise":
		env.UpdateWorkflow(workflows.RaiseUpdate, fmt.Sprintf("raise-%d", n), &reply{w, "raise", 100_000},
			workflows.Raise{Tokens: 100_000, By: "ann"})
	case "retry", "answer", "twice":
		for i, h := range s.Help {
			w.watch.asked(h)
			id := fmt.Sprintf("answer-%d-%d", n, i)
			switch h.Kind {
			case session.ForBudget:
				r := workflows.Raise{Tokens: 200_000, By: "ann"}
				_, rest, _ := strings.Cut(h.Message, "budget of phase ")
				r.Phase, _, _ = strings.Cut(rest, " ")
				to := &reply{w: w, of: h.ID}
				to.tokens = r.Tokens
				env.UpdateWorkflow(workflows.RaiseUpdate, id, to, r)
			case session.ForApproval:
				say(session.AnswerApprove, h, id)
			default:
				say(session.AnswerRetry, h, id)
			}
			if does == "twice" {
				say(session.AnswerRetry, h, id+"-again")
			}
		}
	}
}

// reply hears what becomes of an update.
type reply struct {
	w  *world
	of string
	// tokens is what a raise adds.
	tokens int64
}

func (r *reply) Accept() {
	r.w.watch.accepted(1)
	r.w.watch.answered(r.of)
	if r.tokens > 0 && r.w.closing.Load() {
		r.w.watch.broke("P9", "a raise is taken when how the session ends is decided")
	}
}

func (r *reply) Reject(err error) {
	r.w.note(nil, "answer %s refused: %v", r.of, err)
	if strings.Contains(err.Error(), "unknown update") {
		r.w.watch.broke("P9", "an answer is refused as %v", err)
	}
}

func (r *reply) Complete(answer any, err error) {
	r.w.watch.accepted(-1)
	if raised, ok := answer.(activities.Raised); ok && err == nil && raised.Scope == budget.SessionScope {
		r.w.watch.raisedBy(r.tokens)
	}
	r.w.note(nil, "answer %s heeded: %v", r.of, err)
}
