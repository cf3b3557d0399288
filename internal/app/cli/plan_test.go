package cli_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

const planTeam = `
version: 1
name: web
description: Builds a page.
personas:
  analyst: {role: Analyst, agent: writer, instructions: Write., budget: {tokens: 1000, usd: 0.5}}
  backend: {role: Backend developer, agent: coder, instructions: Write., attempts: 2, timeout: 30m}
  frontend: {role: Frontend developer, agent: coder, instructions: Write., fallback: true, produces: ["web/*.js"]}
  tester: {role: Tester, agent: writer, instructions: Test., max_turns: 9}
phases:
  - {name: design, personas: [analyst], produces: [docs/design.md], approve: true}
  - {name: survey, personas: [analyst], needs: []}
  - {name: build, personas: [backend, frontend], needs: [design, survey], order: sequence, checks: [go-test], protected: ["tests/**"], integrator: backend, budget: {usd: 3}}
  - {name: test, personas: [tester, analyst], sends_back: {to: build, times: 2}, approve: {by: [leads, security], count: 2}}
budget: {tokens: 50000, on_exceeded: ask, daily: {usd: 20}}
help: {give_up_after: 2h, jira: {project: MD}}
`

func TestPlanInWords(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	out := d.must(0, "plan", d.file("team.yaml", planTeam))
	require.Equal(t, `team web: Builds a page.
4 phases; with agents coder, writer and checks go-test

1. design, first
   analyst  runs  Analyst  agent writer
     may spend 1,000 tokens, 0.5 USD
   produces docs/design.md
   then waits for approval

2. survey, first
   analyst  runs  Analyst  agent writer
     may spend 1,000 tokens, 0.5 USD

3. build, after design and survey
   backend   runs  Backend developer   agent coder
     30m per attempt
   frontend  runs  Frontend developer  agent coder
     or its fallback; produces web/*.js
   they work in sequence, each on the previous one's result; backend fixes
     merge conflicts and failing checks
   checked by go-test
   may spend 3 USD
   may not change tests/**

4. test, after build
   tester   runs  Tester   agent writer
     9 turns at most
   analyst  runs  Analyst  agent writer
     may spend 1,000 tokens, 0.5 USD
   they work in parallel; analyst fixes merge conflicts and failing checks
   may send the work of build back at most 2 times
   then waits for approval by 2 persons of leads or security

retries: 3 attempts per round, 2 for backend; 2 rounds each; then a person has
  2h to help, and a ticket is created in MD
budget: 50,000 tokens; then a person is asked for a larger budget
daily budget of all sessions of the team: 20 USD; then a person is asked for a
  larger budget
`, out)
	file := filepath.Join(d.dir, "team.yaml")
	d.prints(`{"phases": [{"needs": []}, {"needs": []}, {"name": "build", "protected": ["tests/**"], "personas": [
		{"persona": "backend", "agent": "coder", "action": "run"}, {"persona": "frontend"}]}, {}]}`, "plan", file)
	require.NotContains(t, d.must(0, "plan", file, "-o", "json"), "Write.", "the plan has no instructions")
	require.NoDirExists(t, d.state, "a plan makes no store")
}

// deliveringTeam builds and delivers.
const deliveringTeam = `
version: 1
name: web
personas:
  dev: {role: Developer, agent: coder, instructions: Write.}
phases:
  - {name: build, personas: [dev]}
  - {name: ship, deliver: {to: github, repository: acme/shop, merge: ask}}
`

func TestAPlanSaysWhatIsDelivered(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	file := d.file("team.yaml", deliveringTeam)
	require.Contains(t, d.must(0, "plan", file), `
2. ship, after build
   delivery  runs  Delivery  agent github
   delivers a pull request of acme/shop into its default branch (merge: ask)
   failed checks and reviews send the work of build back at most 3 times
`)
	d.file("mine/a.md", "x")
	d.ends(2, "phase ship delivers the work of other phases and has no files of its own; "+
		"use --input or --edit for one of those", "plan", file, "--input", "ship="+filepath.Join(d.dir, "mine"))

	require.Contains(t, d.must(0, "validate", file), "2 phases of web, 1 persona, with agents coder, github: valid")
	d.file("agents.yaml", "version: 1\nagents: {coder: {kind: command, argv: [x]}, github: {kind: command, argv: [x]}}\n")
	d.ends(2, `phase ship delivers to agent "github", which is of kind command`, "validate", file, "--agents",
		filepath.Join(d.dir, "agents.yaml"))
}

