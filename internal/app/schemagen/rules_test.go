package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
)

const (
	aTeam = `{"version": 1, "name": "web", "personas": {"dev": {"role": "Developer", "agent": "coder", "instructions": "Write."},
		"lead": {"role": "Lead", "agent": "coder", "instructions": "Look."}},
		"phases": [{"name": "build", "personas": ["dev"]}, {"name": "look", "personas": ["lead"]}]}`
	aWorker = `{"version": 1, "caches": {"go": {"env": "GOCACHE"}}, "checks": {"vet": {"argv": ["go", "vet"]}}, "agents": {
		"c": {"kind": "command", "argv": ["./c.sh"]}, "p": {"kind": "command", "preset": "claude"}, "q": {"kind": "command", "preset": "codex"},
		"m": {"kind": "model", "model": "m", "provider": "a"}, "o": {"kind": "model", "model": "m", "provider": "b"}},
		"providers": {"a": {"format": "anthropic", "key_env": "KEY"}, "b": {"format": "openai", "base_url": "http://localhost:1/v1"}}}`
	aJira = `{"url": "https://example.atlassian.net", "deployment": "cloud", "email_env": "E", "token_env": "T"}`
)

// ruling is a place in a file, values that the loader takes there, and values that
// it refuses.
type ruling struct {
	at         string
	good, evil []string
}

// within are the borders of a number and what lies beyond.
func within(at, least, most string) ruling {
	below, _ := strconv.ParseInt(least, 10, 64)
	above, _ := strconv.ParseInt(most, 10, 64)
	return ruling{at, []string{least, most}, []string{strconv.FormatInt(below-1, 10), strconv.FormatInt(above+1, 10), `"3"`, "2.5"}}
}

var (
	aName     = []string{`"a b"`, `"-a"`, `"` + strings.Repeat("a", 64) + `"`}
	aDuration = ruling{"", []string{`"90s"`, `"1h30m"`, `"1.5h"`}, []string{`30`, `"30"`, `"-1s"`, `"5 m"`}}
	aGlob     = ruling{
		"",
		[]string{`["docs/*.md"]`, `["**"]`, `["a/{b,c}/[a-z]?.go"]`, `["[!0-9].x", "b"]`},
		[]string{
			`["/a"]`, `["a/"]`, `["../a"]`, `["a/./b"]`, `["a//b"]`, `["a**"]`, `["***"]`, `[".git/x"]`, `["{a"]`, `["{a{b}}"]`,
			`["[a"]`, `["a]"]`, `[" a"]`, `[""]`, `["a\\b"]`, `["a", "a"]`, `"a"`,
		},
	}
	anAddress = ruling{
		"",
		[]string{`"https://example.com"`, `"http://localhost:8233/v1"`},
		[]string{`"example.com"`, `"ftp://example.com"`, `"https://u:p@example.com"`, `"https://example.com/?a=b"`, `"https://example.com/#a"`},
	}
	anArgv = ruling{"", []string{`["go", 1, true]`}, []string{`[]`, `"go test"`, `[["a"]]`}}
)

// in puts a ruling in places.
func (r ruling) in(places ...string) (out []ruling) {
	for _, p := range places {
		out = append(out, ruling{p, r.good, r.evil})
	}
	return out
}

