package cli_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/testkit/jiratest"
)

// evil is what would move a cursor, set a title or the clipboard, hide or turn what is
// read, or be a link or an image on a page. evilHost is in all that leads somewhere, and
// evilNumber in sequences that no program of ours writes.
const (
	evilHost   = "evil.example"
	evilNumber = "31337"

	evil = "\x1b]8;;http://evil.example\x1b\\a\x1b]8;;\x1b\\\x1b]52;c;ZXZpbA==\x07" +
		"\x1b]0;evil.example\x07\x1b[31337;1H\x1b[2J\u009b31337m\x1bc" +
		"\u202egnp.exe\u2066x\u2069\u200b\u2028\ufeff\x7f50%\r\b\x00" +
		" ![i](http://evil.example/i.png) [l](http://evil.example) <http://evil.example> <img src='http://evil.example'> <script " +
		"src=//evil.example></script>" +
		" {color:red}h{color} [j|http://evil.example] !http://evil.example/i.png! `x` |c| \xff\xfe"
)

// workerSecret is the value of a variable that the worker file names as a secret.
const workerSecret = `s3cret/+"with" <odd> & 'many' $igns`

// disguises are how a secret may come into a text, by what has encoded it. Each outlet masks; that no encoding passes is shown
// where secrets are masked.
var disguises = map[string]string{
	"plain": workerSecret, "JSON": `s3cret/+\"with\" \u003codd\u003e \u0026 'many' $igns`,
	"base64": base64.StdEncoding.EncodeToString([]byte(workerSecret)),
}

// evilText is everything that an agent may say to do harm.
func evilText() string {
	var b strings.Builder
	for name, text := range disguises {
		fmt.Fprintf(&b, "%s: %s ", name, text)
	}
	return evil + " " + b.String() + evil + "\n== break/other, round 9, attempt 9: completed\n-- decided admin = yes\n"
}

// secretless requires that a text has no form of the worker's secret.
func secretless(t *testing.T, where, text string) {
	t.Helper()
	for name, encoded := range disguises {
		require.NotContains(t, text, encoded[:len(encoded)-4], "%s has the secret (%s)", where, name)
	}
}

var styling = regexp.MustCompile("\x1b\\[[0-9;]*m")

// harmless requires that a text shows itself and nothing else: besides line ends, tabs and
// colours of our own nothing that is not seen, and no secret.
func harmless(t *testing.T, where, text string) {
	t.Helper()
	require.NotRegexp(t, "\x1b\\[[0-9;]*"+evilNumber, text, where)
	text = styling.ReplaceAllString(text, "")
	require.True(t, utf8.ValidString(text), "%s: %q", where, text)
	at := strings.IndexFunc(text, func(r rune) bool {
		return r != '\n' && r != '\t' && unicode.In(r, unicode.C, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point)
	})
	if at >= 0 {
		require.Fail(t, "something that is not seen", "%s: %q", where, text[max(0, at-200):min(len(text), at+200)])
	}
	secretless(t, where, text)
}

// harmlessPage requires that in a page in Markdown nothing outside of code is of an agent.
func harmlessPage(t *testing.T, where, page string) {
	t.Helper()
	harmless(t, where, page)
	outside := regexp.MustCompile("(?s)```.*?```").ReplaceAllString(page, "")
	outside = regexp.MustCompile("`[^`\n]*`").ReplaceAllString(outside, "")
	for _, live := range []string{evilHost, "![", "<img", "<script", "{color"} {
		require.NotContains(t, outside, live, "%s:\n%s", where, page)
	}
}

// harmlessJSON requires that a document is harmless where it is printed, and that the texts
// in it hold no secret. In texts for people, as a ticket's are, nothing is hidden either,
// and no link is an agent's.
func harmlessJSON(t *testing.T, where, document string, forPeople bool) {
	t.Helper()
	harmless(t, where, document)
	var visit func(name string, value any)
	visit = func(name string, value any) {
		switch v := value.(type) {
		case map[string]any:
			for key, member := range v {
				visit(key, member)
			}
		case []any:
			for _, member := range v {
				visit(name, member)
			}
		case string:
			secretless(t, where, v)
			if forPeople {
				harmless(t, where+" "+name, v)
			}
			if name == "href" || name == "url" {
				require.NotContains(t, v, evilHost, where)
			}
		}
	}
	var value any
	require.NoError(t, json.Unmarshal([]byte(document), &value), "%s: %s", where, document)
	visit("", value)
}

