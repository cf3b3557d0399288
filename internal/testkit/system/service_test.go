package system

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/worker/service"
	"github.com/maestro-hive/maestro/worker/telemetry/telemetrytest"
)

// reloads has a worker read its file again, and waits for what it says of it.
func (w *world) reloads(worker *process, said string) {
	w.t.Helper()
	before := strings.Count(worker.output.String(), said)
	worker.signal(syscall.SIGHUP)
	w.eventually("the worker says "+said, func() bool { return strings.Count(worker.output.String(), said) > before })
}

// offered lists the agents of the store's live workers, if there are any.
func (w *world) offered() (agents []string) {
	w.t.Helper()
	var doc struct {
		Workers []struct {
			Agents []struct{ Agent string }
		}
	}
	require.NoError(w.t, json.Unmarshal([]byte(w.maestro("agents", "-o", "json").stdout), &doc))
	for _, worker := range doc.Workers {
		for _, a := range worker.Agents {
			agents = append(agents, a.Agent)
		}
	}
	return agents
}

func TestHangUpTakesOverTheWorkerFileAndOnlyARightOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	teamFile := w.withHoldingAgent()
	w.concurrency(1)
	worker, port := w.servedWorker("--metrics-address", "127.0.0.1:0")
	reloaded := func() float64 {
		return telemetrytest.Scrape(t, metricsURL(t, worker)).Must(t, "maestro_worker_file_reload_success")
	}
	require.InDelta(t, 1, reloaded(), 0)
	w.hold("requirements")
	w.must("run", teamFile, "reload", "--session", "s")
	held := w.held("s", "requirements")

	w.write("agents.yaml", "version: 1\nagents:\n  holding: {kind: command, argv: [sh], concurency: 3}\n")
	w.reloads(worker, "worker file not reloaded")
	require.Regexp(t, `level=ERROR msg="worker file not reloaded[^\n]* file=\S*agents.yaml line=3 field=\S*concurency error=`, worker.output.String())
	r := w.isReady(port, "ready") // with the file of before
	require.Contains(t, r.File.Trouble, "concurency")
	require.Equal(t, filepath.Join(w.dir, "agents.yaml"), r.File.Path)
	require.InDelta(t, 0, reloaded(), 0)
	require.Equal(t, []string{"holding"}, w.offered())

	w.write("agents.yaml", "version: 1\n"+w.mounts()+"\nlimits: {lost_workers: 7}\nagents:\n  other: {kind: command, argv: [\"true\"]}\n")
	w.reloads(worker, "worker file reloaded")
	require.Regexp(t, `worker file reloaded" file=\S+ changed="agents, limits"`, worker.output.String())
	require.Empty(t, w.isReady(port, "ready").File.Trouble)
	require.InDelta(t, 1, reloaded(), 0)
	require.Equal(t, []string{"other"}, w.offered())
	refused := w.maestro("run", teamFile, "later", "--session", "later")
	require.Equal(t, 2, refused.code)
	require.Contains(t, refused.stderr, `agent "holding" of persona`)

	require.NoError(t, syscall.Kill(held, 0), "what is under way goes on")
	w.hold("design")
	w.release("requirements")
	w.shows("s", "the round that was under way ends", func(s session.Status) bool { return s.Phases[0].Status == session.Completed })
	require.Equal(t, map[string]int{"requirements": 1}, w.executed("s"), "and nobody takes up the next")

	w.concurrency(2)
	w.reloads(worker, "worker file reloaded")
	w.held("s", "design")
	w.must("run", teamFile, "second", "--session", "t")
	w.held("t", "design") // beside the first, with two slots
	w.release("design")
	for _, sessionID := range []string{"s", "t"} {
		s := w.completes(sessionID)
		for _, p := range s.Phases {
			require.Equal(t, 1, p.Assignments[0].Attempts, "%s", p.Name)
			require.Zero(t, p.Assignments[0].LostWorkers, "%s", p.Name)
		}
	}
}

func TestAnotherConcurrencyHoldsBesideWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	teamFile := w.withHoldingAgent()
	w.concurrency(2)
	worker := w.startWorker()
	w.hold("requirements")
	for _, sessionID := range []string{"a", "b"} {
		w.must("run", teamFile, "many", "--session", sessionID)
		w.held(sessionID, "requirements")
	}
	w.concurrency(1)
	w.reloads(worker, "worker file reloaded")
	w.must("run", teamFile, "many", "--session", "c")
	w.concurrency(3)
	require.NoFileExists(t, w.ledger("holding-c-requirements"), "two are at work already")
	w.reloads(worker, "worker file reloaded")
	w.held("c", "requirements")
	w.release("requirements")
	for _, sessionID := range []string{"a", "b", "c"} {
		w.completes(sessionID)
		require.Equal(t, 1, w.executed(sessionID)["requirements"], sessionID)
	}
}

// failingOnce says its secret and fails at its first attempt.
const failingOnce = `version: 1
agents:
  coder:
    kind: command
    env: [CODER_TOKEN]
    argv:
      - sh
      - -c
      - |
        cat > brief.json
        if grep -q '"attempt":1' brief.json; then printf 'no way with %s\n' "$CODER_TOKEN" >&2; exit 3; fi
        rm brief.json; echo code > code.txt
        echo '{"usage":{"input_tokens":100,"cost_usd":0.25}}' > $MAESTRO_RESULT
`

func TestEveryLineSaysWhatItIsAbout(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("agents.yaml", failingOnce)
	teamFile := w.write("team.yaml", `version: 1
name: one
personas:
  dev: {role: developer, agent: coder, instructions: do}
retry: {initial: 10ms}
phases:
  - {name: build, personas: [dev], approve: true}
`)
	w.variables = []string{"CODER_TOKEN=hunter2hunter2", "MAESTRO_LOG_FORMAT=json"}
	worker := w.startWorker()
	w.must("run", teamFile, "log", "--session", "s")
	w.shows("s", "it waits for approval", func(s session.Status) bool { return s.Status == session.AwaitingApproval })
	w.must("approve", "s")
	w.completes("s")
	worker.signal(syscall.SIGTERM)
	w.dies(worker)

	require.NotContains(t, worker.output.String(), "hunter2")
	said := map[string][]map[string]any{}
	for line := range strings.Lines(worker.output.String()) {
		var l map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &l), line)
		message := l["msg"].(string)
		said[message] = append(said[message], l)
		if l["session"] != nil {
			require.Equal(t, "s", l["session"])
			require.NotEmpty(t, l["run_id"], line)
		}
		if _, ok := l["attempt"]; ok || l["activity"] == "run-round" {
			require.Subset(t, l, map[string]any{"session": "s", "phase": "build", "persona": "dev", "agent": "coder", "round": 1.0}, line)
		}
		require.NotContains(t, l, "WorkflowID")
	}
	require.Len(t, said["session admitted"], 1)
	require.Subset(t, said["session admitted"][0], map[string]any{"session": "s", "team": "one"})
	require.Len(t, said["attempt started"], 2)
	require.Len(t, said["attempt ended"], 2)
	failed, passed := said["attempt ended"][0], said["attempt ended"][1]
	require.Subset(t, failed, map[string]any{"attempt": 1.0, "outcome": "failed", "category": "unknown"})
	require.Contains(t, failed["error"], "no way with ***")
	require.Subset(t, passed, map[string]any{"attempt": 2.0, "outcome": "completed", "tokens": 100.0, "cost_usd": 0.25})
	require.Positive(t, passed["duration_seconds"])
	require.Len(t, said["phase completed"], 1)
	require.Equal(t, "build", said["phase completed"][0]["phase"])
	require.Len(t, said["request to a person opened"], 1)
	require.Subset(t, said["request to a person opened"][0], map[string]any{"session": "s", "phase": "build"})
	require.Len(t, said["session ended"], 1)
	require.Subset(t, said["session ended"][0], map[string]any{"session": "s", "status": "completed", "tokens": 100.0})
	require.Len(t, said["worker has drained"], 1)
}