var teamRulings = append(append([]ruling{
	{"version", []string{"1"}, []string{"2", "0", `"1"`}},
	{"name", []string{`"a"`, `"Web-1_x"`}, aName},
	{"description", []string{`"x"`}, []string{`"` + strings.Repeat("x", 4097) + `"`, "3"}},
	{"personas.dev.role", []string{`"x"`}, []string{`" "`, `"` + strings.Repeat("x", 201) + `"`, "5"}},
	{"personas.dev.agent", []string{`"x"`}, aName},
	{"personas.dev.instructions_file", nil, []string{`"/etc/passwd"`}},
	{"personas.dev.fallback", []string{"true"}, []string{`"yes"`, "1"}},
	within("personas.dev.attempts", "1", "20"), within("personas.dev.max_turns", "1", "1000"),
	{"personas.dev.checks", []string{`["a", "b"]`}, []string{`["a", "a"]`, `["a b"]`, `"a"`}},
	{"personas.dev.unknown", nil, []string{"1"}},
	{"phases.0.name", nil, []string{`"a b"`}},
	{"phases.1.needs", []string{`[]`, `["build"]`}, []string{`["build", "build"]`, `"build"`}},
	{"phases.0.personas", nil, []string{`[]`, `["dev", "dev"]`}},
	{
		"phases.0.approve",
		[]string{"true", "false", `{"by": ["leads"]}`, `{"count": 2}`, `{"by": ["/org/leads", "CN=Security Team"], "count": 10}`},
		[]string{`"yes"`, "1", "2", "{}", `["leads"]`, `{"by": []}`, `{"by": "leads"}`, `{"by": [" "]}`, `{"by": ["a", "a"]}`, `{"count": 0}`, `{"count": 11}`, `{"count": true}`, `{"groups": ["a"]}`},
	},
	{"phases.0.order", []string{`"sequence"`}, []string{`"serial"`}},
	{"phases.1.sends_back", []string{`{"to": "build"}`, `{"to": "build", "times": 20}`}, []string{`{}`, `{"to": "build", "times": 21}`, `{"to": "build", "times": 0}`}},
	within("retry.attempts", "1", "20"), within("retry.rounds", "1", "10"),
	within("budget.tokens", "1", "1000000000000"), within("phases.0.budget.tokens", "1", "1000000000000"),
	{"budget.usd", []string{"0.5", "1000000"}, []string{"0", "-1", "1000001", `"5"`}},
	{"phases.0.budget.usd", []string{"0.5", "1000000"}, []string{"0", "-1", "1000001"}},
	{"budget", []string{`{"tokens": 9, "warn_at": [0.5, 0.8]}`}, []string{`{"tokens": 9, "warn_at": [1]}`, `{"tokens": 9, "warn_at": [0]}`, `{"tokens": 9, "warn_at": [0.5, 0.5]}`}},
	{"budget.on_exceeded", []string{`"ask"`, `"stop"`, `"degrade"`}, []string{`"fail"`}},
	{"help.mode", []string{`"ask"`, `"fail"`}, []string{`"stop"`}},
	{"help.jira.project", []string{`"MD"`}, []string{`"md"`, `"MD-1"`}},
	{"help.jira", nil, []string{`{}`, `{"project": "MD", "labels": ["a b"]}`, `{"project": "MD", "labels": ["maestro-x"]}`, `{"project": "MD", "type": " "}`}},
	{"help.jira", []string{`{"project": "MD", "priorities": {"auth": "High"}}`}, []string{`{"project": "MD", "priorities": {"bad": "High"}}`, `{"project": "MD", "priorities": {"auth": 5}}`}},
	{
		"help.jira",
		[]string{`{"project": "MD", "fields": {"customfield_1": {"a": [1, "b", true]}}}`},
		[]string{`{"project": "MD", "fields": {"summary": "x"}}`, `{"project": "MD", "fields": {"a b": 1}}`, `{"project": "MD", "fields": {"a": null}}`, `{"project": "MD", "fields": {"a": 9007199254740999}}`},
	},
	{"ignore", []string{`["*.log", "!x", "a/"]`}, []string{`["#x"]`, `[" x"]`, `[""]`, `["x", "x"]`}},
}, aDuration.in("personas.dev.timeout", "retry.initial", "retry.round_max", "help.give_up_after")...),
	aGlob.in("personas.dev.produces", "phases.0.produces")...)

