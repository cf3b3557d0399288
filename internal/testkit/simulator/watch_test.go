package simulator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/maestro-hive/maestro/breaker"
	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// watch holds what happens against the promises of the design.
type watch struct {
	world *world
	mu    sync.Mutex
	// broken lists the promises that were broken, and how.
	broken    []string
	cancelled bool
	// help counts the requests that people saw.
	help map[string]session.Request
	// open has, by assignment, the requests for help that the last run has handed over.
	open map[string]string
	// results are the rounds whose result was recorded.
	results map[activityKey]bool
	// finished are the assignments whose work was recorded.
	finished map[spec.AssignmentID]bool
	// newest are the assignments' newest activities.
	newest map[spec.AssignmentID]*task
	// startedBy has, by assignment, the process that has noted that the agent starts;
	// losses counts those that died then.
	startedBy map[spec.AssignmentID]*process
	losses    map[spec.AssignmentID]int
	// advanced are those for which an answer was stored since the agent was started last;
	// inRow counts the losses since.
	advanced map[spec.AssignmentID]bool
	inRow    map[spec.AssignmentID]int
	// paid is what providers have delivered.
	paid      map[spec.AssignmentID]cost.Usage
	calls     map[spec.AssignmentID]int
	failures  map[string]int
	state     session.State
	end       error
	documents map[string]string
	// pending counts answers that were accepted and not yet heeded; added is by how many
	// tokens people have raised the session's budget.
	pending int
	added   int64
	// granted is what was set aside for an assignment's newest call.
	granted map[spec.AssignmentID]cost.Amount
	// until is when providers may be asked again.
	until map[spec.AssignmentID]refused
	// refusals are the executions that heard a rejection of which no person was seen to be told.
	refusals map[spec.AssignmentID]*execution
}

// activityKey names an activity of the runs that continue each other as new.
type activityKey struct{ chain, activity string }

// refused is a provider's wish not to be asked for a while.
type refused struct {
	at    time.Time
	since time.Time
	// by is the execution that heard it; recorded: the assignment's record has it.
	by       *execution
	recorded bool
}

func (v *watch) accepted(n int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.pending += n
}

func (v *watch) raisedBy(n int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.added += n
}

// askedToWait hears that a provider wants not to be asked again for a while.
func (v *watch) askedToWait(id spec.AssignmentID, d time.Duration, by *execution) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.until[id] = refused{at: time.Now().Add(d), since: time.Now(), by: by}
}

// asksAgain hears that a provider is asked. A wish that died with the process that heard
// it is nobody's fault; a person who resumes the session has providers asked at once.
func (v *watch) asksAgain(id spec.AssignmentID, by *execution) {
	v.mu.Lock()
	until, known := v.until[id]
	v.mu.Unlock()
	if !known || until.by.task.delivery.chain != by.task.delivery.chain {
		return
	}
	if early := time.Until(until.at); early > time.Second && (until.recorded || !until.by.p.isDead()) {
		v.broke("P2", "the provider of %s is asked again %s before its Retry-After", id, early.Round(time.Second))
	}
	if asked := until.at.Sub(until.since); asked > slotKept && until.by == by && !by.p.wasFrozen(until.since) {
		v.broke("P6", "%s kept its agent's slot for a wait of %s", id, asked)
	}
}

// slotKept is how long a round that waits for a provider may keep its agent's slot.
const slotKept = time.Minute

func (v *watch) broke(promise, format string, args ...any) {
	v.mu.Lock()
	line := promise + ": " + fmt.Sprintf(format, args...)
	known := slices.Contains(v.broken, line)
	if !known {
		v.broken = append(v.broken, line)
	}
	v.mu.Unlock()
	if !known {
		v.world.note(nil, "BROKEN %s", line)
	}
}

// scheduled hears that a round, or what continues with one, is scheduled.
func (v *watch) scheduled(id spec.AssignmentID, t *task) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.newest[id] = t
}

// recorded hears of a round that was written.
func (w *world) recorded(ctx context.Context, p *process, id spec.AssignmentID, round session.RoundRecord) {
	v := &w.watch
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.startedBy, id)
	if round.Result != nil {
		v.results[activityKey{executionOf(ctx).task.delivery.chain, round.Activity}] = true
		v.finished[id] = v.finished[id] || !round.Integrating && !round.Stale()
	}
	if round.AtWork {
		v.startedBy[id] = p
	}
	n := len(round.Attempts)
	waits := round.Outage != nil && round.Outage.Failure.RetryAfter > 0 || n > 0 && round.Attempts[n-1].Failure.RetryAfter > 0
	if until, ok := v.until[id]; ok && waits && until.by.p == p {
		until.recorded = true
		v.until[id] = until
	}
}

