package agent

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/team"
)

func TestScriptChoosesPlaysAndFillsTexts(t *testing.T) {
	t.Parallel()
	s, err := parseScript("s.yaml", []byte(`version: 1
plays:
  build/dev:
    - attempt: 1
      turns: [{files: {a.txt: first}}]
    - summary: "after ${feedback.message} in ${decision.color}, not ${HOME}"
  dev:
    - summary: anywhere
  "*":
    - summary: anyone
`))
	require.NoError(t, err)
	brief := team.Brief{Phase: "build", Persona: "dev", Round: 1, Attempt: 2, Decisions: map[string]string{"color": "blue"}, Feedback: &team.Feedback{Message: "a fault"}}
	play, ok := s.choose(brief)
	require.True(t, ok)
	p, err := play.part(team.Job{Brief: brief})
	require.NoError(t, err)
	require.Equal(t, "after a fault in blue, not ${HOME}", p.Result.Summary)
	brief.Phase = "test"
	play, _ = s.choose(brief)
	require.Equal(t, "anywhere", play.Summary)
	brief.Persona = "else"
	play, _ = s.choose(brief)
	require.Equal(t, "anyone", play.Summary)
	_, err = scriptPlay{Summary: "${decision.gone}"}.part(team.Job{Brief: brief})
	require.ErrorContains(t, err, `"gone"`)
}

func TestScriptFaultsNameTheirPlace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ script, want string }{
		{"version: 1\nplays:\n  a:\n    - sumry: x\n", `s.yaml:4:7: unknown field "sumry"`},
		{"version: 2\nplays: {a: [{summary: x}]}\n", "s.yaml:1:10: $.version is 2"},
		{"version: 1\n", "s.yaml:1:8: $.plays is empty"},
		{"version: 1\nplays: {a: [{turns: [{delay: 5}]}]}\n", "not a duration"},
		{"version: 1\nplays: {a: [{fail: {category: worker_lost, message: x}}]}\n", "Maestro's to say"},
		{"version: 1\nplays: {a: [{turns: [{usage: {input_tokens: -4}}]}]}\n", "input_tokens is -4"},
	} {
		_, err := parseScript("s.yaml", []byte(c.script))
		require.ErrorContains(t, err, c.want)
		require.ErrorContains(t, err, "s.yaml")
	}
}