var workerRulings = append(append(append(append([]ruling{
	{"version", []string{"1"}, []string{"2"}},
	{"agents", nil, []string{`{}`, `{"a b": {"kind": "command", "argv": ["x"]}}`, `{"a": {"kind": "shell"}}`, `{"a": {}}`}},
	{"secrets", []string{`["A_B"]`}, []string{`["A=b"]`, `["1A"]`, `["A", "A"]`}},
	{"agents.c.env", []string{`["LANG"]`}, []string{`["HOME"]`, `["MAESTRO_RESULT"]`, `["TMPDIR"]`, `["GIT_CEILING_DIRECTORIES"]`, `["A=b"]`}},
	{"agents.c.provider", nil, []string{`"a"`}},
	{"providers.a.key_env", []string{`"K"`}, []string{`"sk-123"`}},
	{"providers.a.format", nil, []string{`"cohere"`}},
	{"providers.a.models", []string{`{"a/b:c": {"input": 1, "output": 2}, "m*": {}}`}, []string{`{"": {}}`, `{"a": {"input": -1}}`}},
	{"providers", nil, []string{`{"a b": {"format": "openai", "key_env": "K"}}`, `{"a": {"key_env": "K"}}`}},
	{"agents.c.context_tokens", nil, []string{"5000"}},
	{"agents.c.max_output_tokens", nil, []string{"5000"}},
	{"agents.c.git", []string{"true"}, []string{"1"}},
	within("agents.c.concurrency", "1", "1000"), within("agents.p.max_turns", "1", "10000"),
	{"agents.p.model", []string{`"m"`}, []string{`5`}},
	{"agents.p.preset", []string{`"claude"`, `"codex"`, `"gemini"`}, []string{`"cursor"`}},
	{"agents.c", nil, []string{`{"kind": "command"}`}},
	{"agents.m", nil, []string{`{"kind": "model", "model": "m"}`, `{"kind": "model", "provider": "a"}`}},
	{"agents.m.env", nil, []string{`["A"]`}},
	{"agents.m.git", nil, []string{"true"}},
	{"agents.m.preset", nil, []string{`"claude"`}},
	{"agents.m.reserve", nil, []string{`{"tokens": 5}`}},
	{"agents.c.reserve", []string{`{"tokens": 5, "usd": 0.5}`}, []string{`{"usd": 0}`, `{"tokens": -1}`}},
	within("agents.o.max_turns", "1", "10000"),
	{"agents.o.max_output_tokens", []string{"256", "4096"}, []string{"255", "100000001"}},
	{"agents.o.context_tokens", []string{"100000000"}, []string{"4095", "100000001"}},
	{
		"agents.c.prices",
		[]string{`{"input": 3, "output": 15, "cache_read": 0.3}`, `{"input": 0, "output": 0}`},
		[]string{`{"input": -3, "output": 1}`, `{"input": "3", "output": 1}`},
	},
	within("agents.c.breaker.threshold", "1", "1000"), within("agents.c.breaker.probes", "1", "10"),
	{"agents.c.breaker.name", []string{`"b"`}, aName},
	{"agents.c.breaker.counts", []string{`["auth", "timeout"]`, `[]`}, []string{`["auth", "auth"]`, `["bad"]`}},
	{"checks.vet.category", []string{`"syntax"`, `"test_failure"`}, []string{`"auth"`}},
	{"checks.vet", nil, []string{`{}`}},
	{"caches.go.env", nil, []string{`"HOME"`, `"a b"`}},
	within("limits.files", "1", "10000000"), within("limits.lost_workers", "1", "100"), within("retention.keep", "1", "1000000"),
	{"limits.file_bytes", []string{`"100MB"`, `"2 GiB"`, `1`, `"5"`}, []string{`"0B"`, `0`, `"5 parsecs"`, `"-5MB"`, `"1.5MB"`}},
	{"limits.tree_bytes", []string{`"2GB"`, `1`, `10000000000000`}, []string{`0`}},
	{"limits.disk_bytes", []string{`"10GB"`, `1`, `50000000000000`}, []string{`0`}},
	{"limits.output_bytes", []string{`"10MB"`, `4000`, `1000000000`}, []string{`0`}},
	{"jira", []string{aJira}, []string{`{"url": "https://example.com", "deployment": "cloud", "token_env": "T"}`}},
	{"jira", []string{`{"url": "https://example.com", "deployment": "datacenter", "token_env": "T"}`}, []string{`{"url": "https://example.com", "deployment": "datacenter", "email_env": "E", "token_env": "T"}`, `{"url": "https://example.com", "deployment": "other", "token_env": "T"}`}},
	{"backup", []string{`{"to": "/backup", "every": "1h", "keep": 3}`}, []string{`{}`, `{"to": ""}`, `{"to": "/b", "keep": 0}`}},
	{"webhook", []string{`{"url_env": "U", "secret_env": "S", "timeout": "5s"}`}, []string{`{}`, `{"url_env": "a b"}`}},
}, aDuration.in("agents.c.timeout", "agents.c.idle_timeout", "agents.c.breaker.cooldown", "checks.vet.timeout")...),
	aGlob.in("checks.vet.keep")...),
	anAddress.in("web_ui", "providers.a.base_url")...),
	anArgv.in("agents.c.argv", "checks.vet.argv")...)

