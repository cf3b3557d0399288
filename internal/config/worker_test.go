package config

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/agent"
)

func TestBadWorkers(t *testing.T) {
	t.Parallel()
	golden(t, "worker", func(path string) error {
		_, err := LoadWorker(path)
		return err
	})
}

func TestWorkerFileIsLoadedWithDefaults(t *testing.T) {
	t.Parallel()
	file := filepath.Join("..", "..", "examples", "shortener", "agents.yaml")
	cfg, err := LoadWorker(file)
	require.NoError(t, err)
	require.Equal(t, agent.KindScripted, cfg.Agents["coder"].Kind)
	require.Equal(t, agent.DefaultScriptedConcurrency, cfg.Agents["coder"].Concurrency)
	require.Equal(t, agent.DefaultLostWorkers, cfg.Limits.LostWorkers)
	require.True(t, filepath.IsAbs(cfg.Dir))
}
