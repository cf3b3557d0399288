package examples_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
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

// pages are the project's texts for people.
func pages(t *testing.T) []string {
	t.Helper()
	found := []string{"../README.md", "../CONTRIBUTING.md"}
	for _, pattern := range []string{"../docs/*.md", "../docs/*/*.md"} {
		more, err := filepath.Glob(pattern)
		require.NoError(t, err)
		found = append(found, more...)
	}
	return found
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(data)
}

// TestMakeTargetsExist looks up every `make x` that a page names.
func TestMakeTargetsExist(t *testing.T) {
	t.Parallel()
	makefile := read(t, "../Makefile")
	command := regexp.MustCompile("(?m)(?:^|`)make ([a-z][a-z -]*)")
	for _, page := range pages(t) {
		for _, m := range command.FindAllStringSubmatch(read(t, page), -1) {
			for _, target := range strings.Fields(m[1]) {
				require.Contains(t, makefile, "\n"+target+":", "%s names make %s", page, target)
			}
		}
	}
}
