package system

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/state"
	"github.com/maestro-hive/maestro/internal/testkit/providertest"
)

// verdict is what a chaos has come to.
type verdict struct {
	assignments, calls, twice, atOnce, lost, attempts, money, stored, processes int
	// what says each fault.
	what []string
	// lostWorkers is how many executions were cut off.
	lostWorkers int
	// handedOver is how many ended because their host could not hold its lease.
	handedOver int
}

func (v *verdict) fault(count *int, format string, args ...any) {
	*count++
	v.what = append(v.what, fmt.Sprintf(format, args...))
}

func (v *verdict) faults() int { return len(v.what) }

func (v *verdict) String() string {
	var b strings.Builder
	for _, line := range []struct {
		what  string
		count int
	}{
		{"assignments", v.assignments},
		{"executions cut off", v.lostWorkers},
		{"executions handed over", v.handedOver},
		{"assignments executed twice", v.twice},
		{"two agents at once", v.atOnce},
		{"assignments lost", v.lost},
		{"attempts or rounds wrongly used", v.attempts},
		{"answers of the provider", v.calls},
		{"faults in the books", v.money},
		{"faults found by verify", v.stored},
		{"processes left", v.processes},
	} {
		fmt.Fprintf(&b, "  %-32s %5d\n", line.what, line.count)
	}
	return b.String()
}

// entry is a line of the chaos' ledger.
type entry struct {
	at                               time.Time
	begins                           bool
	session, phase, persona, process string
}

func (e entry) id() string { return e.session + "/" + e.phase + "/" + e.persona }

func (c *chaos) entries() (all []entry) {
	c.t.Helper()
	data, err := os.ReadFile(c.ledger("chaos"))
	require.NoError(c.t, err)
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		require.Len(c.t, f, 6, line)
		ns, err := strconv.ParseInt(f[0], 10, 64)
		require.NoError(c.t, err)
		all = append(all, entry{time.Unix(0, ns), f[1] == "begin", f[2], f[3], f[4], f[5]})
	}
	slices.SortStableFunc(all, func(a, b entry) int { return a.at.Compare(b.at) })
	return all
}

// judge looks at what is left when all sessions have ended.
func (c *chaos) judge() *verdict {
	c.t.Helper()
	v := &verdict{}
	entries := c.entries()
	judgeAtOnce(v, entries)
	for _, sessionID := range c.sessions {
		c.judgeSession(v, sessionID, entries)
	}
	report, err := c.open().VerifyAll(c.t.Context())
	require.NoError(c.t, err)
	for _, f := range report.Faults {
		v.fault(&v.stored, "verify: %s: %s", f.Path, f.What)
	}
	for _, p := range c.agents() {
		v.fault(&v.processes, "left behind: %s", p)
	}
	return v
}

func (c *chaos) judgeSession(v *verdict, sessionID string, entries []entry) {
	c.t.Helper()
	answer := c.maestro("status", sessionID, "-o", "json")
	var s session.Status
	if err := json.Unmarshal([]byte(answer.stdout), &s); err != nil || s.Status != session.Completed {
		v.fault(&v.lost, "session %s is not completed: %s%s", sessionID, answer.stdout, answer.stderr)
	}
	if strings.HasSuffix(sessionID, "-model") {
		c.judgeMoney(v, sessionID, s)
	}
	for _, p := range s.Phases {
		for _, a := range p.Assignments {
			v.assignments++
			v.lostWorkers += a.LostWorkers
			id := spec.AssignmentID{Phase: p.Name, Persona: a.Persona}
			want := 1
			if p.Name == "design" && strings.HasSuffix(sessionID, "-flaky") {
				want = 2
			}
			if a.Status == session.Completed && a.Attempts != want {
				v.fault(&v.attempts, "%s/%s: %d attempts instead of %d", sessionID, id, a.Attempts, want)
			}
			if !strings.HasSuffix(sessionID, "-model") {
				c.judgeExecutions(v, sessionID, id, a, entries)
			}
		}
	}
}