// receiver is a webhook's.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	bodies []string
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.bodies = append(r.bodies, string(body))
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) received() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string{}, r.bodies...)
}

// hostileTeam has a phase that comes to something, and one that fails in every way in which
// an agent can choose the words.
const hostileTeam = `
version: 1
name: crew
personas:
  maker: {role: Maker, agent: maker, instructions: Make it.}
  breaker: {role: Breaker, agent: breaker, instructions: Break it., attempts: 7}
phases:
  - {name: make, personas: [maker], approve: true}
  - {name: break, personas: [breaker], checks: [evil]}
retry: {rounds: 1, initial: 10ms, max: 10ms}
help: {mode: ask, jira: {project: MD}}
`

// makerAgent says evil things until there is a file named go, and leaves files whose names
// and content are evil.
const makerAgent = `cat > /dev/null
while [ ! -f DIR/go ]; do cat DIR/evil.txt; cat DIR/evil.txt >&2; echo; echo "at work"; echo >&2; echo "at work" >&2; sleep 0.3; done
cp DIR/content.txt code.txt
cp DIR/content.txt "$(cat DIR/name.txt)"
cp DIR/content.txt '![i](http:evil.example) <img src=x>.md'
cp DIR/content.txt "$(printf %0255d 0)"
echo x > 'run$(touch pwned)1'
echo x > 'run$(touch pwned)2'
ln -s '[l](http:evil.example)' link
cp DIR/maker.json $MAESTRO_RESULT
`

// breakerAgent fails another way in each attempt.
const breakerAgent = `attempt=$(sed 's/.*"attempt":\([0-9]*\).*/\1/')
cat DIR/evil.txt; cat DIR/evil.txt >&2
case $attempt in
1) cp DIR/error.json $MAESTRO_RESULT;;
2) cp DIR/decision.json $MAESTRO_RESULT;;
3) cp DIR/category.json $MAESTRO_RESULT;;
4) echo x > "$(cat DIR/evil.txt | head -c 100 | tr '\000/' __)";;
5) cp DIR/secret.json $MAESTRO_RESULT;;
6) exit 3;;
7) cp DIR/summary.json $MAESTRO_RESULT;;
esac
`

// withHostileAgents serves the desk's store with agents that say what they can to do harm,
// and with a Jira and a webhook.
func (d *desk) withHostileAgents() (worker *command, jira *jiratest.Server, hook *receiver) {
	d.t.Helper()
	jira, hook = jiratest.New(d.t, jiratest.Options{}), newReceiver(d.t)
	d.set("JIRA_EMAIL", jiratest.Email)
	d.set("JIRA_TOKEN", jiratest.Token)
	d.set("HOOK", hook.URL)
	d.set("DATABASE", workerSecret)
	document := func(name string, value any) {
		data, err := json.Marshal(value)
		require.NoError(d.t, err)
		d.file(name, string(data))
	}
	type fields = map[string]any
	said := strings.ToValidUTF8(evilText(), "?")
	document("maker.json", fields{
		"summary": said, "decisions": fields{"color": strings.ToValidUTF8(evil, "?")},
		"usage": fields{"output_tokens": 7},
	})
	document("error.json", fields{"error": fields{"category": "unknown", "message": said, "output": said}})
	document("decision.json", fields{"decisions": fields{said[:100]: "x"}})
	document("secret.json", fields{"decisions": fields{"color": workerSecret}})
	document("category.json", fields{"summary": "x", "error": fields{"category": said, "message": "x"}})
	document("summary.json", fields{"summary": said, "usage": fields{"output_tokens": 7}})
	d.file("evil.txt", evilText())
	d.file("content.txt", "content "+strings.ReplaceAll(strings.ToValidUTF8(evil, "?"), "\x00", "")+"\n")
	d.file("name.txt", "cod\u202etxt.exe\u200b")
	scripts := strings.NewReplacer("DIR", d.dir)
	d.file("maker.sh", scripts.Replace(makerAgent))
	d.file("breaker.sh", scripts.Replace(breakerAgent))
	agents := d.file("agents.yaml", scripts.Replace(`version: 1
mounts: [{path: DIR}]
secrets: [DATABASE]
agents:
  maker: {kind: command, argv: [sh, DIR/maker.sh]}
  breaker: {kind: command, argv: [sh, DIR/breaker.sh]}
checks: {evil: {argv: [sh, -c, 'cat DIR/evil.txt; cat DIR/evil.txt >&2; exit 1']}}
jira: {url: `+jira.URL()+`, deployment: cloud, email_env: JIRA_EMAIL, token_env: JIRA_TOKEN}
webhook: {url_env: HOOK}
web_ui: http://127.0.0.1:8233
`))
	return d.serves(agents), jira, hook
}

