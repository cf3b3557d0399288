package system

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/testkit/jiratest"
)

// TestWorkerKilledWhileItTellsJira kills the only worker when Jira has just done what it
// was asked and nobody has heard so, and sees that nothing is told twice.
func TestWorkerKilledWhileItTellsJira(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ session, failpoint string }{
		{"ticket-made", "ticket created, not reported@1"},
		{"ticket-saved", "ticket saved, not reported@1"},
		{"ticket-saved-again", "ticket saved, not reported@2"},
		{"ticket-commented", "ticket commented, not reported@1"},
	} {
		t.Run(c.session, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			jira := jiratest.New(t, jiratest.Options{})
			credentials := []string{"JIRA_EMAIL=" + jiratest.Email, "JIRA_TOKEN=" + jiratest.Token}
			w.write("agents.yaml", fmt.Sprintf(`{version: 1, agents: {coder: {kind: command, argv: [/bin/sh, -c, 'echo no port >&2; exit 1']}},
				jira: {url: %q, deployment: cloud, email_env: JIRA_EMAIL, token_env: JIRA_TOKEN, index_delay: 2s}}`, jira.URL()))
			teamFile := w.write("team.yaml",
				`{version: 1, name: told, help: {mode: ask, jira: {project: MD}}, retry: {attempts: 1, rounds: 1},
				personas: {dev: {role: r, agent: coder, instructions: do}}, phases: [{name: one, personas: [dev]}]}`)
			worker := w.serves(w.startWith(append(credentials, "MAESTRO_FAILPOINT="+c.failpoint), filepath.Join(programs, fragileWorker),
				"--drain", "1s"))
			w.must("run", teamFile, "survive", "--session", c.session)
			if !strings.HasPrefix(c.failpoint, "ticket created") {
				w.eventually("there is a ticket", func() bool { return len(jira.Issues()) == 1 })
				w.shows(c.session, "it parks", func(s session.Status) bool { return s.Status == session.HelpIsNeeded })
				w.maestro("resolve", c.session, "skip", "--note", "no use")
			}
			w.dies(worker)
			require.Contains(t, worker.output.String(), "failpoint: ")
			w.serves(w.startWith(credentials, filepath.Join(programs, "maestro-worker"), "--drain", "1s"))
			w.shows(c.session, "the session knows its ticket", func(s session.Status) bool {
				return s.Status.Closed() || len(s.Help) == 1 && s.Help[0].Ticket != nil && s.Help[0].Ticket.Key == "MD-1"
			})
			if !w.status(c.session).Status.Closed() {
				w.maestro("resolve", c.session, "skip", "--note", "no use")
			}
			w.completes(c.session)
			w.eventually("the ticket has both comments", func() bool { return len(jira.Issues()[0].Comments) >= 2 })
			require.Len(t, jira.Issues(), 1)
			require.Len(t, jira.Issues()[0].Comments, 2)
			require.Contains(t, string(jira.Issues()[0].Comments[0]), "no use")
			require.Contains(t, string(jira.Issues()[0].Comments[1]), "has completed")
		})
	}
}
