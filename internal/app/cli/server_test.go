package cli_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/testkit/proctest"
)

// away returns a desk on another machine, which knows only the address of a server and a token.
func (c caller) away() *desk {
	c.t.Helper()
	d := newDesk(c.t)
	d.namespace = ""
	d.environ = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + d.dir, "MAESTRO_SERVER=" + c.url, "MAESTRO_TOKEN=" + c.token}
	return d
}

// approvedTeam waits for approval after its first phase.
const approvedTeam = `
version: 1
name: pair
personas:
  analyst: {role: Analyst, agent: writer, instructions: "Write docs."}
  dev: {role: Developer, agent: coder, instructions: "Write code.", attempts: 1}
phases:
  - {name: think, personas: [analyst], produces: ["docs/*.md"], approve: true}
  - {name: build, personas: [dev], checks: [has-code]}
retry: {rounds: 1, initial: 10ms, max: 10ms}
budget: {tokens: 5000, daily: {tokens: 9000}}
`

var (
	agents = map[string]string{
		"writer": "mkdir -p docs; echo '# Design' > docs/design.md; echo 'the design is written'; echo '{\"usage\": " +
			"{\"output_tokens\": 60}}' > $MAESTRO_RESULT",
		"coder": "test -f README.md && cat README.md > code.txt; echo done",
	}
	// passing is what changes between two looks: spans of time, and times with parts of seconds.
	passing = regexp.MustCompile(`"seconds": [0-9.e-]+|\b\d+(\.\d+)?(ms|s|m)\b|\d\d:\d\d:\d\d`)
)

func steady(text string) string { return passing.ReplaceAllString(text, "~") }

// places puts directories of the desk into arguments.
func (d *desk) places(args []string) []string {
	out := slices.Clone(args)
	for i, a := range out {
		if a == strings.ToUpper(a) && len(a) > 2 {
			out[i] = filepath.Join(d.dir, strings.ToLower(a))
		}
	}
	return out
}

// same runs a command line at both desks, and holds the outputs and exit codes against each other.
func same(t *testing.T, near, far *desk, args ...string) *command {
	t.Helper()
	here, there := near.run(near.places(args)...), far.run(far.places(args)...)
	where := strings.Join(args, " ")
	printed := func(d *desk, text string) string { return strings.ReplaceAll(steady(text), d.dir, "HOME") }
	require.Equal(t, printed(near, here.stdout.String()), printed(far, there.stdout.String()), "%s\nstderr: %s", where,
		there.stderr.String())
	require.Equal(t, printed(near, here.stderr.String()), printed(far, there.stderr.String()), where)
	require.Equal(t, here.code, there.code, where)
	return there
}

