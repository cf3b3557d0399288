package control

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/state/statetest"
	"github.com/maestro-hive/maestro/workflows"
)

// TestARaiseOfNoBudgetIsRefusedWithoutAWorker: nobody would hear that the worker has refused the signal.
func TestARaiseOfNoBudgetIsRefusedWithoutAWorker(t *testing.T) {
	t.Parallel()
	m := Money{newKit(t).Base}
	statetest.Admit(t, m.Store.State, m.key("s"), "t", statetest.Limit(session.BudgetOfSession, "", spec.Cap{Tokens: 10}),
		statetest.Limit(session.BudgetOfPhase, "build", spec.Cap{USD: 5}))
	for says, r := range map[string]workflows.Raise{
		"":                                {Tokens: 5, Session: true},
		"no USD budget for the session":   {USD: 5, Session: true},
		"no token budget for phase build": {Tokens: 5, Phase: "build"},
		"no token budget for persona ann": {Tokens: 5, Persona: "ann"},
	} {
		if err := m.checkRaise(t.Context(), "s", r); says == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, says)
		}
	}
}
