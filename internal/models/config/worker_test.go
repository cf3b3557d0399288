package config

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/models/agent"
)

func TestBadWorkers(t *testing.T) {
	t.Parallel()
	golden(t, "worker", func(path string) error {
		_, err := LoadWorker(path)
		return err
	})
}

func TestGoodWorkers(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/good/worker-*.yaml")
	require.NoError(t, err)
	require.Len(t, files, 3)
	for _, file := range append(files, "../../../examples/shortener/agents.yaml") {
		cfg, err := LoadWorker(file)
		require.NoError(t, err)
		require.True(t, filepath.IsAbs(cfg.Dir))
		require.Equal(t, agent.DefaultLostWorkers, cfg.Limits.LostWorkers)
	}
}

func TestWorkerFileSaysWhatItSays(t *testing.T) {
	t.Parallel()
	cfg, err := LoadWorker(filepath.Join("testdata", "good", "agents.yaml"))
	require.NoError(t, err)
	require.Equal(t, []string{"./writer.sh", "--fast", "-n", "5"}, cfg.Agents["writer"].Argv,
		"arguments are taken as they are written")
	require.Equal(t, agent.DefaultTimeout, cfg.Agents["demo"].Timeout)
	require.Equal(t, "GOCACHE", cfg.Caches["go-build"].Env)
	require.Equal(t, "100MB", cfg.Limits.FileBytes.String())
	require.Equal(t, &agent.Jira{
		URL: "https://example.atlassian.net", Deployment: agent.JiraCloud, EmailEnv: "JIRA_EMAIL", TokenEnv: "JIRA_TOKEN",
		IndexDelay: textfmt.Duration(5 * time.Minute), Timeout: agent.DefaultJiraTimeout,
	}, cfg.Jira)
	require.Equal(t, &agent.Webhook{
		URLEnv: "MAESTRO_WEBHOOK_URL", SecretEnv: "MAESTRO_WEBHOOK_SECRET",
		Timeout: agent.DefaultWebhookTimeout,
	}, cfg.Webhook)
	require.Equal(t, "http://localhost:8233", cfg.WebUI)
}

// FuzzWorker: no text brings the loader down, and every configuration that is
// accepted is without problems, also with its defaults.
func FuzzWorker(f *testing.F) {
	seed(f, "worker")
	f.Fuzz(func(t *testing.T, data []byte) {
		src, problem := newSource("w.yaml", data)
		if problem != nil {
			return
		}
		cfg, err := parseWorker(src, "/")
		if err == nil {
			require.Empty(t, cfg.Problems())
		}
	})
}
