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
