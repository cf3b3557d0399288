package control

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/models/config"
	"github.com/maestro-hive/maestro/internal/ops/sessionstatus"
)

// TestAResumeApprovesNoPhase has phases that wait, one of which needs an approval by its team. Its
// request may be unknown here.
func TestAResumeApprovesNoPhase(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	const file = "version: 1\nname: web\npersonas:\n  ann: {role: Writer, agent: coder, instructions: x}\nphases:\n" +
		"  - {name: plan, personas: [ann]}\n  - {name: design, personas: [ann], approve: true}\n  - {name: build, personas: [ann]}\n"
	k.session("one", file, session.Running, session.Course{})
	team, err := config.ParseTeam("team", []byte(file))
	require.NoError(t, err)
	waiting := session.NewStatus("one", team)
	waiting.Phases[1].Status, waiting.Phases[2].Status = session.AwaitingApproval, session.AwaitingApproval
	for name, open := range map[string][]session.Request{
		"unknown": nil,
		"known":   {{Kind: session.ForApproval, Phase: "design"}, {Kind: session.ForApproval, Phase: "build"}},
	} {
		waiting.Help = open
		require.Equal(t, []string{"build"}, Starts{k.Base}.pausedAfter(k.ctx, sessionstatus.Session{Status: waiting}), name)
	}
	require.Empty(t, Starts{&Base{Namespace: "default", Now: time.Now}}.pausedAfter(k.ctx, sessionstatus.Session{Status: waiting}),
		"without the store")
}
