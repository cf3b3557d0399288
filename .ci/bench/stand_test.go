package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/activities"
)

// TestAWorkerTakesTheInstantAgents: a worker reads the secrets of its agents also if there are none.
func TestAWorkerTakesTheInstantAgents(t *testing.T) {
	t.Parallel()
	var agents activities.Agents = instant{}
	require.Empty(t, agents.Secrets().Secrets())
}
