package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/team"
)

func TestScriptChoosesPlays(t *testing.T) {
	t.Parallel()
	s, err := parseScript("s.yaml", []byte(`version: 1
plays:
  build/dev:
    - {attempt: 1, round: 1, summary: first of all}
    - {attempt: 1, summary: first of a later round}
    - {round: 2, summary: second round}
    - {feedback: rejected, attempt: 3, summary: once more}
    - {feedback: syntax, attempt: 3, summary: mended}
    - {attempt: 9, summary: the last}
  dev:
    - summary: anywhere
  "*":
    - summary: anyone
`))
	require.NoError(t, err)
	for _, c := range []struct {
		phase, persona string
		round, attempt int
		want           string
	}{
		{"build", "dev", 1, 1, "first of all"},
		{"build", "dev", 2, 1, "first of a later round"},
		{"build", "dev", 2, 2, "second round"},
		{"build", "dev", 1, 2, "the last"},
		{"test", "dev", 1, 1, "anywhere"},
		{"build", "ops", 1, 1, "anyone"},
	} {
		play, ok := s.choose(team.Brief{Phase: c.phase, Persona: c.persona, Round: c.round, Attempt: c.attempt})
		require.True(t, ok)
		require.Equal(t, c.want, play.Summary)
	}
	for want, f := range map[string]*team.Feedback{
		"once more": {Category: team.Rejected},
		"mended":    {Category: team.Syntax},
		"the last":  {Note: "x"},
	} {
		play, _ := s.choose(team.Brief{Phase: "build", Persona: "dev", Round: 1, Attempt: 3, Feedback: f})
		require.Equal(t, want, play.Summary)
	}
	again := &team.Feedback{Category: team.Syntax, SentBack: "ada rejected the work"}
	play, _ := s.choose(team.Brief{Phase: "build", Persona: "dev", Round: 1, Attempt: 3, Feedback: again})
	require.Equal(t, "once more", play.Summary, "work that was sent back is still done again")
	_, ok := (&script{}).choose(team.Brief{})
	require.False(t, ok)
}

func TestScriptWithoutAPlayFailsTheAttempt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	job := b.job()
	job.Brief.Persona = "other"
	_, err := b.played("summary: x").Run(t.Context(), job)
	f := failure(t, err)
	require.Equal(t, team.InvalidOutput, f.Category)
	require.Contains(t, f.Message, "no play for build/other")
}

func TestScriptFillsTexts(t *testing.T) {
	t.Parallel()
	brief := team.Brief{
		Session: "s", Phase: "p", Persona: "q", Role: "r", Instructions: "i", Requirement: "do ${phase}", Round: 2, Attempt: 3,
		Decisions: map[string]string{"color": "blue", "a.b-c": "dotted", "empty": ""},
		Feedback:  &team.Feedback{Category: team.Syntax, Message: "m", Output: "o", Advice: "a", Note: "n"},
	}
	for text, want := range map[string]string{
		"${session}/${phase}/${persona}/${role}/${instructions}/${round}/${attempt}":                      "s/p/q/r/i/2/3",
		"${feedback.category} ${feedback.message} ${feedback.output} ${feedback.advice} ${feedback.note}": "syntax m o a n",
		"${decision.color} ${decision.a.b-c} [${decision.empty}] ${decision.empty:-x}":                    "blue dotted [] x",
		"${decision.gone:-red} ${decision.gone:-}.":                                                       "red .",
		"${requirement}":             "do ${phase}",
		"$${phase} $$${phase} ${":    "${phase} $${phase} ${",
		"${HOME} ${x.y} $phase ${ }": "${HOME} ${x.y} $phase ${ }",
	} {
		f := newFiller(brief)
		require.Equal(t, want, f.fill(text))
		require.NoError(t, f.err())
	}
	f := newFiller(team.Brief{})
	require.Equal(t, "[]", f.fill("[${feedback.message}]"), "the first attempt has no feedback")
	f.fill("${decision.b} ${decision.a}")
	require.ErrorContains(t, f.err(), `the decision "a", which no phase before has made`)
}

