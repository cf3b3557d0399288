package agent

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/testkit/golden"
)

// TestPrompts has the whole text of a prompt in a file of its name.
func TestPrompts(t *testing.T) {
	t.Parallel()
	whole := session.Brief{
		Phase: "build", Persona: "dev", Role: "backend developer", Instructions: "Write Go.", Requirement: "A shop.",
		Decisions: map[string]string{"db": "sqlite", "api": "REST"}, Inputs: []string{"docs/design.md", "go.mod"},
		LeftOut: []string{"the last attempt: left out by ignore rules: node_modules/"},
		Feedback: &session.Feedback{
			Category: failures.TestFailure, Message: "check go-test failed", Output: "FAIL\n```\n# Not a heading of ours",
			Advice: "Find the cause.", Diff: "+broken",
		},
	}
	with := func(f session.Feedback) session.Brief {
		return session.Brief{Persona: "dev", Phase: "build", Requirement: "A shop.", Feedback: &f}
	}
	sendsBack := with(session.Feedback{Note: "mind the tests"})
	sendsBack.MaySendBack = &session.MaySendBack{To: "design", Left: 1}
	for name, c := range map[string]struct {
		brief  session.Brief
		goesOn bool
	}{
		"whole": {whole, false},
		"empty": {session.Brief{Persona: "dev", Phase: "build", Requirement: "A shop."}, false},
		"notes": {sendsBack, true},
		"sent_back": {with(session.Feedback{
			Category: failures.Rejected, Message: "test/tester sent the work back (1 of 2)", Output: "- it does not build\n",
			Advice: "Go on.", Kept: true, Diff: "+a",
		}), true},
		"failed_again": {with(session.Feedback{
			Category: failures.Syntax, Message: "no", SentBack: "ada rejected the work:\n- too slow\n", Note: "hurry",
		}), true},
	} {
		job := session.Job{
			WorkDir: session.WorkDir{Home: "/w/home"}, Brief: c.brief,
			Deliver: spec.Contract{Produces: []string{"cmd/*.go"}, Checks: []string{"go-test"}},
		}
		golden.Compare(t, "testdata/prompts/"+name+".txt", prompt(job, place{inside: job.WorkDir}, c.goesOn))
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
