package agent

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/models/wire"
)

func TestNothingHalfCheckedStarts(t *testing.T) {
	t.Parallel()
	cfg := Config{Version: 1, Agents: map[string]Definition{"a": {Kind: KindCommand, Argv: []string{"x"}, Fallback: "b"}}}
	_, err := New(cfg, Options{Getenv: func(string) string { return "" }, Now: time.Now})
	require.ErrorContains(t, err, `$.agents.a.fallback is "b", which is none of the agents`)
}

func TestDigestNamesWhatIsDone(t *testing.T) {
	t.Parallel()
	digest := func(d Definition) spec.Digest { return Config{Agents: map[string]Definition{"a": d}}.Digest("a") }
	d := Definition{Kind: KindCommand, Argv: []string{"a"}}
	require.True(t, digest(d).Valid())
	same := d
	same.Timeout, same.Concurrency = DefaultTimeout, 9
	require.Equal(t, digest(d), digest(same), "defaults and concurrency make no difference")
	for _, other := range []Definition{
		{Kind: KindCommand, Argv: []string{"b"}},
		{Kind: KindCommand, Argv: []string{"a"}, Git: true},
		{Kind: KindCommand, Argv: []string{"a"}, Env: []string{"X"}},
		{Kind: KindCommand, Argv: []string{"a"}, Timeout: DefaultTimeout + 1},
	} {
		require.NotEqual(t, digest(d), digest(other))
	}
	require.NotEqual(t, CheckDefinition{Argv: []string{"a"}}.Digest(),
		CheckDefinition{Argv: []string{"a"}, Category: failures.Syntax}.Digest())
}

func TestOffersHoldNoSecretsAndNoCommands(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.set(Config{
		Agents: map[string]Definition{"x": {Kind: KindCommand, Argv: []string{"/bin/true", "--flag"}, Env: []string{"API_KEY"}}},
		Checks: map[string]CheckDefinition{"c": {Argv: []string{"/bin/true"}}},
	})
	agents, checks := s.OfferedAgents(), s.OfferedChecks()
	require.Equal(t, KindCommand, agents["x"].Kind)
	require.Equal(t, DefaultCommandConcurrency, agents["x"].Concurrency)
	require.True(t, agents["x"].Digest.Valid())
	require.True(t, checks["c"].Valid())
	data, err := json.Marshal([]any{agents, checks})
	require.NoError(t, err)
	require.NotContains(t, string(data), "flag")
	require.NotContains(t, string(data), secret)
}

// section is what the page on agents says below a heading, or below a line.
func section(t *testing.T, page, after string) string {
	t.Helper()
	_, rest, ok := strings.Cut(page, "\n"+after+"\n")
	require.True(t, ok, "the page has no line %q", after)
	rest, _, _ = strings.Cut(rest, "\n#")
	return rest
}

// fields are the names that a type has in JSON.
func fields(of any) []string {
	var names []string
	for f := range reflect.TypeOf(of).Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

// TestThePageHasTheContract holds the page on agents against the types that are read
// and written.
func TestThePageHasTheContract(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../../docs/writing-an-agent.md")
	require.NoError(t, err)
	page := string(data)
	for after, types := range map[string][]any{
		"### The brief": {session.Brief{}, session.MaySendBack{}}, "`feedback` has": {session.Feedback{}},
		"### The result": {result{}, cost.Usage{}, sentBack{}, resultError{}},
	} {
		for _, of := range types {
			for _, name := range fields(of) {
				require.Contains(t, section(t, page, after), "`"+name+"`", after)
			}
		}
	}
	categories := section(t, page, "### Categories")
	for _, c := range failures.Categories() {
		never := (&resultError{Category: c}).check() != nil
		require.Contains(t, categories, "`"+string(c)+"`")
		require.Equal(t, never, regexp.MustCompile("(?m)^\\| [^|]*`"+string(c)+"`[^|]* \\| never").MatchString(categories), c)
	}
}

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

// TestAWorkerFileCanNameEveryFormat that package wire has.
func TestAWorkerFileCanNameEveryFormat(t *testing.T) {
	t.Parallel()
	field, ok := reflect.TypeFor[Provider]().FieldByName("Format")
	require.True(t, ok)
	names := []string{}
	for _, api := range wire.APIs() {
		names = append(names, "enum="+string(api))
	}
	require.ElementsMatch(t, names, strings.Split(field.Tag.Get("jsonschema"), ","))
}