// judgeAtOnce looks for an agent that notes something of an assignment after another one has begun it.
func judgeAtOnce(v *verdict, entries []entry) {
	at := map[string]string{}
	for _, e := range entries {
		switch {
		case e.begins:
			at[e.id()] = e.process
		case at[e.id()] != e.process:
			v.fault(&v.atOnce, "%s: %s is at work at %s, after %s has begun", e.id(), e.process, e.at, at[e.id()])
		}
	}
}

// judgeExecutions holds the executions of an assignment against its record: none
// may begin after the result was recorded, and none may be unaccounted for.
func (c *chaos) judgeExecutions(v *verdict, sessionID string, id spec.AssignmentID, a session.AssignmentStatus, entries []entry) {
	record, err := c.open().State.Record(c.t.Context(),
		state.Assignment{Key: session.Key{Namespace: c.namespace, Session: sessionID}, AssignmentID: id})
	if err != nil || len(record.Rounds) == 0 || record.Rounds[len(record.Rounds)-1].Result == nil {
		v.fault(&v.lost, "%s/%s has no result: %v", sessionID, id, err)
		return
	}
	ended, executions := record.Rounds[len(record.Rounds)-1].Result.EndedAt, 0
	for _, e := range entries {
		if !e.begins || e.session != sessionID || e.phase != id.Phase || e.persona != id.Persona {
			continue
		}
		executions++
		if e.at.After(ended) {
			v.fault(&v.twice, "%s: executed again after it was recorded", e.id())
		}
	}
	handedOver := c.handedOver(sessionID, id)
	v.handedOver += handedOver
	if executions > a.Attempts+a.LostWorkers+handedOver {
		v.fault(&v.twice, "%s/%s: %d executions for %d attempts, %d lost workers and %d handed over", sessionID, id, executions,
			a.Attempts, a.LostWorkers, handedOver)
	}
	if executions == 0 {
		v.fault(&v.lost, "%s/%s was never executed", sessionID, id)
	}
}

// handedOver counts the executions of an assignment that ended because their host could not hold its lease: they are neither
// attempts nor lost workers.
func (c *chaos) handedOver(sessionID string, id spec.AssignmentID) (count int) {
	of := regexp.MustCompile(`round handed over to another worker.* session=` + sessionID + ` .*phase=` + id.Phase +
		` persona=` + id.Persona + ` `)
	for _, log := range c.logs {
		count += len(of.FindAllString(log.String(), -1))
	}
	return count
}

// callCost is what a provider says that each call costs.
var callCost = cost.Usage{InputTokens: 100, OutputTokens: 10}

// chaosTurns is how many calls each conversation of a model session takes.
const chaosTurns = 5

const chaosModelTeam = `version: 1
name: chaos-model
budget: {tokens: 10000000}
personas:
  architect: {role: Architect, agent: model, instructions: Do the phase.}
  backend: {role: Backend, agent: model, instructions: Do the phase.}
  frontend: {role: Frontend, agent: model, instructions: Do the other half of the phase.}
phases:
  - {name: design, personas: [architect]}
  - {name: build, personas: [backend, frontend]}
`

// provider is a model provider that is down at times, and says what it has answered.
type provider struct {
	mu     sync.Mutex
	random *rand.Rand
	down   time.Time
	// answers counts the good ones, by session and by the request's body.
	answers map[string]map[string]int
	refused int
}

// sessionName finds the session in a request: each session's requirement is its name.
var sessionName = regexp.MustCompile(`chaos-\d+-model`)

