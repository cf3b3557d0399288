package agent

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/team"
)

func FuzzResult(f *testing.F) {
	for _, seed := range []string{
		`{"summary":"x","usage":{"input_tokens":1,"cost_usd":0.1},"decisions":{"a":"b"},"error":{"category":"auth","retryable":false}}`,
		`{"usage":{"input_tokens":1e400}}`, `{"usage":{"cost_usd":"1"}}`, `[]`, `null`, `{} {}`, "{", "\x00", `{"Summary":1}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := parseResult(data)
		require.NoError(t, r.Usage.Validate()) // whatever else is wrong
		if err != nil {
			require.NotContains(t, err.Error(), "Go ")
			require.Equal(t, result{Usage: r.Usage}, r)
			return
		}
		require.NoError(t, team.CheckDecisions(r.Decisions))
	})
}

func FuzzScript(f *testing.F) {
	for _, seed := range []string{
		"version: 1\nplays: {a: [{turns: [{files: {x: y}}]}]}\n",
		"version: 1\nplays:\n  a/b: [{attempt: 1, fail: {category: auth}}, {summary: '${decision.x:-y}'}]\n",
		"version: 1\nplays:\n  '*': [{turns: [{files: {a: {link: b}, c: {delete: true}}, delay: 1s, usage: {cost_usd: 1}}]}]\n",
		"version: 1\nplays: {a: [{turns: [{delay: 5}]}]}\n", "- &a [*a]", "a: &a {b: *a}", "version: 1\nplays: {'a\\'.b': [{round: -1}]}\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := parseScript("s.yaml", data)
		if err != nil {
			require.True(t, strings.HasPrefix(err.Error(), "s.yaml:"), err)
			return
		}
		for key, plays := range s.Plays {
			for _, p := range plays {
				out, _ := p.part(team.Job{Brief: team.Brief{Persona: key}})
				require.LessOrEqual(t, len(out.Turns), len(p.Turns))
			}
		}
	})
}
