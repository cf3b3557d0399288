package agent

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
)

// pem stands for a private key.
const pem = "-----BEGIN KEY-----\nMIIEpAIBAAKCAQEA7bq\nq8Zr0pWmXv3KdTn5LsYf\n-----END KEY-----"

// couriers are agents that deliver, with each form of credentials.
func couriers() map[string]Definition {
	return map[string]Definition{
		"github":  {Kind: KindDelivery, TokenEnv: "GITHUB"},
		"gitlab":  {Kind: KindDelivery, Host: HostGitLab, URL: "https://git.example.com/lab/", TokenEnv: "GITLAB", Timeout: 1e9},
		"app":     {Kind: KindDelivery, App: &App{ID: 7, Installation: 8, KeyEnv: "KEY"}},
		"by-file": {Kind: KindDelivery, App: &App{ID: 7, KeyFile: "keys/app.pem"}},
		"x":       {Kind: KindCommand, Argv: []string{"/bin/true"}},
	}
}

func TestTheSettingsOfADelivery(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.vars = map[string]string{"GITHUB": "token-of-github\n", "KEY": "-----BEGIN KEY-----\\nMIIEpAIBAAKCAQEA7bq\\n-----END KEY-----"}
	file := filepath.Join(b.dir, "keys", "app.pem")
	require.NoError(t, os.Mkdir(filepath.Dir(file), 0o700))
	require.NoError(t, os.WriteFile(file, []byte(pem+"\n"), 0o600))
	s := b.set(Config{Agents: couriers()})
	of := func(name string) DeliverySettings {
		d, ok := s.Delivery(name)
		require.True(t, ok, name)
		return d
	}
	require.Equal(t, DeliverySettings{
		Host: HostGitHub, URL: "https://github.com", Token: "token-of-github", Timeout: 10 * time.Minute,
	}, of("github"))
	lacking := of("gitlab")
	require.EqualError(t, lacking.Err,
		"variable GITLAB with the credentials of agent gitlab is not set in the worker's environment")
	lacking.Err = nil
	require.Equal(t, DeliverySettings{Host: HostGitLab, URL: "https://git.example.com/lab", Timeout: time.Second}, lacking)
	require.Equal(t, DeliverySettings{
		Host: HostGitHub, URL: "https://github.com", AppID: 7, Installation: 8, Timeout: 10 * time.Minute,
		Key: "-----BEGIN KEY-----\nMIIEpAIBAAKCAQEA7bq\n-----END KEY-----",
	}, of("app"))
	require.Equal(t, pem, of("by-file").Key)
	_, ok := s.Delivery("x")
	require.False(t, ok)
	_, ok = s.Delivery("nobody")
	require.False(t, ok)
	require.Equal(t, "*** *** ***", s.Mask("token-of-github MIIEpAIBAAKCAQEA7bq q8Zr0pWmXv3KdTn5LsYf"))

	b.vars["GITLAB"] = "token-of-gitlab"
	require.NoError(t, os.WriteFile(file, []byte("renewed"), 0o600))
	require.Equal(t, "token-of-gitlab", of("gitlab").Token)
	require.Equal(t, "renewed", of("by-file").Key)
	require.NoError(t, os.Remove(file))
	require.ErrorIs(t, of("by-file").Err, os.ErrNotExist)
}

func TestAnAgentThatDeliversDoesNoWork(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.vars["GITHUB"] = "token-of-github"
	s := b.set(Config{Agents: couriers()})
	_, err := s.Run(t.Context(), session.Job{Agent: "github"})
	require.Equal(t, &failures.Failure{
		Category: failures.InvalidRequest, Message: "agent github delivers pull requests; it does no work",
	}, failure(t, err))

	offered := s.Offered("github")
	require.Equal(t, []any{KindDelivery, DefaultDeliveries, "github", false},
		[]any{offered.Kind, offered.Concurrency, offered.Breaker, offered.Unpriced})
	require.NotEqual(t, offered.Digest, s.Offered("gitlab").Digest, "it is another host")
	require.Equal(t, offered.Digest, s.Offered("app").Digest, "its account is no part of what it does")
	data, err := json.Marshal(s.OfferedAgents())
	require.NoError(t, err)
	require.NotContains(t, string(data), "GITHUB")
	require.Equal(t, DefaultCommandConcurrency, s.config.attempts(), "deliveries leave the processes to the others")
}

func TestWhatADeliveryLacks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := Config{Dir: dir, Agents: couriers()}
	env := map[string]string{"PATH": dir, "GITHUB": "token"}
	const noGit, set = "its program cannot be started: git is not in PATH", "set GITLAB in the environment of the worker"
	git := func(of string) Shortage { return Shortage{of, true, noGit, "install it", InstallGit} }
	require.Equal(t, []Shortage{
		git("agent app"),
		{"agent app", false, "variable KEY is not set", "set KEY in the environment of the worker", ""},
		git("agent by-file"),
		{
			"agent by-file", false, "its key cannot be read: open " + dir + "/keys/app.pem: no such file or directory",
			"write the key to the file, readable by the worker's user", "",
		},
		git("agent github"), git("agent gitlab"),
		{"agent gitlab", false, "variable GITLAB is not set", set, ""},
	}, c.Shortages(func(name string) string { return env[name] }))
}