func TestTheBuildIsInTheIdentityOfPollers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.withHoldingAgent()
	_, port := w.servedWorker()
	var h service.Health
	require.Equal(t, http.StatusOK, w.asks(port, service.HealthPath, &h))
	require.Regexp(t, `^maestro-`+h.Store+`@\S+-0 \S+$`, h.Identity)
	require.True(t, strings.HasSuffix(h.Identity, " "+h.Version), "%+v", h)

	c := w.client()
	for queue, kind := range map[string]enumspb.TaskQueueType{
		spec.WorkflowQueue(h.Store): enumspb.TASK_QUEUE_TYPE_WORKFLOW, spec.AgentQueue(h.Store, "holding"): enumspb.TASK_QUEUE_TYPE_ACTIVITY,
	} {
		w.eventually(queue+" is polled", func() bool {
			d, err := c.DescribeTaskQueue(t.Context(), queue, kind)
			return err == nil && len(d.GetPollers()) > 0 && d.GetPollers()[0].GetIdentity() == h.Identity
		})
	}
	require.Contains(t, w.must("agents", "-o", "json"), `"version": "`+h.Version+`"`)

	var v struct {
		Version, Commit, Go, SDK, Platform string
		CommittedAt                        *time.Time `json:"committed_at"`
	}
	require.NoError(t, json.Unmarshal([]byte(w.must("version", "-o", "json")), &v))
	require.NotEmpty(t, v.Version)
	require.NotEmpty(t, v.SDK)
	require.Contains(t, v.Platform, "/")
	require.Equal(t, v.Commit, h.Commit)
	if v.Commit != "" { // a source without its repository knows none
		require.Contains(t, h.Version, v.Commit[:7])
		require.NotNil(t, v.CommittedAt)
	}
}

// buildTagged builds a worker of this source in a repository of its own, as the
// commit of a tag.
func buildTagged(t *testing.T, tag string) (program, commit string) {
	t.Helper()
	source, err := filepath.Abs("../../..")
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), "source")
	require.NoError(t, filepath.WalkDir(source, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(source, path)
		if err != nil {
			return err
		}
		switch {
		case rel == ".git" && !d.IsDir(): // a work tree's, which leads to its repository
			return nil
		case d.IsDir() && (slices.Contains([]string{".git", "bin", "server", "deploy"}, rel) || d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(dir, rel), 0o700)
		case !d.Type().IsRegular():
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, rel), data, 0o600)
	}))
	do := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "CGO_ENABLED=0")
		output, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s %v: %s", name, args, output)
		return strings.TrimSpace(string(output))
	}
	require.NoFileExists(t, filepath.Join(dir, ".git"))
	do("git", "init", "-q")
	do("git", "add", "-A")
	do("git", "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-q", "-m", "source")
	do("git", "tag", tag)
	program = filepath.Join(t.TempDir(), "worker")
	do("go", "build", "-trimpath", "-buildvcs=true", "-o", program, "./worker")
	return program, do("git", "rev-parse", "HEAD")
}

func TestAWorkerOfAnotherVersionTakesUpWhatTheOldOneHad(t *testing.T) {
	t.Parallel()
	upgraded, commit := buildTagged(t, "v1.98.7")
	w := newWorld(t)
	teamFile := w.withHoldingAgent()
	worker := w.startWorker()
	w.hold("requirements")
	w.must("run", teamFile, "upgrade", "--session", "s")
	before := w.held("s", "requirements")
	worker.kill()
	again := w.serves(w.start(upgraded, "--drain", "1s"))
	require.NotContains(t, worker.output.String(), "v1.98.7")
	require.Regexp(t, `identity="maestro-\S+-0 v1\.98\.7\+`+commit[:7]+`"`, again.output.String())
	w.eventually("it is at work again", func() bool { return w.held("s", "requirements") != before })
	require.Contains(t, again.output.String(), tookUp)
	w.release("requirements")
	w.completes("s")
}

func TestADrainTellsWhatItWaitsForAndASecondSignalEndsIt(t *testing.T) {
	t.Parallel()
	for _, second := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(fmt.Sprint(second), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			teamFile := w.withHoldingAgent()
			worker := w.serves(w.start(filepath.Join(programs, "maestro-worker"), "--drain", "10m"))
			w.hold("requirements")
			w.must("run", teamFile, "drain", "--session", "s")
			w.held("s", "requirements")
			worker.signal(syscall.SIGTERM)
			w.eventually("it tells what it waits for", func() bool {
				return regexp.MustCompile(`msg="worker is draining" rounds=1 left=\d+m`).MatchString(worker.output.String())
			})
			require.Regexp(t, `handed over" session=s run_id=\S+ phase=requirements persona=\S+ round=1 agent=holding drain=10m`, worker.output.String())
			require.Empty(t, w.offered())
			worker.signal(second)
			w.dies(worker)
			ended, ok := worker.cmd.ProcessState.Sys().(syscall.WaitStatus)
			require.True(t, ok)
			require.Equal(t, second, ended.Signal())

			w.startWorker()
			w.release("requirements")
			w.completes("s")
		})
	}
}