func TestPlayShapesItsFilesByDecisions(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	out, err := b.played(`
turns:
  - files: {"src/${decision.color}/${decision.db}.txt": "${decision.color} on ${decision.db}"}
decisions: {db: "sqlite-${decision.color}"}
summary: "chose ${decision.db}"`).Run(t.Context(), b.job())
	require.NoError(t, err)
	require.Equal(t, "chose sqlite-blue", out.Summary)
	require.Equal(t, map[string]string{"db": "sqlite-blue"}, out.Decisions)
	data, err := os.ReadFile(b.path("src/blue/sqlite-blue.txt"))
	require.NoError(t, err)
	require.Equal(t, "blue on sqlite-blue", string(data))

	_, err = b.played(`summary: "${decision.nobody}"`).Run(t.Context(), b.job())
	require.Equal(t, team.ContractViolation, failure(t, err).Category)
}

func TestPlayChangesFiles(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for name, content := range map[string]string{"old": "old", "dir/gone": "x", "long": "0123456789"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(b.path(name)), 0o755))
		require.NoError(t, os.WriteFile(b.path(name), []byte(content), 0o600))
	}
	_, err := b.played(`
turns:
  - files:
      old: {content: " and new", append: true}
      dir: {delete: true}
      never: {delete: true}
      long: short
      run.sh: {content: "#!/bin/sh", executable: true}
      empty: ""
      deep/er/file: x
      link: {link: deep/er}
  - files:
      link: {link: long}
      log: {content: one, append: true}
  - files:
      log: {content: two, append: true}`).Run(t.Context(), b.job())
	require.NoError(t, err)
	for name, want := range map[string]string{"old": "old and new", "long": "short", "run.sh": "#!/bin/sh", "empty": "", "deep/er/file": "x", "log": "onetwo"} {
		data, err := os.ReadFile(b.path(name))
		require.NoError(t, err)
		require.Equal(t, want, string(data), name)
	}
	require.NoDirExists(t, b.path("dir"))
	target, err := os.Readlink(b.path("link"))
	require.NoError(t, err)
	require.Equal(t, "long", target)
	for name, want := range map[string]os.FileMode{"run.sh": 0o755, "long": 0o644, "log": 0o644} {
		info, err := os.Stat(b.path(name))
		require.NoError(t, err)
		require.Equal(t, want, info.Mode().Perm(), name)
	}
}

func TestPlayCannotLeaveItsDirectory(t *testing.T) {
	t.Parallel()
	for _, play := range []string{
		`turns: [{files: {out: {link: ..}}}, {files: {out/escaped: x}}]`,
		`turns: [{files: {out: {link: ../escaped}}}, {files: {out: x}}]`,
		`turns: [{files: {out: {link: ../home}}}, {files: {out/escaped: {delete: true}}}]`,
		`turns: [{files: {"a/${requirement}": x}}]`,
	} {
		b := newBench(t)
		kept := filepath.Join(b.dir, "home", "escaped")
		require.NoError(t, os.WriteFile(kept, nil, 0o600))
		job := b.job()
		job.Brief.Requirement = "../../escaped"
		_, err := b.played(play+"\nusage: {input_tokens: 1}").Run(t.Context(), job)
		require.Equal(t, team.InvalidOutput, failure(t, err).Category, play)
		require.NoFileExists(t, filepath.Join(b.dir, "escaped"))
		require.FileExists(t, kept)
	}
}

func TestPlayWithTooManyTurns(t *testing.T) {
	t.Parallel()
	play := "turns:\n  - {files: {a: x}, usage: {input_tokens: 1}}\n  - {files: {b: x}, usage: {input_tokens: 10}}\n  - {files: {c: x}, usage: {input_tokens: 100}}"
	for most, want := range map[int]int64{0: 111, 3: 111, 2: 11} {
		b := newBench(t)
		job := b.job()
		job.MaxTurns = most
		out, err := b.played(play).Run(t.Context(), job)
		require.Equal(t, want, out.Usage.InputTokens)
		if most == 2 {
			require.Contains(t, failure(t, err).Message, "after 2 turns (max_turns)")
			require.NoFileExists(t, b.path("c"))
		} else {
			require.NoError(t, err)
			require.FileExists(t, b.path("c"))
		}
	}
}