// died hears that a process is killed.
func (v *watch) died(p *process) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for id, by := range v.startedBy {
		if by == p {
			v.losses[id]++
			if v.inRow[id]++; v.advanced[id] {
				v.inRow[id] = 0
			}
			v.advanced[id] = false
		}
	}
}

// agentStarted hears that an agent begins an attempt.
func (w *world) agentStarted(ctx context.Context, p *process, id spec.AssignmentID) {
	w.note(p, "agent starts on %s", id)
	ex := executionOf(ctx)
	if ex == nil {
		return
	}
	v := &w.watch
	key := activityKey{ex.task.delivery.chain, ex.task.id}
	v.mu.Lock()
	v.advanced[id] = false // what was stored before is known by now
	done, newest := v.results[key] || v.finished[id] && !ex.task.mends, v.newest[id]
	v.mu.Unlock()
	// One of an earlier run may be stopped at this very point.
	if ex.task != newest && ex.task.delivery == newest.delivery {
		v.broke("P8", "%s is executed by %s, which %s has followed", id, ex.task.id, newest.id)
	}
	if done {
		v.broke("P1", "%s is executed again by %s, though it is recorded", id, ex.task.id)
	}
}

// watchBreaker looks at each change of a breaker.
func (w *world) watchBreaker(name string, before session.BreakerStatus, answer breaker.Answer, e breaker.Event) {
	v, wasOpen, isOpen := &w.watch, before.State == session.BreakerIsOpen, answer.State == session.BreakerIsOpen
	if r, ok := e.(session.BreakerReport); ok && answer.Effect == breaker.Applied {
		if r.Outcome == failures.CountsAsFailure && r.Category == failures.TestFailure {
			v.broken = append(v.broken, fmt.Sprintf("P5: wrong work counts against breaker %s", name))
		}
		if r.Outcome != failures.Neutral && r.Category == failures.InvalidRequest || r.Outcome == failures.CountsAsFailure &&
			r.Category == failures.ContextOverflow {
			v.broken = append(v.broken, fmt.Sprintf("P5: a rejected request (%s) counts for breaker %s as %s", r.Category, name,
				r.Outcome))
		}
		if wasOpen && r.Outcome == failures.CountsAsSuccess && isOpen {
			v.broken = append(v.broken, fmt.Sprintf("P5: breaker %s stays open after a probe's success", name))
		}
		if v.failures == nil {
			v.failures = map[string]int{}
		}
		switch r.Outcome {
		case failures.CountsAsFailure:
			v.failures[name]++
		case failures.CountsAsSuccess:
			if !wasOpen {
				v.failures[name] = 0
			}
		case failures.Neutral:
		}
	}
	if !wasOpen && isOpen && v.failures[name] < 5 {
		v.broken = append(v.broken, fmt.Sprintf("P5: breaker %s opens after %d failures", name, v.failures[name]))
	}
	if !wasOpen && !isOpen && v.failures[name] >= 5 {
		v.broken = append(v.broken, fmt.Sprintf("P5: breaker %s stays closed after %d failures", name, v.failures[name]))
	}
	if wasOpen != isOpen {
		v.failures[name] = 0
	}
	if len(answer.Probes) > 1 {
		v.broken = append(v.broken, fmt.Sprintf("P5: breaker %s has %d probes", name, len(answer.Probes)))
	}
}

// seen looks at a status that somebody saw.
func (v *watch) seen(s session.Status) {
	for _, h := range s.Help {
		v.asked(h)
		if h.Command == "" {
			v.broke("P9", "request %s says no command to go on with", h.ID)
		}
	}
	of := map[string]int{}
	for _, h := range s.Help {
		if of[h.Phase+"/"+h.Persona]++; of[h.Phase+"/"+h.Persona] > 1 {
			v.broke("P9", "two requests for %s/%s", h.Phase, h.Persona)
		}
	}
}