// beyond are values that only the loader refuses: no schema says it.
var beyondTeam = []ruling{
	{"personas.dev.timeout", nil, []string{`"0s"`, `"0h0m"`, `"200h"`}},
	{"phases.0.name", nil, []string{`"init"`, `"INIT"`}},
	{"personas.dev.produces", nil, []string{`["[z-a]"]`}},
}

var beyondWorker = []ruling{
	{"agents.c.argv", nil, []string{`[" "]`}},
	{"agents.c.model", nil, []string{`"m"`}},
	{"agents.c.max_turns", nil, []string{"5"}},
	{"agents.q.max_turns", nil, []string{"5"}},
	{"providers.a.base_url", nil, []string{`"https://example.com/v1/messages"`}},
	{"providers.b.base_url", nil, []string{`"https://example.com/v1/chat/completions/"`}},
	{"agents.m.provider", nil, []string{`"c"`}},
	{"providers.a", nil, []string{`{"format": "anthropic"}`, `{"format": "anthropic", "key_env": "K", "key_file": "k"}`}},
	{"agents.c.prices", nil, []string{`{"input": 3}`, `{"output": 3}`, `{"input": 3, "output": 0}`}},
	{"backup.to", nil, []string{`"backup"`, `"/backup/"`}},
	{"limits.file_bytes", nil, []string{`100000000001`}},
	{"limits.tree_bytes", nil, []string{`10000000000001`}},
	{"limits.disk_bytes", nil, []string{`50000000000001`}},
	{"limits.output_bytes", nil, []string{`3999`, `1000000001`}},
	{"jira", nil, []string{`{"url": "https://example.atlassian.net", "deployment": "datacenter", "token_env": "T"}`}},
}

// TestRulesAreTheLoaders holds the schemas against the loader at the borders of
// what it takes: they accept what it accepts, and refuse what it refuses.
func TestRulesAreTheLoaders(t *testing.T) {
	t.Parallel()
	team, worker := kinds(t)
	for _, c := range []struct {
		kind            kind
		base            string
		rulings, beyond []ruling
	}{{team, aTeam, teamRulings, beyondTeam}, {worker, aWorker, workerRulings, beyondWorker}} {
		c.kind.answers(t, c.base, true)
		for _, r := range c.rulings {
			for _, value := range r.good {
				c.kind.answers(t, with(t, c.base, r.at, value), true)
			}
			for _, value := range r.evil {
				c.kind.answers(t, with(t, c.base, r.at, value), false)
			}
		}
		for _, r := range c.beyond {
			for _, value := range r.evil {
				file := filepath.Join(t.TempDir(), "file.yaml")
				require.NoError(t, os.WriteFile(file, []byte(with(t, c.base, r.at, value)), 0o600))
				require.Error(t, c.kind.load(file), "the loader accepts %s at %s", value, r.at)
			}
		}
	}
}

// answers holds both the loader and the schema to an answer on a file.
func (k kind) answers(t *testing.T, text string, good bool) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	require.NoError(t, err)
	loaded, validated := k.load(file), k.schema.Validate(doc)
	if good {
		require.NoError(t, loaded, "the loader refuses %s", text)
		require.NoError(t, validated, "the schema refuses %s", text)
		return
	}
	require.Error(t, loaded, "the loader accepts %s", text)
	require.Error(t, validated, "the schema accepts %s", text)
}

// with puts a value into a document, making the mappings on the way to it.
func with(t *testing.T, document, at, value string) string {
	t.Helper()
	var doc any
	require.NoError(t, json.Unmarshal([]byte(document), &doc))
	steps := strings.Split(at, ".")
	here := doc
	for _, step := range steps[:len(steps)-1] {
		if list, ok := here.([]any); ok {
			i, err := strconv.Atoi(step)
			require.NoError(t, err)
			here = list[i]
			continue
		}
		m := here.(map[string]any)
		if m[step] == nil {
			m[step] = map[string]any{}
		}
		here = m[step]
	}
	here.(map[string]any)[steps[len(steps)-1]] = json.RawMessage(value)
	data, err := json.Marshal(doc)
	require.NoError(t, err)
	return string(data)
}