func TestScriptFaultsNameTheirPlace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ script, want string }{
		{"", "s.yaml:1:1: is empty"},
		{"version: 1\nplays:\n  a:\n    - sumry: x\n", `s.yaml:4:7: unknown field "sumry"`},
		{"version: 1\nplays:\n  a: [{turns: [{files: {f: {contnt: x}}}]}]\n", `s.yaml:3:29: unknown field "contnt"`},
		{"version: 1\nplays:\n  a: [{}]\n  a: [{}]\n", "s.yaml:4:3: "},
		{"version: 1\nplays:\n\ta: 5\n", "s.yaml:3:1: "},
		{"version: one\n", "s.yaml:1:10: "},
		{"version: 2\nplays: {a: [{summary: x}]}\n", "s.yaml:1:10: $.version is 2"},
		{"version: 1\n", "s.yaml:1:8: $.plays is empty"},
		{"version: 1\nplays:\n  a: []\n", "s.yaml:3:6: $.plays.a is empty"},
		{"version: 1\nplays:\n  a/b/c: [{}]\n", "is for nobody"},
		{"version: 1\nplays:\n  '../a': [{}]\n", "not a usable name"},
		{"version: 1\nplays: {a: [{turns: [{delay: 5}]}]}\n", "not a duration"},
		{"version: 1\nplays:\n  a/b:\n    - {}\n    - turns:\n        - delay: -1s\n", "s.yaml:6:18: $.plays.'a/b'[1].turns[0].delay is -1s"},
		{"version: 1\nplays:\n  a:\n    - fail: {category: worker_lost, message: x}\n", "s.yaml:4:24: $.plays.a[0].fail.category \"worker_lost\" is Maestro's to say"},
		{"version: 1\nplays: {a: [{turns: [{usage: {input_tokens: -4}}]}]}\n", "input_tokens is -4"},
		{"version: 1\nplays:\n  a:\n    - turns:\n        - files:\n            ../x: y\n", "s.yaml:6:19: "},
		{"version: 1\nplays: {a: [{turns: [{files: {/etc/x: y}}]}]}\n", "not a path inside the work"},
		{"version: 1\nplays: {a: [{turns: [{files: {x: {content: y, link: z}}}]}]}\n", "several things at once"},
		{"version: 1\nplays: {a: [{turns: [{crash: true, hang: true}]}]}\n", "stands beside crash"},
		{"version: 1\nplays: {a: [{decisions: {a b: c}}]}\n", "not a usable decision name"},
		{"version: 1\nplays: {a: [{feedback: rejcted}]}\n", `is none of the failure categories; did you mean "rejected"?`},
		{"version: 1\nplays: {a: [{sends_back: {reasons: []}}]}\n", "$.plays.a[0].sends_back.reasons there are no reasons"},
		{"version: 1\nplays: {a: [{sends_back: {reasons: [x]}, fail: {}}]}\n", "either fails or sends work back"},
		{"version: 1\nplays: {a: [{round: -1, attempt: -1}]}\n", "rounds count from 1"},
	} {
		_, err := parseScript("s.yaml", []byte(c.script))
		require.ErrorContains(t, err, c.want)
		require.True(t, strings.HasPrefix(err.Error(), "s.yaml:"), err)
	}
	_, err := parseScript("s.yaml", []byte("version: 3\nplays: {a: [{round: -1, attempt: -1}]}\n"))
	for _, each := range []string{"$.version", "[0].round", "[0].attempt"} {
		require.ErrorContains(t, err, each, "faults are reported together")
	}
}
