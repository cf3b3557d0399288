package simulator

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/state"
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

// delivered hears of an answer that a provider has delivered, and charges for.
func (w *world) delivered(id spec.AssignmentID, u cost.Usage) {
	v := &w.watch
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.paid == nil {
		v.paid, v.calls = map[spec.AssignmentID]cost.Usage{}, map[spec.AssignmentID]int{}
	}
	v.paid[id] = v.paid[id].Add(u)
	v.calls[id]++
}

func (v *watch) grants(id spec.AssignmentID, granted cost.Amount) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.granted == nil {
		v.granted = map[spec.AssignmentID]cost.Amount{}
	}
	v.granted[id] = granted
}

// asForecast has an answer cost no more than was set aside for it, if the plan says so.
func (v *watch) asForecast(id spec.AssignmentID, u *cost.Usage) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if most := v.granted[id].Tokens; v.world.plan.AsForecast && most > 0 {
		u.InputTokens, u.OutputTokens = min(u.InputTokens, most/2), min(u.OutputTokens, most/2)
	}
}

// withinCaps looks at the budgets of an assignment after a reservation.
func (w *world) withinCaps(a state.Assignment) {
	over := int64(2 * dearest) // as much as two calls at once may cost more than anybody could know
	if w.plan.AsForecast {
		over = 0
	}
	for _, b := range w.budgets(a.AssignmentID) {
		if used := b.Held().Tokens + b.Reserved.Tokens; b.Cap.Tokens > 0 && used > b.Cap.Tokens+over {
			w.watch.broke("P4", "%d tokens are spent and reserved, which passes the cap of %d of the %s", used, b.Cap.Tokens, b.Scope())
		}
	}
}

// budgets are those of an assignment, as they are in the database.
func (w *world) budgets(id spec.AssignmentID) []budget.Budget {
	budgets, err := w.store.State.Budgets(context.Background(), state.Assignment{Key: w.key, AssignmentID: id}, w.plan.Team.Name)
	if err != nil {
		w.watch.broke("P7", "the budgets cannot be read: %v", err)
	}
	return budgets
}

// account is what the session has cost.
func (w *world) account() state.Account {
	a, err := w.store.State.Account(context.Background(), w.key)
	if err != nil {
		w.watch.broke("P7", "the costs cannot be read: %v", err)
	}
	return a
}

// callsOf lists the calls of an assignment; of all, if none is given.
func (w *world) callsOf(id spec.AssignmentID) []state.Call {
	calls, err := w.store.State.Calls(context.Background(), state.Assignment{Key: w.key, AssignmentID: id})
	if err != nil {
		w.watch.broke("P7", "the calls of %s cannot be read: %v", id, err)
	}
	return calls
}

// assignmentOf is the assignment of a call.
func (w *world) assignmentOf(call string) spec.AssignmentID {
	for _, c := range w.callsOf(spec.AssignmentID{}) {
		if c.ID == call {
			return c.AssignmentID
		}
	}
	return spec.AssignmentID{}
}

// dearest is what an answer costs at most.
const dearest = 3500

// money compares the calls with what providers have delivered.
func (v *watch) money() {
	w := v.world
	account := w.account()
	if r := account.Of(spec.AssignmentID{}).Reserved; r != (state.OpenCalls{}) && v.end == nil {
		v.broke("P4", "%d tokens are still reserved after the session's end", r.Tokens)
	}
	for _, id := range w.plan.Team.Assignments() {
		calls := w.callsOf(id)
		v.mu.Lock()
		delivered, paid := v.calls[id], v.paid[id]
		v.mu.Unlock()
		if len(calls) < delivered {
			v.broke("P3", "%s: %d answers were delivered, and there are %d calls", id, delivered, len(calls))
		}
		seen := map[string]bool{}
		for _, call := range calls {
			if call.State == state.CallUnsettled && call.Spent() == (cost.Amount{}) {
				v.broke("P3", "%s: an unsettled call is estimated at nothing", id)
			}
			if call.Answer == "" {
				continue
			}
			key := fmt.Sprintf("%d %s", call.Pass, call.Request)
			if w.plan.Conflict != nil && w.plan.integrates(id) { // each round on an unsettled conflict begins afresh
				key += fmt.Sprint(" ", call.Round)
			}
			if w.plan.Bad[id.String()] == 0 && !v.helped(id) && w.plan.Conflict == nil { // nobody had a reason to begin it afresh
				key = call.Request
			}
			if seen[key] {
				v.broke("P3", "%s: the answer of call %d was stored, and paid for again", id, call.Call)
			}
			seen[key] = true
		}
		v.balanced(id, account.Of(id), calls, paid)
	}
}

