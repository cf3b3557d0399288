package simulator

import (
	"context"
	"fmt"
	"time"

	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/state"
)

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