func TestCommandsPrintTheSameWithAServer(t *testing.T) {
	t.Parallel()
	d := newDesk(t).withServer()
	d.withWorker(agents)
	team := d.file("team.yaml", approvedTeam)
	readme := d.file("site/README.md", "read me\n")
	d.must(0, "run", team, "Make it so.", "--session", "whole", "--workspace", filepath.Dir(readme), "--label", "kind=demo")
	d.must(3, "watch", "whole")
	d.must(0, "approve", "whole")
	d.must(0, "watch", "whole")
	d.must(0, "run", team, "Make it so, too.", "--session", "waits")
	d.must(3, "watch", "waits")
	far := d.served(nil, "admin").away()
	for _, desk := range []*desk{d, far} {
		desk.file("dir/README.md", "read me\n")
		desk.file("taken/code.txt", "another\n")
	}
	for _, line := range []string{
		"list", "list -o json", "list --team pair --status completed", "list --label kind=demo -o json", "list --limit 1",
		"list --limit 0", "list --team nobody",
		"list --cursor nonsense",
		"status whole -o json", "status waits -o json", "inbox", "inbox -o json",
		"resolve waits retry", "approve waits build", "approve waits --request think.approval.9", "reject waits",
		"approve whole", "cancel whole",
		"artifacts list whole", "artifacts list whole -o json", "artifacts list waits",
		"artifacts diff whole", "artifacts diff whole build -o json", "artifacts diff whole think..build --stat",
		"artifacts diff whole --with waits -R",
		"artifacts diff whole nothing", "artifacts diff whole -- no/such",
		"artifacts get whole --out OUT", "artifacts get whole docs --out OUT -o json", "artifacts get whole docs --out OUT",
		"artifacts get whole no/such --out OUT",
		"apply whole --dir DIR --dry-run", "apply whole --dir DIR --patch", "apply whole --dir DIR", "apply whole --dir DIR -o json",
		"apply waits --dir DIR", "apply waits --dir DIR --partial -o json",
		"apply whole --dir TAKEN", "apply whole --dir TAKEN --branch b",
		"logs whole", "logs whole -o json", "logs whole build --tail 1", "logs whole build/dev --full", "logs whole nothing",
		"logs waits -f", "logs whole -f --tail 1", "logs whole -f -o json",
		"watch whole", "watch waits", "watch whole --plain",
		"usage", "usage -o json", "usage --by model,day --since 7d", "usage --label kind=demo -o csv", "usage --label kind=none",
		"usage whole", "usage whole -o json", "usage --by nothing",
		"deliver whole --repository acme/shop", "deliver waits", "resume waits", "resume waits --force think",
		"resume whole", "resume whole -o json", "resume whole --only nothing",
		"resume whole --team nothing.yaml",
		"fork whole", "fork whole --from nothing", "fork whole --from build --as whole", "fork whole --from build --as a/b",
		"budget show whole", "budget show waits -o json", "budget show --team pair -o json", "budget show --team nobody",
		"budget raise whole --tokens 5", "budget raise waits --phase build --tokens 5",
	} {
		same(t, d, far, strings.Fields(line)...)
	}
	for _, made := range []string{"dir", "out"} {
		require.Equal(t, tree(t, filepath.Join(d.dir, made)), tree(t, filepath.Join(far.dir, made)))
	}
	for _, s := range []string{"whole", "waits"} { // the page is named by the address that is used
		same(t, d, far, "status", s)
	}
	for _, line := range []string{
		"status wholes", "cancel nobody", "approve nobody", "usage nobody", "budget show nobody",
		"budget raise nobody --tokens 1", "resume nobody", "fork nobody --from x",
	} {
		unknown := far.run(strings.Fields(line)...)
		require.Equal(t, 2, unknown.code, line)
		require.Regexp(t, `session "\w+" not found in the server's store`, unknown.stderr.String(), line)
	}
	require.Contains(t, far.run("status", "wholes").stderr.String(), `did you mean "whole"?`)

	require.Contains(t, far.run("usage", "whole").stdout.String(), "60")
	far.prints(`{"raised": {"cap": {"tokens": 5500}}}`, "budget", "raise", "waits", "--tokens", "500", "--note", "more")
	require.Contains(t, d.must(0, "budget", "show", "waits"), "raised by 500 tokens by test")
	far.prints(`{"limit": {"tokens": 10000}}`, "budget", "raise", "--team", "pair", "--tokens", "1000")

	var answered control.Answered
	far.json(&answered, "approve", "waits", "--note", "Agreed.")
	require.True(t, answered.Taken)
	require.Equal(t, "test, a token of root@desk", answered.Answer.By, "who answers is who the token is of")
	again := far.run("approve", "waits", "think", "--request", answered.Answer.Request)
	require.Equal(t, 1, again.code)
	require.Regexp(t, "no open request|no request is open", again.stderr.String())
	far.ends(2, "it records who the token is of", "approve", "waits", "--by", "ann")
	require.Contains(t, d.must(0, "audit"), "request.approve")
}

func TestAServerThatRefusesOrIsAway(t *testing.T) {
	t.Parallel()
	d := newDesk(t).withServer()
	d.withWorker(agents)
	d.must(0, "run", d.file("team.yaml", approvedTeam), "Make it so.", "--session", "s")
	d.must(3, "watch", "s")
	viewer := d.served(nil, "viewer").away()
	viewer.must(0, "status", "s")
	require.Empty(t, viewer.ends(1, "the role approver or admin for team pair is missing", "approve", "s").stdout.String())
	viewer.ends(2, "`maestro team list` works with Temporal and the store themselves", "team", "list", "--server",
		"http://127.0.0.1:1")
	viewer.ends(2, "excludes --state-dir", "list", "--server", "http://127.0.0.1:1", "--state-dir", d.state)
	viewer.ends(2, "excludes --api-key", "list", "--server", "http://127.0.0.1:1", "--api-key", "k")
	viewer.ends(2, "without encryption", "list", "--server", "http://192.0.2.1")
	viewer.ends(2, "is not the address of a server", "list", "--server", "ftp://example.org")
	require.Empty(t, viewer.ends(4, "cannot be reached", "list", "--server", "http://127.0.0.1:1").stdout.String())
	viewer.ends(4, "cannot be reached", "watch", "s", "--server", "http://127.0.0.1:1")
	viewer.ends(4, "cannot be reached", "run", "pair", "Make it so.", "--server", "http://127.0.0.1:1")
	// a flag counts more than the environment
	viewer.ends(0, "showing what the store in ", "list", "--state-dir", d.state, "--address", "127.0.0.1:1")

	viewer.set("MAESTRO_TOKEN", "wrong")
	require.Empty(t, viewer.ends(2, "does not accept the token", "list").stdout.String())
	viewer.set("MAESTRO_TOKEN", "")
	viewer.ends(2, "no token for", "list")

	var stray atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { stray.Add(1) }))
	defer elsewhere.Close()
	moved := httptest.NewServer(http.RedirectHandler(elsewhere.URL+"/api/v1/sessions", http.StatusTemporaryRedirect))
	defer moved.Close()
	viewer.file("token", "secret\n")
	viewer.ends(2, "a redirect to", "list", "--server", moved.URL, "--token-file", filepath.Join(viewer.dir, "token"))
	require.Zero(t, stray.Load(), "no other host gets the token")
}