func (v *watch) asked(h session.Request) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.help == nil {
		v.help = map[string]session.Request{}
	}
	if _, known := v.help[h.ID]; !known {
		if open := v.open[h.Phase+"/"+h.Persona]; open != "" && h.Kind == session.ForHelp {
			v.mu.Unlock()
			v.broke("P9", "request %s is opened although %s was handed over", h.ID, open)
			v.mu.Lock()
		}
		v.help[h.ID] = h
		if h.Category == failures.InvalidRequest {
			delete(v.refusals, spec.AssignmentID{Phase: h.Phase, Persona: h.Persona})
		}
		line := fmt.Sprintf("asked for help: %s %s/%s: %s: %s", h.ID, h.Phase, h.Persona, h.Category, h.Message)
		v.mu.Unlock()
		v.world.note(nil, "%s", line)
		if !v.world.needsPerson(h) {
			v.broke("P1", "a person is asked for what needs none: %s/%s: %s: %s", h.Phase, h.Persona, h.Category, h.Message)
		}
		v.mu.Lock()
	}
}

// helped reports whether a person was asked about an assignment.
func (v *watch) helped(id spec.AssignmentID) bool {
	for _, h := range v.help {
		if h.Phase == id.Phase && h.Persona == id.Persona {
			return true
		}
	}
	return false
}

// needsPerson reports whether the plan gives reason to ask somebody.
func (w *world) needsPerson(h session.Request) bool {
	if h.Kind == session.ForBudget {
		return w.plan.Team.Budget.Tokens > 0
	}
	if h.Kind == session.ForApproval {
		p, _ := w.plan.Team.Phase(h.Phase)
		return p.Approve.Wanted()
	}
	if h.Category == failures.WorkerLost {
		checkEndsAll := slices.ContainsFunc(w.plan.Faults, func(f Fault) bool { return f.Times > 0 })
		w.watch.mu.Lock()
		defer w.watch.mu.Unlock()
		return checkEndsAll || w.watch.inRow[spec.AssignmentID{Phase: h.Phase, Persona: h.Persona}] >= lostLimit
	}
	if w.plan.failsFast() {
		return true
	}
	if (h.Category == failures.APIError || h.Category == failures.RateLimited) && w.now() >= 30*time.Minute {
		return true // the team's patience is over, which people are told
	}
	id := h.Phase + "/" + h.Persona
	switch h.Category { //nolint:exhaustive // no other one needs a person
	case failures.InvalidRequest:
		return slices.ContainsFunc(w.plan.Limited, func(l Limited) bool { return l.Of == id && l.Status/100 == 4 && l.Status != 429 })
	case failures.ContractViolation:
		usedUp := w.plan.Bad[id] >= w.plan.Team.Personas[h.Persona].Attempts // no round is left for the conflict
		return w.plan.Conflict != nil && (usedUp || w.plan.Conflict.Integrator == "nothing")
	case failures.TestFailure, failures.Unknown, failures.Timeout:
		return w.plan.Bad[id]+w.plan.failingEnds(id) >= w.plan.Team.Retry.Rounds*w.plan.Team.Personas[h.Persona].Attempts
	}
	return false
}

// advances hears that an answer for an assignment is stored.
func (v *watch) advances(id spec.AssignmentID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.advanced[id] = true
}

// lost counts the workers that were lost while an assignment's agent was at work.
func (v *watch) lost(id spec.AssignmentID) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.losses[id]
}

// ended looks at how the session has ended.
func (v *watch) ended(err error) {
	v.end = err
	w := v.world
	e, readErr := w.store.State.Execution(context.Background(), w.key)
	if errors.Is(readErr, session.ErrNotFound) && temporal.IsCanceledError(err) && v.cancelled {
		return // before it was admitted
	}
	if readErr != nil {
		v.broke("P7", "the state cannot be read: %v", readErr)
		return
	}
	v.state = e.Status.Status
	if v.pending > 0 {
		v.broke("P9", "an answer was accepted, and the session ended without heeding it")
	}
	account := w.account()
	if limit := account.Budget(budget.SessionScope).Cap; w.plan.Team.Budget.Tokens > 0 &&
		limit.Tokens < w.plan.Team.Budget.Tokens+v.added {
		v.broke("P4", "the budget was raised by %d tokens, and its cap is %d", v.added, limit.Tokens)
	}
	cancelled := temporal.IsCanceledError(err)
	switch {
	case cancelled && v.cancelled:
		return
	case err != nil:
		v.broke("P1", "the session failed: %v", err)
		return
	}
	if e.Status.Status != session.Completed {
		v.broke("status", "the session completed, and its state says %s", e.Status.Status)
	}
	c, readErr := w.store.Checkpoint(context.Background(), e.Checkpoint)
	if readErr != nil {
		v.broke("P7", "the last checkpoint cannot be read: %v", readErr)
		return
	}
	if newest, err := w.store.Newest(context.Background(), w.key); err != nil || newest.Name != e.Checkpoint {
		v.broke("P8", "the newest checkpoint is %s, and the session ended with %s: %v", newest.Name, e.Checkpoint, err)
	}
	for _, a := range c.Assignments {
		if n := v.lost(a.AssignmentID); a.LostWorkers > n {
			v.broke("P2", "%s counts %d lost workers, and %d were lost", a, a.LostWorkers, n)
		}
		v.counted(a)
	}
	v.approved(c)
	v.nothingDropped(c)
}

