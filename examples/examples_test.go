package examples_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/models/agent"
	"github.com/maestro-hive/maestro/internal/models/config"
	"github.com/maestro-hive/maestro/internal/sandbox/room"
)

func TestMain(m *testing.M) {
	room.Shim()
	os.Exit(m.Run())
}

// TestExamplesLoad loads every example as its user would.
func TestExamplesLoad(t *testing.T) {
	t.Parallel()
	teams, err := filepath.Glob("*/team.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, teams)
	for _, file := range teams {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			tm, err := config.LoadTeam(file)
			require.NoError(t, err)
			cfg, err := config.LoadWorker(filepath.Join(filepath.Dir(file), "agents.yaml"))
			require.NoError(t, err)
			agents, err := agent.New(cfg, agent.Options{Getenv: os.Getenv, CacheRoot: t.TempDir(), Now: time.Now})
			require.NoError(t, err)
			now := time.Now()
			_, faults := tm.Admissible([]spec.Offer{{
				Worker: "w", Agents: agents.OfferedAgents(), Checks: agents.OfferedChecks(), RenewedAt: now,
			}}, now)
			require.Empty(t, faults)
		})
	}
}