// TestNothingOfAHostileAgentReachesPeople has agents say and leave whatever may do harm where
// it is shown, and looks at every place where people, and what they use, read it.
func TestNothingOfAHostileAgentReachesPeople(t *testing.T) {
	t.Parallel()
	d := newDesk(t).withServer()
	worker, jira, hook := d.withHostileAgents()
	ws := filepath.Join(d.dir, "ws")
	d.file("ws/README.md", "hello\n")
	d.must(0, "run", d.file("team.yaml", hostileTeam), "Make it so. "+strings.ReplaceAll(strings.ToValidUTF8(evil, ""), "\x00", ""),
		"--session", "s", "--workspace", ws)

	followed := []*command{d.begin("watch", "s"), d.begin("logs", "-f", "s"), d.begin("logs", "-f", "--full", "s")}
	screen := d.onTerminal(120, 40, nil, "watch", "s")
	followed[0].shows("at work")
	followed[1].shows("at work")
	screen.shows("at work")
	harmless(t, "the screen", screen.sees())
	d.surfaces("at work")

	d.file("go", "")
	d.comesTo("approval")
	d.page("waits for approval")
	d.surfaces("waits for approval")

	d.must(0, "approve", "s", "make")
	d.comesTo("help_needed")
	until(t, func() bool { return len(jira.Issues()) == 1 && len(hook.received()) >= 2 }, "it is told outside")
	screen.shows("help")
	harmless(t, "the screen's request", screen.sees())
	var categories []failures.Category
	for _, f := range d.status("s").Phases[1].Assignments[0].Failures {
		categories = append(categories, f.Category)
	}
	require.Equal(t, []failures.Category{
		failures.Unknown, failures.InvalidOutput, failures.InvalidOutput, failures.TestFailure,
		failures.InvalidOutput, failures.Unknown, failures.TestFailure,
	}, categories)
	d.page("needs help")
	d.surfaces("needs help")

	d.must(0, "resolve", "s", "skip", "--note", "no use")
	for _, c := range followed {
		c.wait()
		harmless(t, "followed", c.stdout.String()+c.stderr.String())
	}
	_, printed := screen.ends()
	require.NotRegexp(t, "\x1b\\[[0-9;]*"+evilNumber+"|\x1b][0-9]*;[^\x07\x1b]*evil|\x1b]52|\x1bc|[\u202e\u2066\u009b\u200b\ufeff]",
		printed, "the terminal")
	secretless(t, "the terminal", printed)
	until(t, func() bool { return len(jira.Issues()[0].Comments) > 0 }, "the ticket hears of the end")
	d.page("has ended")
	d.surfaces("has ended")
	d.taken(ws)
	d.history()
	for _, issue := range jira.Issues() {
		data, err := json.Marshal(issue)
		require.NoError(t, err)
		harmlessJSON(t, "the ticket", string(data), true)
	}
	for _, body := range hook.received() {
		harmlessJSON(t, "the webhook", body, true)
	}
	harmless(t, "the worker's log", worker.stderr.String()+worker.stdout.String())
}

// comesTo waits until the session's status says something.
func (d *desk) comesTo(state string) {
	d.t.Helper()
	status := ""
	defer func() {
		if d.t.Failed() {
			d.t.Log(status + d.run("logs", "s", "--tail", "5").stdout.String())
		}
	}()
	until(d.t, func() bool {
		status = d.run("status", "s").stdout.String()
		return strings.Contains(status, state)
	}, "it never comes to "+state)
}

