//go:build system

package prometheus_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/platform/temporalutil/temporaltest"
	"github.com/maestro-hive/maestro/internal/testkit/proctest"
)

// limit bounds every wait in these tests.
const limit = 2 * time.Minute

// program finds a program that a Debian package brings. A test that needs it
// fails where it is missing.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	require.NoError(t, err, "this test needs %s: install Debian's package prometheus (apt-get install prometheus)", name)
	return path
}

func TestPromtoolAcceptsRulesAndConfiguration(t *testing.T) {
	t.Parallel()
	promtool := program(t, "promtool")
	for _, args := range [][]string{
		{"check", "rules", "maestro.rules.yml"},
		{"check", "config", "prometheus.yml"},
		{"test", "rules", "maestro.rules.test.yml"},
	} {
		out, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput()
		require.NoError(t, err, "promtool %s\n%s", strings.Join(args, " "), out)
	}
}

// TestPrometheusWatchesAWorker has a real Prometheus scrape a real worker, with
// the configuration and the rules of this directory.
func TestPrometheusWatchesAWorker(t *testing.T) {
	t.Parallel()
	p := program(t, "prometheus")
	s := newSite(t)
	worker := s.startWorker()
	api := s.startPrometheus(p, worker.address)
	s.run(0, "good", "coder")

	api.eventually(`sum(maestro_sessions_ended_total{state="completed"})`, 1)
	api.eventually(`sum(maestro_tokens_total{type="output"})`, 7)
	api.eventually(`sum(gen_ai_client_token_usage_sum{gen_ai_token_type="output"})`, 7)
	api.eventually(`min(maestro_worker_polling)`, 1)
	api.eventually(`up{job="maestro"}`, 1)
	for _, query := range dashboardQueries(t) {
		api.query(query) // whatever it finds, Prometheus understands it
	}
	for name := range api.alerts() {
		api.alert(name, "inactive") // before the first scrape, a worker is missing
	}

	s.run(1, "bad", "hopeless")
	api.alert("MaestroGaveUp", "firing")
	worker.kill()
	api.alert("MaestroWorkerDown", "pending")
	api.alert("MaestroNoWorker", "pending")
}

// dashboardQueries lists the queries of the dashboard's panels.
func dashboardQueries(t *testing.T) []string {
	t.Helper()
	data, err := os.ReadFile("../grafana/maestro.json")
	require.NoError(t, err)
	var dashboard struct {
		Panels []struct {
			Targets []struct{ Expr string }
		}
	}
	require.NoError(t, json.Unmarshal(data, &dashboard))
	var queries []string
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			queries = append(queries, strings.ReplaceAll(target.Expr, "$job", ".+"))
		}
	}
	require.Greater(t, len(queries), 20)
	return queries
}

// site is a Temporal server, a store and what runs beside them.
type site struct {
	t       *testing.T
	dir     string
	environ []string
}

func newSite(t *testing.T) *site {
	t.Helper()
	dir := t.TempDir()
	address := temporaltest.Start(t, "--search-attribute", "MaestroTeam=Keyword", "--search-attribute", "MaestroStatus=Keyword",
		"--search-attribute", "MaestroPhase=KeywordList", "--search-attribute", "MaestroTokens=Int")
	s := &site{t: t, dir: dir, environ: []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + os.TempDir(), "TEMPORAL_ADDRESS=" + address,
		"MAESTRO_STATE_DIR=" + filepath.Join(dir, "state"), "MAESTRO_AGENTS=" + filepath.Join(dir, "agents.yaml"),
	}}
	s.write("agents.yaml", `version: 1
agents:
  coder: {kind: command, argv: [sh, -c, 'echo ''{"usage":{"input_tokens":3,"output_tokens":7}}'' > $MAESTRO_RESULT']}
  hopeless: {kind: command, argv: ["false"]}
`)
	return s
}

