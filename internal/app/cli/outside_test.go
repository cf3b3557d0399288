package cli_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/testkit/githubtest"
	"github.com/maestro-hive/maestro/internal/testkit/gittest"
	"github.com/maestro-hive/maestro/internal/testkit/hooktest"
	"github.com/maestro-hive/maestro/internal/testkit/jiratest"
)

func TestHooksAreAddedListedAndRemoved(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.emptyStore()
	d.must(0, "team", "register", d.file("pair.yaml", twoTeam))
	got := d.ends(0, "not shown again", "hook", "add", "tickets", "--team", "pair", "--map", "requirement=/issue/text", "--map",
		"label.ticket=/issue/key", "--label", "from=tickets")
	secret := regexp.MustCompile(`whsec_\S+`).FindString(got.stdout.String())
	require.Len(t, secret, len("whsec_")+44)
	require.Contains(t, got.stdout.String(), "/hooks/tickets")
	d.must(0, "hook", "add", "github", "--team", "pair", "--kind", "github")

	d.must(0, "hook", "add", "gitlab", "--team", "pair", "--kind", "gitlab", "--user", "maria")

	list := d.must(0, "hook", "list")
	require.Regexp(t, `gitlab +gitlab +pair .*issues.labeled:maestro, issue_comment.created:@maestro`, list)
	require.Regexp(t, `github +github +pair .*issues.labeled:maestro, issue_comment.created:@maestro`, list)
	require.Contains(t, list, "requirement=/issue/text")
	for _, out := range []string{list, d.must(0, "hook", "list", "-o", "json"), d.must(0, "audit", "-o", "json")} {
		require.NotContains(t, out, secret, "it is shown once")
	}
	for _, bad := range []string{
		"add", "add x", "add x --team nowhere", "add a/b --team pair", "add x --team pair --kind jira",
		"add x --team pair --map requirement=title", "add x --team pair --map label.a=/a --label a=b",
		"add x --team pair --kind github --on push", "add x --team pair --kind github --user maria",
		"add x --team pair --workspace ../x", "remove nowhere",
	} {
		require.Equal(t, 2, d.run(append([]string{"hook"}, strings.Fields(bad)...)...).code, bad)
	}
	require.Contains(t, d.run("hook", "add", "tickets", "--team", "pair").stderr.String(), "exists already")
	d.must(0, "hook", "remove", "tickets")
	require.NotContains(t, d.must(0, "hook", "list"), "tickets")
	audit := d.must(0, "audit")
	require.Contains(t, audit, "hook.add")
	require.Contains(t, audit, "hook.remove")
}

// signed calls a hook as Standard Webhooks says.
func signed(t *testing.T, url, secret, id, body string) (status int, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if !assert.NoError(t, err) {
		return 0, ""
	}
	r.Header = hooktest.Sign(t, secret, id, time.Now(), []byte(body))
	got, err := http.DefaultClient.Do(r)
	if !assert.NoError(t, err) {
		return 0, ""
	}
	defer got.Body.Close()
	data, err := io.ReadAll(got.Body)
	assert.NoError(t, err)
	return got.StatusCode, string(data)
}

// pageCalls calls a hook as the example on the page about hooks does.
func pageCalls(t *testing.T, h control.AddedHook) string {
	t.Helper()
	page, err := os.ReadFile("../../../docs/hooks.md")
	require.NoError(t, err)
	example := regexp.MustCompile("(?s)```sh\n(SECRET=.*?)```").FindStringSubmatch(string(page))
	require.NotNil(t, example)
	call := exec.Command("sh", "-c", regexp.MustCompile(`(?m)^(SECRET|URL)=.*$`).ReplaceAllString(example[1], ""))
	call.Env = append(os.Environ(), "SECRET="+h.Secret, "URL="+h.URL)
	out, err := call.Output()
	require.NoError(t, err)
	return string(out)
}

// dashboard serves the desk's store, and returns the address.
func (d *desk) dashboard(flags ...string) (url string) {
	d.t.Helper()
	server := d.begin(append([]string{"serve", "--listen", "127.0.0.1:0"}, flags...)...)
	server.says("sign in")
	return regexp.MustCompile(`dashboard +(\S+)`).FindStringSubmatch(server.stderr.String())[1]
}