// approved holds the approvals of each phase's work against what the team wants.
func (v *watch) approved(c session.Checkpoint) {
	for _, p := range v.world.plan.Team.Phases {
		persons := map[string]bool{}
		for _, a := range c.Answers {
			if a.Action == session.AnswerApprove && a.Phase == p.Name && a.Work == c.WorkOf(p.Name) {
				persons[a.Person] = true
			}
		}
		if len(persons) < p.Approve.Count {
			v.broke("P9", "phase %s is approved by %d of %d persons", p.Name, len(persons), p.Approve.Count)
		}
	}
}

// counted holds an assignment's counts against what its agent has really failed at.
func (v *watch) counted(a session.CheckpointAssignment) {
	w := v.world
	id := a.String()
	attempts, rounds := w.plan.Team.Personas[a.Persona].Attempts, w.plan.Team.Retry.Rounds
	bad := w.plan.Bad[id]
	if bad >= attempts*rounds {
		bad = attempts * rounds
	}
	own, ends := 0, w.plan.failingEnds(id)
	if w.plan.failsFast() {
		return
	}
	for _, f := range a.Failures {
		if f.Category == failures.Timeout && w.plan.stopped() >= agentLimit {
			return // the worker was stopped for as long as its agent may take
		}
		if f.Category == failures.InvalidRequest { // is shown, and uses up nothing
			continue
		}
		if ends > 0 && (f.Category == failures.Unknown || f.Category == failures.Timeout) {
			own++
			continue
		}
		if f.Category != failures.TestFailure {
			v.broke("P2", "%s has used an attempt for %s: %s", id, f.Category, f.Message)
			continue
		}
		own++
	}
	if w.plan.Lost > 0 { // of earlier runs only the last failures are kept
		return
	}
	if helped := v.helped(a.AssignmentID); !helped && own < bad || own > bad+ends { // told how, it works well
		v.broke("P2", "%s has %d failures of its own, and its agent failed %d times", id, own, bad)
	}
	integrates := w.plan.integrates(a.AssignmentID) && (w.plan.Conflict != nil || v.helped(a.AssignmentID))
	if a.Attempts != own+1 && !integrates {
		v.broke("P2", "%s counts %d attempts with %d failures of its own", id, a.Attempts, own)
	}
}

// remember keeps the session's rows as they are at its end.
func (v *watch) remember() { v.documents = v.read() }

// read reads the rows of the session by table, without those of calls: what was paid is booked at any time.
func (v *watch) read() map[string]string {
	rows, _, err := v.world.store.State.Dump(context.Background(), v.world.key, true)
	if err != nil {
		return nil
	}
	tables := map[string]string{}
	for table, all := range rows {
		for _, row := range all {
			for _, later := range []string{"mirrored", "mirrored_at"} { // a late process may complete the mirror
				delete(row, later)
			}
			line, _ := json.Marshal(row)
			tables[table] += string(line) + "\n"
		}
	}
	delete(tables, "calls")
	return tables
}

// verify looks for damage in the store.
func (v *watch) verify() {
	report, err := v.world.store.VerifyAll(context.Background())
	if err != nil {
		v.broke("P7", "the store cannot be verified: %v", err)
	}
	for _, f := range report.Faults {
		v.broke("P7", "%s: %s", f.Path, f.What)
	}
}

// atEnd looks at the store once nothing is left that could change it.
func (v *watch) atEnd() {
	v.verify()
	after := v.read()
	for path, before := range v.documents {
		if v.cancelled && strings.Contains(path, "assignments") {
			continue // the round that was cancelled may still say how it ended
		}
		if after[path] != before {
			v.broke("P8", "%s was changed after the session's end", path)
		}
	}
	v.money()
}