func (s *site) write(name, content string) string {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	require.NoError(s.t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// run has an agent work as a team of its own, to the session's end.
func (s *site) run(code int, session, agent string) {
	s.t.Helper()
	team := s.write(session+".yaml", fmt.Sprintf(`version: 1
name: web
personas: {dev: {role: Developer, agent: %s, instructions: do it}}
phases: [{name: build, personas: [dev]}]
retry: {attempts: 1, rounds: 1}
help: {mode: fail}
`, agent))
	cmd := exec.CommandContext(s.t.Context(), temporaltest.Binary(s.t, "maestro"), "run", team, "Build.", "--session", session, "--watch")
	cmd.Env = s.environ
	out, _ := cmd.CombinedOutput()
	require.Equal(s.t, code, cmd.ProcessState.ExitCode(), "%s", out)
}

// running is a program under way.
type running struct {
	cmd    *exec.Cmd
	output *proctest.Output
	// address is where it serves HTTP.
	address string
	kill    func()
}

// start starts a program until the test ends or kills it.
func (s *site) start(name string, args ...string) *running {
	s.t.Helper()
	r := &running{cmd: exec.Command(name, args...), output: &proctest.Output{}}
	r.cmd.Stdout, r.cmd.Stderr, r.cmd.Env, r.cmd.Dir = r.output, r.output, s.environ, s.dir
	require.NoError(s.t, r.cmd.Start())
	r.kill = sync.OnceFunc(func() {
		_ = r.cmd.Process.Kill()
		_ = r.cmd.Wait()
	})
	s.t.Cleanup(func() {
		r.kill()
		if s.t.Failed() {
			s.t.Logf("%s:\n%s", filepath.Base(name), r.output)
		}
	})
	return r
}

func (s *site) startWorker() *running {
	s.t.Helper()
	r := s.start(temporaltest.Binary(s.t, "maestro-worker"), "--metrics-address", "127.0.0.1:0")
	served := regexp.MustCompile(`url=http://(\S+)/metrics`)
	require.Eventually(s.t, func() bool {
		found := served.FindStringSubmatch(r.output.String())
		if found != nil {
			r.address = found[1]
		}
		return found != nil && strings.Contains(r.output.String(), "worker serves")
	}, limit, 50*time.Millisecond, "%s", r.output)
	return r
}

// startPrometheus starts Prometheus with this directory's configuration, except
// that it scrapes the one worker, and hurries.
func (s *site) startPrometheus(name, worker string) *api {
	s.t.Helper()
	config, err := os.ReadFile("prometheus.yml")
	require.NoError(s.t, err)
	rules, err := filepath.Abs("maestro.rules.yml")
	require.NoError(s.t, err)
	text := string(config)
	targets := s.write("targets.yml", fmt.Sprintf("- targets: [%q]\n", worker))
	for _, change := range [][2]string{{"targets.yml", targets}, {"maestro.rules.yml", rules}, {"_interval: 15s", "_interval: 1s"}} {
		require.Contains(s.t, text, change[0])
		text = strings.ReplaceAll(text, change[0], change[1])
	}
	address := net.JoinHostPort("127.0.0.1", proctest.FreePort(s.t))
	r := s.start(name, "--config.file="+s.write("prometheus.yml", text), "--storage.tsdb.path="+filepath.Join(s.dir, "tsdb"),
		"--web.listen-address="+address)
	a := &api{t: s.t, base: "http://" + address}
	require.Eventually(s.t, func() bool {
		answer, err := http.Get(a.base + "/-/ready")
		if err != nil {
			return false
		}
		_ = answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	}, limit, 50*time.Millisecond, "%s", r.output)
	return a
}

// api is a Prometheus to ask.
type api struct {
	t    *testing.T
	base string
}

func (a *api) get(path string, into any) {
	a.t.Helper()
	answer, err := http.Get(a.base + path)
	require.NoError(a.t, err)
	defer func() { require.NoError(a.t, answer.Body.Close()) }()
	var body struct {
		Status, Error string
		Data          json.RawMessage
	}
	require.NoError(a.t, json.NewDecoder(answer.Body).Decode(&body))
	require.Equal(a.t, "success", body.Status, "%s: %s", path, body.Error)
	require.NoError(a.t, json.Unmarshal(body.Data, into))
}

// query evaluates an expression and returns its values.
func (a *api) query(expression string) []string {
	a.t.Helper()
	var data struct {
		Result []struct{ Value [2]any }
	}
	a.get("/api/v1/query?query="+url.QueryEscape(expression), &data)
	var values []string
	for _, r := range data.Result {
		values = append(values, fmt.Sprint(r.Value[1]))
	}
	return values
}

// eventually waits until an expression has one value, and that.
func (a *api) eventually(expression string, want int) {
	a.t.Helper()
	var got []string
	require.Eventually(a.t, func() bool {
		got = a.query(expression)
		return len(got) == 1 && got[0] == fmt.Sprint(want)
	}, limit, 200*time.Millisecond, "%s is not %d but %v", expression, want, &got)
}

type rule struct {
	Name, State, Health string
}

func (a *api) rules() []rule {
	a.t.Helper()
	var data struct{ Groups []struct{ Rules []rule } }
	a.get("/api/v1/rules", &data)
	var all []rule
	for _, g := range data.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

// alerts is the state of every alert, once all have been evaluated without a
// fault.
func (a *api) alerts() map[string]string {
	a.t.Helper()
	states := map[string]string{}
	require.Eventually(a.t, func() bool {
		for _, r := range a.rules() {
			if r.Health != "ok" {
				return false
			}
			states[r.Name] = r.State
		}
		return len(states) > 10
	}, limit, 100*time.Millisecond, "not all rules can be evaluated")
	return states
}

// alert waits for an alert to be in a state.
func (a *api) alert(name, state string) {
	a.t.Helper()
	require.Eventually(a.t, func() bool { return a.alerts()[name] == state }, limit, 200*time.Millisecond, "%s is not %s", name, state)
}
