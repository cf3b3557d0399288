package system

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"sync"
	"time"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/state"
	"github.com/maestro-hive/maestro/internal/testkit/providertest"
)

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
