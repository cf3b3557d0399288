package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/testkit/jiratest"
)

// withJira gives the desk a Jira, and returns the path of a worker file that names it.
func (d *desk) withJira(o jiratest.Options) (*jiratest.Server, string) {
	d.t.Helper()
	jira := jiratest.New(d.t, o)
	d.set("JIRA_EMAIL", jiratest.Email)
	d.set("JIRA_TOKEN", jiratest.Token)
	d.file("coder.sh", `cat > brief.json; cp brief.json code.txt; find attachments notes.md -type f >> code.txt`)
	return jira, d.file("agents.yaml", fmt.Sprintf(`version: 1
agents: {coder: {kind: command, argv: [sh, %s/coder.sh]}}
jira: {url: %s, deployment: cloud, email_env: JIRA_EMAIL, token_env: JIRA_TOKEN}
`, d.dir, jira.URL()))
}

func TestRequirementComesFromATicket(t *testing.T) {
	t.Parallel()
	d := newDesk(t).withServer()
	jira, agents := d.withJira(jiratest.Options{})
	d.serves(agents)
	key := jira.Add("MD", map[string]any{"summary": "A URL shortener", "description": "It keeps its links in memory."},
		jiratest.Attachment{Name: "sketch.txt", Content: []byte("a sketch")},
		jiratest.Attachment{Name: "../server.key", Content: []byte("a key")})
	jira.Comment(key, "Ten characters at most.")
	teamFile := d.file("team.yaml", oneTeam)
	d.file("ws/notes.md", "some notes\n")

	got := d.run("run", teamFile, "--from-jira", "md-1", "--agents", agents, "--workspace", filepath.Join(d.dir, "ws"), "--session",
		"s", "--watch")
	require.Equal(t, 0, got.code, got.stderr.String())
	require.Equal(t, "MD-1", key)
	require.Contains(t, got.stderr.String(), "taken: 1 attachment (8 B) of MD-1, in attachments/")
	require.Contains(t, got.stderr.String(), "not taken, because they look like secrets: attachments/")
	out := filepath.Join(d.dir, "out")
	d.must(0, "artifacts", "get", "s", "--out", out)
	code, err := os.ReadFile(filepath.Join(out, "code.txt"))
	require.NoError(t, err)
	require.Contains(t, string(code), `A URL shortener\n\nIt keeps its links in memory.`)
	require.Contains(t, string(code), `attachments/sketch.txt`)
	require.Contains(t, string(code), `Comment by Ann Other, 2026-11-21:\n\n> Ten characters at most.`)
	require.Contains(t, string(code), "\nnotes.md\n")
	require.Contains(t, d.run("doctor", "--agents", agents, "-o", "json").stdout.String(), "; creates tickets")
	sketch, err := os.ReadFile(filepath.Join(out, "attachments", "sketch.txt"))
	require.NoError(t, err)
	require.Equal(t, "a sketch", string(sketch))
	until(t, func() bool { return len(jira.Issues()[0].Comments) == 2 }, "the ticket never heard of the end")
	require.Contains(t, string(jira.Issues()[0].Comments[1]), "Session s of team solo has completed its work")

	var shown struct {
		ReportTo string `json:"report_to"`
	}
	d.json(&shown, "checkpoints", "show", "s")
	require.Equal(t, "MD-1", shown.ReportTo, "a resumed session still knows")
}

func TestWhatStandsInTheWayOfATicketIsSaid(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	jira, agents := d.withJira(jiratest.Options{})
	empty := jira.Add("MD", map[string]any{"summary": " "})
	teamFile := d.file("team.yaml", oneTeam)
	without := d.file("without.yaml", "version: 1\nagents: {coder: {kind: command, argv: [\"true\"]}}\n")
	for want, args := range map[string][]string{
		"give it with --agents or MAESTRO_AGENTS":                           {"--from-jira", "MD-1"},
		without + " has no `jira`; add it, like jira: {url: ":               {"--from-jira", "MD-1", "--agents", without},
		"--from-jira MD-1 excludes -f and TEXT":                             {"the text", "--from-jira", "MD-1"},
		"--agents needs --from-jira":                                        {"the text", "--agents", agents},
		"--from-jira MD-99: Jira at 127.0.0.1":                              {"--from-jira", "MD-99", "--agents", agents},
		`"MD" is not a ticket key; write it like MD-123`:                    {"--from-jira", "MD", "--agents", agents},
		"ticket " + empty + ": the requirement is empty; describe what the": {"--from-jira", empty, "--agents", agents},
	} {
		d.ends(2, want, append([]string{"run", teamFile}, args...)...)
	}
}

func TestDoctorChecksTicketsWithoutMakingOne(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	jira, agents := d.withJira(jiratest.Options{})
	check := func(args ...string) string {
		t.Helper()
		return strings.Join(strings.Fields(d.run(append([]string{"doctor", "--agents", agents}, args...)...).stdout.String()), " ")
	}
	require.Regexp(t, "ok jira the credentials for .* are valid", check())
	teamFile := d.file("team.yaml", oneTeam+"help: {jira: {project: MD}}\n")
	require.Contains(t, check(teamFile), "may create tickets in project MD")
	require.Contains(t, check(d.file("other.yaml", oneTeam+"help: {jira: {project: NO}}\n")), "bad jira Jira at 127.0.0.1")
	jira.Revoke("another token")
	require.Contains(t, check(teamFile), "JIRA_EMAIL and JIRA_TOKEN")
	d.set("JIRA_TOKEN", "")
	require.Contains(t, check(), "the credentials are incomplete; set JIRA_EMAIL")
}