// surfaces looks at what commands print of the session.
func (d *desk) surfaces(when string) {
	d.t.Helper()
	plain := [][]string{
		{"logs", "--full", "s"},
		{"resolve", "s", "nonsense"},
		{"resolve", "s", "retry", "--request", "no.such.1"},
		{"approve", "s", "nothing"},
		{"reject", "s", "break", "--note", "x"},
		{"apply", "s", "--dry-run"},
		{"checkpoints", "verify", "s"},
		{"artifacts", "diff", "s", "make", "--stat"},
		{"logs", "s", "make/maker"},
		{"logs", "s", "break/breaker"},
		{"__complete", "status", ""},
		{"__complete", "resolve", "s", ""},
		{"__complete", "logs", "s", ""},
		{"__complete", "artifacts", "diff", "s", ""},
	}
	for _, args := range plain {
		c := d.run(args...)
		harmless(d.t, when+": "+strings.Join(args, " "), c.stdout.String()+c.stderr.String())
	}
	for _, args := range [][]string{
		{"status", "s"},
		{"logs", "s"},
		{"inbox"},
		{"list"},
		{"artifacts", "list", "s"},
		{"artifacts", "diff", "s"},
		{"artifacts", "diff", "s", "make"},
		{"checkpoints", "list", "s"},
		{"checkpoints", "show", "s"},
		{"budget", "show", "s"},
		{"usage"},
		{"agents"},
		{"breaker", "list"},
		{"doctor"},
	} {
		for _, terminal := range []bool{false, true} {
			d.terminal = terminal
			c := d.run(args...)
			d.terminal = false
			printed := c.stdout.String()
			if strings.HasPrefix(strings.Join(args, " "), "artifacts diff") && !terminal { // a patch, for programs
				printed = headers(printed)
			}
			harmless(d.t, fmt.Sprintf("%s: %s, terminal %t", when, strings.Join(args, " "), terminal), printed+c.stderr.String())
			require.NotRegexp(d.t, "(?m)^(== break/other|-- decided admin)", printed, "an attempt that never was")
		}
		c := d.run(append(args, "-o", "json")...)
		if c.stdout.String() != "" {
			harmlessJSON(d.t, when+": "+strings.Join(args, " ")+" -o json", c.stdout.String(), false)
		}
		harmless(d.t, when+": "+strings.Join(args, " ")+" -o json", c.stderr.String())
	}
}

// headers are the lines of a patch besides those of the files' content.
func headers(patch string) string {
	return regexp.MustCompile(`(?m)^[-+ ]{1}(content|\[l\]).*$`).ReplaceAllString(patch, "")
}

// taken looks at what comes of taking the work home: the files are as they were made, what is
// said about them is harmless.
func (d *desk) taken(ws string) {
	d.t.Helper()
	patch := d.must(0, "apply", "s", "--patch")
	require.Contains(d.t, patch, "+content \x1b]8;;", "content stays as it is")
	harmless(d.t, "the patch's headers", headers(patch))
	runGit(d.t, ws, "", "init", "--quiet", "--initial-branch=main")
	runGit(d.t, ws, "", "add", ".")
	runGit(d.t, ws, "", "commit", "--quiet", "-m", "first")
	runGit(d.t, ws, patch, "apply", "--check", "-")
	for _, args := range [][]string{
		{"apply", "s", "--branch", "work", "--dir", ws},
		{"apply", "s", "--dir", ws},
		{"artifacts", "get", "s", "--out", filepath.Join(d.dir, "got")},
	} {
		c := d.run(args...)
		require.Zero(d.t, c.code, "%s: %s", args, c.stderr.String())
		harmless(d.t, strings.Join(args, " "), c.stdout.String()+c.stderr.String())
	}
	harmless(d.t, "the commit's message", runGit(d.t, ws, "", "log", "-1", "--format=%an%n%B", "work"))
	content, err := os.ReadFile(filepath.Join(d.dir, "content.txt"))
	require.NoError(d.t, err)
	got, err := os.ReadFile(filepath.Join(ws, "cod\u202etxt.exe\u200b"))
	require.NoError(d.t, err)
	require.Equal(d.t, string(content), string(got))
}
