package agent

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

func TestPromptSaysAllOfTheBrief(t *testing.T) {
	t.Parallel()
	job := session.Job{
		WorkDir: session.WorkDir{Home: "/w/home"},
		Brief: session.Brief{
			Phase: "build", Persona: "dev", Role: "backend developer", Instructions: "Write Go.", Requirement: "A shop.",
			Decisions: map[string]string{"db": "sqlite", "api": "REST"}, Inputs: []string{"docs/design.md", "go.mod"},
			LeftOut: []string{"the last attempt: left out by ignore rules: node_modules/"},
			Feedback: &session.Feedback{
				Category: failures.TestFailure, Message: "check go-test failed", Output: "FAIL\n```\n# Not a heading of ours",
				Advice: "Find the cause.",
				Diff:   "+broken",
			},
		},
		Deliver: spec.Contract{Produces: []string{"cmd/*.go"}, Checks: []string{"go-test"}},
	}
	text := prompt(job, place{inside: job.WorkDir}, false)
	for _, want := range []string{
		`You are "dev"`, "in the role of a backend developer", `the phase "build"`, "# Instructions\n\nWrite Go.\n",
		"# Requirement\n\nA shop.\n",
		"- api: REST\n- db: sqlite\n", "- docs/design.md\n- go.mod\n",
		"\n- the last attempt: left out by ignore rules: node_modules/\n", "check go-test failed (test_failure)", "Find the cause.",
		"````\nFAIL\n```\n# Not a heading of ours\n````\n", "are undone now:\n\n```\n+broken\n```\n",
		"named cmd/*.go", `the check "go-test"`, "/w/result/result.json", "$MAESTRO_RESULT",
	} {
		require.Contains(t, text, want)
	}
	job.Brief.Feedback.Kept = true
	require.Contains(t, prompt(job, place{inside: job.WorkDir}, false), "which are still there")

	text = prompt(session.Job{WorkDir: session.WorkDir{Home: "/w/home"}, Brief: session.Brief{
		Persona: "dev", Phase: "build",
		Requirement: "A shop.",
	}}, place{inside: session.WorkDir{Home: "/w/home"}}, false)
	require.Contains(t, text, "The working directory is empty.")
	for _, no := range []string{"# Instructions", "# Decisions", "# What went wrong", "# Required outputs", "# Left out", "role"} {
		require.NotContains(t, text, no)
	}
}

func TestPromptTellsWhatOthersSay(t *testing.T) {
	t.Parallel()
	sent := session.Feedback{
		Category: failures.Rejected, Message: "test/tester sent the work back (1 of 2)", Output: "- it does not build\n",
		Advice: "Go on.", Kept: true, Diff: "+a",
	}
	again := session.Feedback{Category: failures.Syntax, Message: "no", SentBack: "ada rejected the work:\n- too slow\n", Note: "hurry"}
	for _, c := range []struct {
		brief  session.Brief
		goesOn bool
		has    []string
		lacks  string
	}{
		{session.Brief{}, false, []string{"The object has no other fields."}, "sends_back"},
		{
			session.Brief{MaySendBack: &session.MaySendBack{To: "design", Left: 1}}, false,
			[]string{`{"sends_back": {"reasons": [`, `the phase "design"`, "This is possible once more"}, "no other fields.",
		},
		{
			session.Brief{Feedback: &session.Feedback{Note: "mind the tests"}}, true,
			[]string{"You were interrupted during", "A person who reviewed it wrote: mind the tests\n"}, "# What went wrong",
		},
		{session.Brief{Feedback: &sent}, true, []string{
			"Work was sent back, for the reasons", "# The work was sent back\n\ntest/tester sent the work back (1 of 2) (rejected)",
			"The reasons:\n\n```\n- it does not build\n```", "which are still there:\n\n```\n+a",
		}, "# What went wrong"},
		{session.Brief{Feedback: &again}, true, []string{
			"no (syntax)", "# Why the work was sent back before that\n\nada rejected the work:\n- too slow\n",
			"A person who reviewed it wrote: hurry",
		}, "# The work was sent back"},
	} {
		text := prompt(session.Job{Brief: c.brief}, place{}, c.goesOn)
		for _, want := range c.has {
			require.Contains(t, text, want)
		}
		require.NotContains(t, text, c.lacks)
	}
}

func TestPromptListsSomeOfManyFiles(t *testing.T) {
	t.Parallel()
	var job session.Job
	for i := range session.MaxInputs {
		job.Brief.Inputs = append(job.Brief.Inputs, fmt.Sprintf("file%04d", i))
	}
	job.Brief.InputCount = 5000
	text := prompt(job, place{inside: job.WorkDir}, false)
	require.Equal(t, session.MaxInputs, strings.Count(text, "- file"))
	require.Contains(t, text, "- and 4800 more\n")
}