// balanced compares the sums of an assignment with its calls, and both with
// what was delivered: the cost of each answer is known, or its call is unsettled.
func (v *watch) balanced(id spec.AssignmentID, sum state.Cost, calls []state.Call, paid cost.Usage) {
	var known cost.Usage
	estimated, unknown := int64(0), int64(0)
	for _, call := range calls {
		known = known.Add(call.Usage)
		if call.State == state.CallUnsettled {
			estimated += call.Estimated.Tokens
		}
		if call.State == state.CallUnsettled || call.State == state.CallBegun || call.State == state.CallClosed {
			unknown++
		}
	}
	if sum.Usage.Tokens() != known.Tokens() || sum.Unsettled.Tokens != estimated {
		v.broke("P4", "%s: the calls have %d tokens and %d estimated, their sums %d and %d", id, known.Tokens(), estimated,
			sum.Usage.Tokens(), sum.Unsettled.Tokens)
	}
	if missing := paid.Tokens() - known.Tokens(); missing < 0 || missing > unknown*dearest {
		v.broke("P3", "%s: %d tokens were delivered; %d are known, and %d calls are unsettled", id, paid.Tokens(), known.Tokens(),
			unknown)
	}
}

// writtenOff has a person count all unsettled calls as nothing, and compares the team's day
// with the calls that began on it.
func (v *watch) writtenOff() {
	w := v.world
	if w.plan.Team.Budget.Daily.Tokens == 0 || w.anyFrozen(time.Now()) {
		return
	}
	for _, call := range w.callsOf(spec.AssignmentID{}) {
		if call.State == state.CallUnsettled {
			if err := w.store.State.CloseCall(context.Background(), call.ID, cost.Usage{}, "ann", ""); err != nil {
				v.broke("P4", "a call cannot be written off: %v", err)
			}
		}
	}
	day, err := w.store.State.Day(context.Background(), w.plan.Team.Name)
	if err != nil {
		v.broke("P7", "the team's day cannot be read: %v", err)
		return
	}
	var spent, reserved cost.Amount
	for _, call := range w.callsOf(spec.AssignmentID{}) {
		if call.Day == day.Date {
			spent, reserved = spent.Add(call.Spent()), reserved.Add(call.Reserved)
		}
	}
	if day.Held() != spent || day.Reserved != reserved {
		v.broke("P4", "the team's day has %+v and %+v reserved, and its only session's calls %+v and %+v", day.Held(), day.Reserved,
			spent, reserved)
	}
}

// continued is how many runs continue as new, at most.
const continued = 4

// suggest has Temporal suggest to continue as new during a run.
func (w *world) suggest(env *testsuite.TestWorkflowEnvironment, d *delivery, in workflows.SessionInput, n int) {
	if in.Continued != nil {
		d.chain = w.chain
	}
	w.chain = d.chain
	if w.plan.Continue > 0 && n <= continued {
		env.RegisterDelayedCallback(func() { env.SetContinueAsNewSuggested(true) }, w.plan.Continue.Std())
	}
}

// continues is the input of the run that continues another as new, and looks at what that
// has handed over.
func (w *world) continues(err *workflow.ContinueAsNewError) (in workflows.SessionInput) {
	if err := converter.GetDefaultDataConverter().FromPayloads(err.Input, &in); err != nil {
		panic(err)
	}
	for _, r := range in.Continued.Requests {
		w.note(nil, "request %s is handed over", r.ID)
		w.watch.asked(r.Request)
	}
	w.watch.handedOver(in.Continued)
	return in
}

// handedOver hears which requests a run hands over to the next one.
func (v *watch) handedOver(before *workflows.SessionState) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.open = map[string]string{}
	for _, r := range before.Requests {
		if r.Answer == nil && r.Kind == session.ForHelp {
			v.open[r.Phase+"/"+r.Persona] = r.ID
		}
	}
}

// answered hears that an answer to a request was accepted.
func (v *watch) answered(id string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	maps.DeleteFunc(v.open, func(_, open string) bool { return open == id })
}