func TestRunApplyAndTeamsWithAServer(t *testing.T) {
	t.Parallel()
	d := newDesk(t).withServer()
	d.withWorker(agents)
	d.must(0, "team", "register", d.file("registered.yaml", strings.ReplaceAll(approvedTeam, "approve: true", "approve: false")))
	server := d.served(nil, "operator", "approver")
	far := server.away()
	far.file("prompts/dev.md", "Write code.\n")
	team := far.file("team.yaml", strings.Replace(approvedTeam, `instructions: "Write code."`, "instructions_file: prompts/dev.md",
		1))
	far.file("site/README.md", "from far\n")
	far.file("site/.env", "SECRET=1\n")
	far.file("site/ignored.log", "x\n")
	far.file("site/.gitignore", "*.log\n")
	require.NoError(t, os.Chmod(far.file("site/run.sh", "#!/bin/sh\n"), 0o700))
	require.NoError(t, os.Symlink("run.sh", filepath.Join(far.dir, "site", "link")))
	site := filepath.Join(far.dir, "site")

	run := far.ends(0, "the session starts from 5 files", "run", team, "Make it so.", "--session", "one", "--workspace",
		site, "--include", "ignored.log", "--label", "kind=far", "--pause-after", "build")
	require.Equal(t, "one\n", run.stdout.String())
	require.Contains(t, run.stderr.String(), "not taken, because they look like secrets: .env")
	require.NotEmpty(t, server.until("one", session.AwaitingApproval).LeftOut, "what was left out where the files are")
	far.must(0, "approve", "one", "think")
	for says, args := range map[string][]string{
		"already exists": {team, "Again.", "--session", "one"},
		"file nothing not found, and team \"nothing\" is not registered": {"nothing", "x"},
		"--only: ":                   {team, "x", "--only", "nothing"},
		"KEY=VALUE":                  {team, "x", "--label", "nothing"},
		"cannot be read":             {team, "x", "--input", "think=" + filepath.Join(site, "no-such")},
		"--from-jira needs Temporal": {team, "--from-jira", "MD-1"},
	} {
		far.ends(2, says, append([]string{"run"}, args...)...)
	}
	require.Contains(t, far.run("resume", "one", "--edit", "think="+site).stderr.String(), "--edit needs Temporal and the store")
	server.until("one", session.AwaitingApproval) // paused after build
	far.ends(0, "session one continues after phase build", "resume", "one", "--watch")
	far.ends(0, "restores  think/analyst", "resume", "one", "--force", "build", "--team", "pair", "--watch")
	forked := far.must(0, "fork", "one", "--from", "build", "--as", "fork", "--team", team, "--watch")
	require.Contains(t, forked, "think/analyst: restored")
	require.Regexp(t, `^pair-\d+-\w+\n$`, far.must(0, "fork", "one", "--from", "build"))
	far.ends(3, "maestro approve two think", "run", team, "Make it so.", "--session", "two", "--watch")
	require.Equal(t, 0, far.run("cancel", "two", "--watch").code)
	var started control.Started
	far.json(&started, "run", "pair", "Make it so.", "--workspace", site, "--input", "think="+
		filepath.Dir(filepath.Dir(far.file("given/docs/design.md", "# Given\n"))))
	require.True(t, started.Admitted)
	server.until(started.Session, session.Completed)
	far.cwd = filepath.Join(far.dir, "site")
	far.must(0, "apply", started.Session)
	require.Equal(t, "from far\n", tree(t, site)["code.txt"])
	require.Contains(t, d.must(0, "audit"), "session.start")
}

