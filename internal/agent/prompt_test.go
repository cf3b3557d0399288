package agent

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/team"
)

func TestPromptSaysAllOfTheBrief(t *testing.T) {
	t.Parallel()
	job := team.Job{
		Home: "/w/home",
		Brief: team.Brief{
			Phase: "build", Persona: "dev", Role: "backend developer", Instructions: "Write Go.", Requirement: "A shop.",
			Decisions: map[string]string{"db": "sqlite", "api": "REST"}, Inputs: []string{"docs/design.md", "go.mod"},
			Feedback: &team.Feedback{
				Category: team.TestFailure, Message: "check go-test failed", Output: "FAIL\n```\n# Not a heading of ours", Advice: "Find the cause.",
				Diff: "+broken",
			},
		},
		Deliver: team.Contract{Produces: []string{"cmd/*.go"}, Checks: []string{"go-test"}},
	}
	text := prompt(job, false)
	for _, want := range []string{
		`You are "dev"`, "in the role of a backend developer", `the phase "build"`, "# Instructions\n\nWrite Go.\n", "# What is wanted\n\nA shop.\n",
		"- api: REST\n- db: sqlite\n", "- docs/design.md\n- go.mod\n", "check go-test failed (test_failure)", "Find the cause.",
		"````\nFAIL\n```\n# Not a heading of ours\n````\n", "is undone now:\n\n```\n+broken\n```\n",
		"called cmd/*.go", `the check "go-test"`, "/w/result/result.json", "$MAESTRO_RESULT",
	} {
		require.Contains(t, text, want)
	}
	job.Brief.Feedback.Kept = true
	require.Contains(t, prompt(job, false), "and is still there")

	text = prompt(team.Job{Home: "/w/home", Brief: team.Brief{Persona: "dev", Phase: "build", Requirement: "A shop."}}, false)
	require.Contains(t, text, "The working directory is empty.")
	for _, no := range []string{"# Instructions", "# Decisions", "# What went wrong", "# What has to be delivered", "role"} {
		require.NotContains(t, text, no)
	}
}

func TestPromptListsSomeOfManyFiles(t *testing.T) {
	t.Parallel()
	var job team.Job
	for i := range maxListed + 7 {
		job.Brief.Inputs = append(job.Brief.Inputs, fmt.Sprintf("file%04d", i))
	}
	text := prompt(job, false)
	require.Equal(t, maxListed, strings.Count(text, "- file"))
	require.Contains(t, text, "- and 7 more\n")
}
