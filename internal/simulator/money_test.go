package simulator

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/spec"
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

// ledgerWritten looks at a ledger that is about to be written.
func (w *world) ledgerWritten(l budget.Ledger) {
	over := int64(2 * dearest) // as much as two calls at once may cost more than anybody could know
	if w.plan.AsForecast {
		over = w.watch.unnoted.Load()
	}
	hold := func(scope string, phase string) {
		limit, spent := l.Budget(scope)
		reserved := int64(0)
		for _, id := range w.plan.Team.Assignments() {
			for _, amount := range l.Row(id).Reserved {
				if phase == "" || id.Phase == phase {
					reserved += amount.Tokens
				}
			}
		}
		if limit.Tokens > 0 && spent.Tokens+reserved > limit.Tokens+over {
			w.watch.broke("P4", "spent %d and reserved %d tokens pass the cap of %d of the %s", spent.Tokens, reserved, limit.Tokens, scope)
		}
	}
	hold(budget.SessionScope, "")
	for _, p := range w.plan.Team.Phases {
		hold(budget.PhaseScope(p.Name), p.Name)
	}
}

// dearest is what an answer costs at most.
const dearest = 3500

// money holds the ledger against what providers have delivered.
func (v *watch) money() {
	w := v.world
	l := w.ledgerOf()
	if r := l.Reserved(); r != (cost.Amount{}) && v.end == nil {
		v.broke("P4", "%d tokens are still reserved after the session's end", r.Tokens)
	}
	for _, id := range w.plan.Team.Assignments() {
		j, err := w.store.Journal(w.key, id)
		if err != nil {
			v.broke("P7", "the journal of %s cannot be read: %v", id, err)
			continue
		}
		v.mu.Lock()
		delivered, paid := v.calls[id], v.paid[id]
		v.mu.Unlock()
		if known := len(j.Calls()); known < delivered {
			v.broke("P3", "%s: %d answers were delivered, and the journal has %d calls", id, delivered, known)
		}
		seen := map[string]bool{}
		for _, call := range j.Calls() {
			if call.State == budget.Unsettled && call.Usage.Tokens()+call.Estimate.Tokens() == 0 {
				v.broke("P3", "%s: an unsettled call is estimated at nothing", id)
			}
			if call.Answer == "" {
				continue
			}
			key := fmt.Sprintf("%d %d %s", call.Key.Epoch, call.Key.Turn, call.Request)
			if w.plan.Conflict != nil && w.plan.integrates(id) { // each round on an unsettled conflict begins afresh
				key += fmt.Sprint(" ", call.Key.Round)
			}
			if w.plan.Bad[id.String()] == 0 && !v.helped(id) && w.plan.Conflict == nil { // nobody had a reason to begin it afresh
				key = fmt.Sprintf("%d %s", call.Key.Turn, call.Request)
			}
			if seen[key] {
				v.broke("P3", "%s: the answer of turn %d was stored, and paid for again", id, call.Key.Turn)
			}
			seen[key] = true
		}
		v.balanced(id, l, j, paid)
	}
}

// balanced holds an assignment's row of the ledger against its journal, and both against
// what was delivered: the cost of each answer is known, or its call is unsettled.
func (v *watch) balanced(id spec.AssignmentID, l budget.Ledger, j *budget.Journal, paid cost.Usage) {
	var known, estimated cost.Usage
	unknown := int64(0)
	for _, call := range j.Calls() {
		known = known.Add(call.Usage)
		if call.State == budget.Unsettled {
			estimated = estimated.Add(call.Estimate)
		}
		if call.State == budget.Unsettled || call.State == budget.Begun || call.State == budget.Closed {
			unknown++
		}
	}
	if spent := l.Row(id).Usage(); spent.Tokens() != known.Tokens() {
		v.broke("P3", "%s: by the journal %d tokens were spent, by the ledger %d", id, known.Tokens(), spent.Tokens())
	}
	if has := l.Row(id).Estimated(); has.Tokens() != estimated.Tokens() {
		v.broke("P3", "%s: by the journal %d tokens are unsettled, by the ledger %d", id, estimated.Tokens(), has.Tokens())
	}
	if missing := paid.Tokens() - known.Tokens(); missing < 0 || missing > unknown*dearest {
		v.broke("P3", "%s: %d tokens were delivered; %d are known, and %d calls are unsettled", id, paid.Tokens(), known.Tokens(), unknown)
	}
}

// writtenOff has a person count all unsettled calls as nothing, and holds the team's day
// against the session's ledger.
func (v *watch) writtenOff() {
	w := v.world
	if w.plan.Team.Budget.Daily.Tokens == 0 || w.anyFrozen(time.Now()) {
		return
	}
	for _, id := range w.plan.Team.Assignments() {
		j, err := w.store.Journal(w.key, id)
		if err != nil {
			continue // said elsewhere
		}
		for _, call := range slices.Clone(j.Calls()) {
			if call.State != budget.Unsettled {
				continue
			}
			e := budget.Entry{Seq: j.Next(), At: time.Now().UTC(), Call: call.ID, Kind: budget.Closed, Usage: &cost.Usage{}, By: "ann"}
			if err = errors.Join(w.store.AppendEntry(w.key, id, e), j.Apply(e)); err == nil {
				err = w.store.UpdateLedger(w.key, func(l *budget.Ledger) error {
					l.SetRow(id, j.Row(l.Row(id).Reserved), time.Now().UTC())
					return nil
				})
			}
			if err != nil {
				v.broke("P4", "a call cannot be written off: %v", err)
			}
		}
	}
	day, err := w.store.Day(w.key.Namespace, w.plan.Team.Name)
	if err != nil {
		v.broke("P7", "the team's day cannot be read: %v", err)
		return
	}
	l := w.ledgerOf()
	if has, is := day.Sum(), l.On(day.Date); has.Spent != is.Spent || has.Unsettled != is.Unsettled || has.Reserved != is.Reserved {
		v.broke("P4", "the team's day has %+v, and its only session's ledger %+v", has, is)
	}
}

// lose removes the session's ledger. What was set aside for a call that its journal has not
// noted yet is lost with it.
func (w *world) lose() {
	l := w.ledgerOf()
	for _, id := range w.plan.Team.Assignments() {
		j, err := w.store.Journal(w.key, id)
		for call, amount := range l.Row(id).Reserved {
			if err == nil && j.Call(call).ID == 0 {
				w.watch.unnoted.Add(amount.Tokens)
			}
		}
	}
	if dir, err := w.store.SessionDir(w.key); err == nil {
		paths, _ := filepath.Glob(filepath.Join(dir, "*ledger*.json"))
		for _, path := range paths {
			_ = os.Remove(path)
			w.note(nil, "%s is lost", filepath.Base(path))
		}
	}
}
