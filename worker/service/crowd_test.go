package service_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/models/agent"
	"github.com/maestro-hive/maestro/internal/models/wire"
	"github.com/maestro-hive/maestro/internal/testkit/providertest"
)

// TestThirtyTwoPersonasOnOneCap has them work side by side with a model. The cap
// pays for all of them and little more; then for half of them.
func TestThirtyTwoPersonasOnOneCap(t *testing.T) {
	t.Parallel()
	const crowd, each = 32, 2 * 1100
	provider := providertest.New(t, func(r providertest.Request) providertest.Reply {
		usage := cost.Usage{InputTokens: 1000, OutputTokens: 100}
		if r.Turn() > 1 {
			return providertest.Reply{Usage: usage, Calls: []providertest.Call{{Name: "finish", Arguments: `{"summary":"done"}`}}}
		}
		return providertest.Reply{Usage: usage, Calls: []providertest.Call{
			{Name: "write", Arguments: fmt.Sprintf(`{"path":"file-%d.txt","content":"text\n"}`, r.N)},
		}}
	})
	a := model()
	a.Concurrency = crowd
	s := newStand(t, agent.Config{Agents: map[string]agent.Definition{"a": a}, Providers: served(wire.Anthropic, provider.URL())})
	tm := spec.Team{
		Version: 1, Name: "crowd", Personas: map[string]spec.Persona{}, Phases: []spec.Phase{{Name: "all"}},
		Retry: spec.Retry{Attempts: 1, Rounds: 1}, Help: spec.Help{Mode: spec.HelpFail},
	}
	for n := range crowd {
		name := fmt.Sprintf("p%02d", n)
		tm.Personas[name] = spec.Persona{Role: name, Agent: "a", Instructions: "Write a file."}
		tm.Phases[0].Personas = append(tm.Phases[0].Personas, name)
	}
	enough := int64(crowd*each + 500)
	tm.Budget.Tokens = enough
	result, err := s.run("all", tm)
	require.NoError(t, err, "none is refused that can be paid for")
	require.Equal(t, int64(crowd*each), result.Usage.Tokens())

	tm.Budget.Tokens = enough / 2
	_, err = s.run("half", tm)
	require.ErrorContains(t, err, "token_budget")
	account := s.account("half")
	spent := account.Usage().Tokens()
	require.LessOrEqual(t, spent, enough/2, "the cap is never passed")
	require.Greater(t, spent, enough/2-3*each, "and little of it is left unused")
	require.Zero(t, account.Budget(budget.SessionScope).Reserved)
}