func TestAHookStartsASessionOnce(t *testing.T) {
	t.Parallel()
	d := newDesk(t).withServer()
	d.withWorker(map[string]string{
		"writer": "mkdir -p docs; echo '# Design' > docs/design.md",
		"coder":  "cat docs/design.md README.md > code.txt",
	})
	d.must(0, "team", "register", d.file("pair.yaml", twoTeam))
	readme := d.file("site/README.md", "of the directory\n")
	site := []string{"--workspace", "site=" + filepath.Dir(readme)}
	c := d.served(site, "viewer:pair")
	var hook control.AddedHook
	d.json(&hook, "hook", "add", "tickets", "--team", "pair", "--workspace", "site", "--map", "requirement=/text")
	require.Equal(t, strings.TrimSuffix(c.url, "/api/v1")+"/hooks/tickets", hook.URL)

	// Two servers of one store, and several calls at once at each.
	urls := []string{hook.URL, d.dashboard(site...) + "/hooks/tickets"}
	type answer struct {
		status int
		text   string
	}
	answers := make(chan answer)
	for i := range 20 {
		go func() {
			status, text := signed(t, urls[i%2], hook.Secret, "msg_1", `{"text": "Make it so."}`)
			answers <- answer{status, text}
		}()
	}
	first := <-answers
	require.Equal(t, http.StatusOK, first.status, first.text)
	for range 19 {
		require.Equal(t, first, <-answers, "every call gets the same answer")
	}
	var doc control.Delivered
	require.NoError(t, json.Unmarshal([]byte(first.text), &doc))
	c.until(doc.Session, session.Completed)
	_, code := c.call("GET", "/sessions/"+doc.Session+"/file?path=code.txt", nil, nil)
	require.Contains(t, code, "of the directory\n")

	var list struct{ Sessions []struct{ Session string } }
	if _, err := exec.LookPath("openssl"); err == nil {
		var page control.AddedHook
		d.json(&page, "hook", "add", "page", "--team", "pair", "--workspace", "site", "--map", "requirement=/issue/text", "--map",
			"label.ticket=/issue/key")
		require.Contains(t, pageCalls(t, page), `"session":"page-`)
		d.json(&list, "list", "--label", "ticket=WEB-7")
		require.Len(t, list.Sessions, 1)
		c.until(list.Sessions[0].Session, session.Completed)
	}

	d.must(0, "team", "remove", "pair")
	status, text := signed(t, hook.URL, hook.Secret, "msg_1", `{"text": "Something else."}`)
	require.Equal(t, answer{http.StatusOK, first.text}, answer{status, text}, "the id decides, also long after")
	status, text = signed(t, d.dashboard("--read-only")+"/hooks/tickets", hook.Secret, "msg_3", `{"text": "x"}`)
	require.Equal(t, http.StatusForbidden, status, text)

	d.json(&list, "list", "--label", "hook=tickets")
	require.Len(t, list.Sessions, 1)
	audit := d.must(0, "audit", "--action", "session.start", "-o", "json")
	require.Contains(t, audit, `"actor": "hook tickets"`)
	require.Contains(t, audit, `"from": "127.0.0.1"`)
}

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

	got := d.ends(0, "taken: 1 attachment (8 B) of MD-1, in attachments/", "run", teamFile, "--from-jira", "md-1",
		"--agents", agents, "--workspace", filepath.Join(d.dir, "ws"), "--session", "s", "--watch")
	require.Equal(t, "MD-1", key)
	require.Contains(t, got.stderr.String(), "not taken, because they look like secrets: attachments/")
	out := filepath.Join(d.dir, "out")
	d.must(0, "artifacts", "get", "s", "--out", out)
	code := tree(t, out)["code.txt"]
	require.Contains(t, code, `A URL shortener\n\nIt keeps its links in memory.`)
	require.Contains(t, code, `attachments/sketch.txt`)
	require.Contains(t, code, `Comment by Ann Other, 2026-11-21:\n\n> Ten characters at most.`)
	require.Contains(t, code, "\nnotes.md\n")
	require.Contains(t, d.run("doctor", "--agents", agents, "-o", "json").stdout.String(), "; creates tickets")
	require.Equal(t, "a sketch", tree(t, out)["attachments/sketch.txt"])
	until(t, func() bool { return len(jira.Issues()[0].Comments) == 2 }, "the ticket never heard of the end")
	require.Contains(t, string(jira.Issues()[0].Comments[1]), "Session s of team solo has completed its work")

	d.prints(`{"report_to": "MD-1"}`, "checkpoints", "show", "s") // a resumed session still knows
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

// TestACompletedSessionIsDelivered, and people see how its pull request stands.
func TestACompletedSessionIsDelivered(t *testing.T) {
	t.Parallel()
	git := gittest.New(t)
	git.Create("acme/shop", map[string]string{"README.md": "shop\n"})
	host := githubtest.New(t, githubtest.Options{Git: git, GitUser: gittest.User, GitPassword: gittest.Password, Dir: git.Dir})
	repository := host.Create("acme/shop")
	d := newDesk(t).withServer()
	require.NoError(t, os.Chmod(d.dir, 0o777)) // for the user of rooms
	d.set("SHOP_TOKEN", githubtest.Token)
	d.serves(d.file("agents.yaml", fmt.Sprintf(`version: 1
mounts: [{path: %[1]s, writable: true}]
agents:
  coder: {kind: command, argv: [sh, %[2]s]}
  github: {kind: delivery, url: %[3]q, token_env: SHOP_TOKEN}
`, d.dir, d.file("coder.sh", "echo done > code.txt; echo x >> "+d.dir+"/runs"), host.URL)))
	d.must(0, "run", d.file("team.yaml", oneTeam), "Build it.", "--session", "s", "--watch")

	refused := d.run("deliver", "s")
	require.Equal(t, 2, refused.code)
	require.Contains(t, refused.stderr.String(), "give the repository, like acme/shop")
	got := d.run("deliver", "s", "--repository", "acme/shop")
	require.Equal(t, 0, got.code, got.stderr.String())
	var shown string
	until(t, func() bool {
		shown = d.must(0, "status", "s")
		return strings.Contains(shown, "deliver: pull request #1 of acme/shop: open") &&
			strings.Contains(shown, "the next look is at")
	}, "%s", (*latest)(&shown))
	require.Contains(t, shown, host.URL+"/acme/shop/pull/1")
	require.NotContains(t, shown, "has failed since", "it is no outage")
	require.Equal(t, "maestro/s", repository.Pulls()[0].Branch)
	var s session.Status
	d.json(&s, "status", "s")
	require.Equal(t, 1, s.Phases[1].PullRequest.Number)
	require.Equal(t, session.Restored, s.Phases[0].Status, "finished work is reused")
	runs, err := os.ReadFile(d.dir + "/runs")
	require.NoError(t, err)
	require.Equal(t, "x\n", string(runs))

	refused = d.run("deliver", "s", "--repository", "acme/shop")
	require.Equal(t, 1, refused.code)
	require.Contains(t, refused.stderr.String(), "`maestro resume s` continues the session")
}

// latest is a text that changes.
type latest string

func (l *latest) String() string { return string(*l) }
