package agent

import (
	"encoding/json"
	"os"
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

// TestAProviderMayHaveEveryFormat that there is.
func TestAProviderMayHaveEveryFormat(t *testing.T) {
	t.Parallel()
	field, _ := reflect.TypeFor[Provider]().FieldByName("Format")
	var formats []string
	for _, api := range wire.APIs() {
		formats = append(formats, "enum="+string(api))
	}
	require.ElementsMatch(t, formats, strings.Split(field.Tag.Get("jsonschema"), ","))
}

func TestConfigDefaults(t *testing.T) {
	t.Parallel()
	c := Config{
		Agents: map[string]Definition{
			"c": {Kind: KindCommand}, "m": {Kind: KindModel},
			"own": {Kind: KindCommand, Timeout: 1, IdleTimeout: 2, Concurrency: 3},
		},
		Checks: map[string]CheckDefinition{"k": {}, "own": {Timeout: 5, Category: failures.Syntax}},
		Limits: Limits{Files: 7},
	}
	d := c.WithDefaults()
	require.Equal(t, Definition{Kind: KindCommand, Timeout: DefaultTimeout, IdleTimeout: DefaultIdleTimeout, Concurrency: 4},
		d.Agents["c"])
	require.Equal(t, Definition{
		Kind: KindModel, Timeout: DefaultTimeout, IdleTimeout: DefaultIdleTimeout, Concurrency: 8,
		MaxTurns: 50, MaxOutputTokens: 8192, ContextTokens: 200_000,
	}, d.Agents["m"])
	require.Equal(t, c.Agents["own"], d.Agents["own"])
	require.Equal(t, CheckDefinition{Timeout: DefaultCheckTimeout, Category: failures.TestFailure}, d.Checks["k"])
	require.Equal(t, c.Checks["own"], d.Checks["own"])
	require.Equal(t, Limits{
		Files: 7, FileBytes: 100_000_000, TreeBytes: 2_000_000_000, DiskBytes: 10_000_000_000, DiskFiles: 35,
		CacheBytes: DefaultCacheBytes, OutputBytes: 10_000_000, LostWorkers: 5,
	}, d.Limits)
	require.Zero(t, c.Agents["c"].Timeout, "the config itself is not changed")
}

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

func TestNewTellsEverythingThatIsWrong(t *testing.T) {
	t.Parallel()
	_, err := New(Config{
		Version: 1, Dir: t.TempDir(), RunAs: "no-such-user",
		Agents: map[string]Definition{"a": {Kind: KindCommand, Argv: []string{"x"}}},
		Caches: map[string]Cache{"c": {Env: "C"}},
	}, Options{Getenv: os.Getenv, Now: time.Now, CacheRoot: "relative"})
	require.ErrorContains(t, err, "run_as")
	require.ErrorContains(t, err, "must be an absolute path")
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