// TestPlanIsTheAdmissions runs what was planned, and compares.
func TestPlanIsTheAdmissions(t *testing.T) {
	t.Parallel()
	d := newDesk(t).withServer()
	d.withWorker(map[string]string{"writer": "mkdir -p docs; echo hi > docs/a.md\n", "coder": "echo x > code.txt\n"})
	file := d.file("team.yaml", twoTeam)
	d.file("mine/docs/mine.md", "hi\n")
	for _, flags := range [][]string{
		{"--only", "think"},
		{"--from", "build", "--input", "think=" + filepath.Join(d.dir, "mine")},
	} {
		var doc struct {
			Phases []struct {
				Name     string
				Personas []struct {
					Persona, Reason string
					Action          session.PlanAction
				}
			}
		}
		d.json(&doc, append([]string{"plan", file}, flags...)...)
		var foreseen []session.PlanEntry
		for _, p := range doc.Phases {
			for _, who := range p.Personas {
				foreseen = append(foreseen, session.PlanEntry{
					AssignmentID: spec.AssignmentID{Phase: p.Name, Persona: who.Persona}, Action: who.Action, Reason: who.Reason,
				})
			}
		}
		var run struct{ Plan []session.PlanEntry }
		d.json(&run, append([]string{"run", file, "Do it."}, flags...)...)
		require.Equal(t, run.Plan, foreseen, "%v", flags)
	}
}

// TestASessionOfARegisteredTeamKeepsItsLabels starts a session by name, and resumes and forks it.
func TestASessionOfARegisteredTeamKeepsItsLabels(t *testing.T) {
	t.Parallel()
	d := newDesk(t).withServer()
	d.withWorker(map[string]string{"writer": writerScript, "coder": coderScript})
	d.must(0, "team", "register", d.file("team.yaml", twoTeam))
	var team struct{ Digest string }
	d.json(&team, "team", "show", "pair")
	require.Contains(t, d.must(0, "validate", "pair"), "pair: 2 phases of pair")
	require.Contains(t, d.must(0, "agents", "--team", "pair"), "nothing is missing for team pair")
	d.must(0, "run", "pair@"+team.Digest[:8], "Make it so.", "--session", "s-1", "--label", "area=web", "--label", "ticket=MD-1",
		"--watch")
	require.Contains(t, d.must(0, "status", "s-1"), "area=web, ticket=MD-1")
	labels := func(id string) map[string]string {
		s := d.status(id)
		require.Equal(t, session.Completed, s.Status)
		return s.Labels
	}
	want := map[string]string{"area": "web", "ticket": "MD-1"}
	require.Equal(t, want, labels("s-1"))
	d.must(0, "resume", "s-1", "--team", "pair", "--force", "build", "--watch")
	require.Equal(t, want, labels("s-1"))
	d.must(0, "fork", "s-1", "--from", "build", "--team", "pair@"+team.Digest[:8], "--as", "s-2", "--watch")
	require.Contains(t, d.run("fork", "s-1", "--from", "build", "--team", "piar").stderr.String(), `did you mean "pair"?`)
	require.Equal(t, want, labels("s-2"))
	d.must(0, "run", "pair", "Another.", "--session", "s-3", "--watch")
	require.Empty(t, labels("s-3"))
	costs := d.must(0, "usage", "--label", "area=web", "--by", "session", "-o", "csv")
	require.Contains(t, costs, "s-1")
	require.NotContains(t, costs, "s-3")
	d.must(2, "usage", "s-1", "--label", "area=web")

	require.Equal(t, 2, d.run("list", "--label", "area").code)
	require.Equal(t, 2, d.run("run", "pair", "x", "--label", "-=x").code)
}