// answer is the model: every conversation writes a file in each turn. One call in
// ten is rate limited or fails, and during an outage all are.
func (p *provider) answer(r providertest.Request) providertest.Reply {
	p.mu.Lock()
	defer p.mu.Unlock()
	dice := p.random.IntN(40)
	switch {
	case time.Now().Before(p.down) || dice == 0:
		p.refused++
		return providertest.ServerError()
	case dice == 1:
		p.refused++
		return providertest.Overloaded()
	case dice == 2:
		p.refused++
		return providertest.RateLimited("1")
	case dice == 3:
		p.refused++
		return providertest.Failing(providertest.Fault{NoAnswer: true})
	}
	sessionID := sessionName.FindString(string(r.Body))
	if p.answers[sessionID] == nil {
		p.answers[sessionID] = map[string]int{}
	}
	p.answers[sessionID][string(r.Body)]++
	turn := r.Turn()
	call := providertest.Tool("write", map[string]string{
		"path":    fmt.Sprintf("part-%d-%d.txt", len(r.System), turn),
		"content": "a part\n",
	})
	if turn == chaosTurns {
		call = providertest.Tool("finish", map[string]string{"summary": "did it"})
	}
	return providertest.Reply{
		Calls: []providertest.Call{call}, Usage: callCost,
		Fault: providertest.Fault{Delay: time.Duration(p.random.IntN(150)) * time.Millisecond},
	}
}

// outage has every call fail for a while.
func (p *provider) outage(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = time.Now().Add(d)
}

// judgeMoney compares the calls of a session with what its provider has answered.
func (c *chaos) judgeMoney(v *verdict, sessionID string, s session.Status) {
	c.t.Helper()
	settled, unsettled := 0, 0
	for _, p := range s.Phases {
		for _, a := range p.Assignments {
			if a.Status == session.Completed && a.Rounds != 1 {
				v.fault(&v.attempts, "%s/%s/%s: %d rounds instead of 1", sessionID, p.Name, a.Persona, a.Rounds)
			}
		}
	}
	calls := c.calls(sessionID, spec.AssignmentID{})
	late := c.judgeRepeated(v, sessionID, calls)
	for _, call := range calls {
		switch call.State {
		case state.CallAnswered:
			settled++
		case state.CallUnsettled, state.CallFailed:
			unsettled++
		case state.CallBegun, state.CallClosed:
			v.fault(&v.money, "%s/%s: call %s is still %s", sessionID, call.AssignmentID, call.ID, call.State)
		}
		if call.State == state.CallUnsettled && call.Estimated.Tokens == 0 {
			v.fault(&v.money, "%s/%s: unsettled call %s has no estimate", sessionID, call.AssignmentID, call.ID)
		}
	}
	c.provider.mu.Lock()
	defer c.provider.mu.Unlock()
	answers, again := 0, 0
	for _, n := range c.provider.answers[sessionID] {
		answers += n
		again += n - 1
	}
	v.calls += answers
	if answers > settled+unsettled {
		v.fault(&v.money, "%s: the provider has answered %d calls, and there are %d settled and %d others", sessionID, answers, settled,
			unsettled)
	}
	if again > unsettled+late {
		v.fault(&v.money, "%s: %d answers were paid for again, with %d unsettled calls and %d answers that came late", sessionID, again,
			unsettled, late)
	}
	if sum := c.costs(sessionID); sum.Reserved != (state.OpenCalls{}) || sum.Usage.Tokens() != int64(settled)*callCost.Tokens() {
		v.fault(&v.money, "%s: %d tokens are spent and %+v reserved, for %d settled calls", sessionID, sum.Usage.Tokens(), sum.Reserved,
			settled)
	}
}

// judgeRepeated holds the calls with the same request against each other: none may begin after another one's answer was stored.
// late is how many answers came after their call had been begun again: that of a worker that was stopped, for example.
func (*chaos) judgeRepeated(v *verdict, sessionID string, calls []state.Call) (late int) {
	for _, first := range calls {
		repeated := false
		for _, again := range calls {
			if first.State != state.CallAnswered || again.ID == first.ID || again.AssignmentID != first.AssignmentID ||
				again.Request != first.Request || again.BegunAt < first.BegunAt {
				continue
			}
			repeated = true
			if again.BegunAt > first.EndedAt.V {
				v.fault(&v.money, "%s/%s: call %s was begun %d ms after the answer of call %s was stored", sessionID, first.AssignmentID,
					again.ID, (again.BegunAt-first.EndedAt.V)/1000, first.ID)
			}
		}
		if repeated {
			late++
		}
	}
	return late
}