func TestARunThatIsSentAgainStartsOneSession(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var ids []string
	fake := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in control.NewSession
		if r.Method == http.MethodGet {
			_, _ = w.Write([]byte(`{"status": "admitted", "reason": "nobody polls"}`))
			return
		}
		if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&in) != nil {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		ids = append(ids, in.Session)
		switch {
		case in.Requirement == "never": // like a proxy whose patience ends
			w.WriteHeader(http.StatusGatewayTimeout)
		case in.Requirement == "twice" && len(ids) == 1:
			w.WriteHeader(http.StatusGatewayTimeout)
		case in.Requirement == "twice":
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusConflict)
			_, _ = w.Write([]byte(`{"detail": "it exists", "kind": "conflict", "field": "session", "session": "` + in.Session + `"}`))
		}
	}))
	defer fake.Close()
	far := caller{t: t, url: fake.URL, token: "secret"}.away()
	team := far.file("team.yaml", oneTeam)
	started := far.run("run", team, "twice")
	require.Len(t, ids, 2, started.stderr.String())
	require.Equal(t, ids[0], ids[1])
	require.NotEmpty(t, ids[0])
	require.Equal(t, ids[0]+"\n", started.stdout.String())
	require.Contains(t, started.stderr.String(), "the session is started, but no worker admitted it within 30s: nobody "+
		"polls; it runs")
	unknown := far.ends(4, "the server may have started session", "run", team, "never")
	require.Contains(t, unknown.stderr.String(), "session "+ids[2]+": maestro status "+ids[2])
}

// serving serves the desk's store at an address, and returns the server.
func (d *desk) serving(address string) *command {
	d.t.Helper()
	server := d.begin("serve", "--listen", address)
	server.says("sign in")
	return server
}

func TestFollowingContinuesAfterARestartOfTheServer(t *testing.T) {
	t.Parallel()
	d := newDesk(t).withServer()
	gate := func(n string) string {
		return "until test -f " + filepath.Join(d.dir, "gate"+n) + "; do sleep 0.1; done; "
	}
	d.withWorker(map[string]string{
		"coder": "echo line one; " + gate("1") + "echo line two; " + gate("2") + "echo line three; echo x > code.txt",
	})
	address := "127.0.0.1:" + proctest.FreePort(t)
	server := d.serving(address)
	token := strings.TrimSpace(d.must(0, "token", "create", "test", "--role", "operator"))
	far := caller{t: t, url: "http://" + address, token: token}.away()
	far.must(0, "run", far.file("team.yaml", oneTeam), "Make it so.", "--session", "s")
	logs, watch := far.begin("logs", "s", "-f"), far.begin("watch", "s")
	logs.shows("line one")
	watch.shows("build/dev: line one")
	server.interrupt()
	server.wait()
	watch.says("lost the connection to the Maestro server at http://" + address)
	logs.says("lost the connection to the Maestro server at http://" + address)
	d.file("gate1", "")
	server = d.serving(address)
	watch.says("reconnected")
	logs.shows("line two")
	require.Contains(t, logs.stderr.String(), "reconnected")
	d.file("gate2", "")
	require.Equal(t, 0, logs.wait(), logs.stderr.String())
	require.Equal(t, 0, watch.wait(), watch.stderr.String())
	watch.shows("session s: completed")
	for _, line := range []string{"line one", "line two", "line three"} {
		require.Equal(t, 1, strings.Count(logs.stdout.String(), line), logs.stdout.String())
	}
	server.interrupt()
	server.wait()
	far.ends(4, "cannot be reached", "logs", "s", "-f")
}

// caller calls the API of a server with a token.
type caller struct {
	t          *testing.T
	url, token string
}

// served serves the desk's store with more flags, and returns a caller with roles.
func (d *desk) served(flags []string, roles ...string) caller {
	d.t.Helper()
	server := d.begin(append([]string{"serve", "--listen", "127.0.0.1:0"}, flags...)...)
	server.says("sign in")
	url := regexp.MustCompile(`API +(\S+)`).FindStringSubmatch(server.stderr.String())[1]
	args := []string{"token", "create", "test"}
	for _, role := range roles {
		args = append(args, "--role", role)
	}
	return caller{d.t, url, strings.TrimSpace(d.must(0, args...))}
}

// call calls an operation and decodes its answer, or that of a failure into nothing.
func (c caller) call(method, path string, body any, into any, header ...string) (status int, text string) {
	c.t.Helper()
	data, isData := body.([]byte)
	if !isData && body != nil {
		var err error
		data, err = json.Marshal(body)
		require.NoError(c.t, err)
	}
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.url+path, bytes.NewReader(data))
	require.NoError(c.t, err)
	r.Header.Set("Authorization", "Bearer "+c.token)
	if !isData && body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	got, err := http.DefaultClient.Do(r)
	require.NoError(c.t, err)
	defer got.Body.Close()
	data, err = io.ReadAll(got.Body)
	require.NoError(c.t, err)
	if into != nil {
		require.Equal(c.t, http.StatusOK, got.StatusCode, "%s %s: %s", method, path, data)
		require.NoError(c.t, json.Unmarshal(data, into))
	}
	return got.StatusCode, string(data)
}

// until waits until a session is in a state.
func (c caller) until(sessionID string, state session.State) session.Status {
	c.t.Helper()
	var s session.Status
	until(c.t, func() bool {
		c.call("GET", "/sessions/"+sessionID, nil, &s)
		return s.Status == state
	}, "session %s: %+v", sessionID, &s)
	return s
}
