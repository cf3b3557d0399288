package service_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/models/agent"
	"github.com/maestro-hive/maestro/internal/models/wire"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil/temporaltest"
	"github.com/maestro-hive/maestro/internal/sandbox/room"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/cas"
	"github.com/maestro-hive/maestro/internal/store/state"
	"github.com/maestro-hive/maestro/worker/service"
	"github.com/maestro-hive/maestro/worker/telemetry"
	"github.com/maestro-hive/maestro/workflows"
)

func TestMain(m *testing.M) {
	room.Shim()
	if os.Getenv(asSignalled) != "" {
		beSignalled()
		return
	}
	if signal.Ignored(syscall.SIGHUP) { // as where the tests run by nohup
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP) // programs get the default again
	}
	os.Exit(m.Run())
}

// stand is a Temporal server, a store and a worker in this process.
type stand struct {
	t      *testing.T
	client client.Client
	// namespace is the one in Temporal that is this stand's own.
	namespace string
	store     *store.Store
}

func newStand(t *testing.T, cfg agent.Config) *stand {
	t.Helper()
	return newStandWith(t, cfg, nil)
}

// newStandWith is a stand whose worker is measured.
func newStandWith(t *testing.T, cfg agent.Config, tel *telemetry.Telemetry) *stand {
	t.Helper()
	return newStandIn(t, cfg, tel, os.Getenv)
}

// newStandIn is a stand whose worker has an environment of its own, on a server with flags.
func newStandIn(t *testing.T, cfg agent.Config, tel *telemetry.Telemetry, getenv func(string) string, flags ...string) *stand {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	address, namespace := temporaltest.Namespace(t, flags...)
	conn, err := temporalutil.Dial(t.Context(), &temporalutil.Options{Address: address, Namespace: namespace}, noEnvironment{}, quiet, tel.Instrument)
	require.NoError(t, err)
	t.Cleanup(conn.Close)

	cfg.Version, cfg.Dir = 1, t.TempDir()
	meet(t, &cfg)
	state := filepath.Join(t.TempDir(), "state")
	w, err := service.Setup{
		Config: cfg, StateDir: state, Connection: conn, Getenv: getenv, Host: "test", PID: os.Getpid(),
		Version: "test", Telemetry: tel, Clock: time.Now, Logger: quiet,
	}.Build()
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() { stop(); require.NoError(t, <-done) })

	st, err := store.Open(state, store.Options{Clock: time.Now})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		offers, err := st.State.Offers(t.Context())
		return err == nil && len(offers) == 1
	}, time.Minute, 10*time.Millisecond)
	return &stand{t: t, client: conn.Client, namespace: namespace, store: st}
}

// meet lets agents in rooms use the directories that the test has made so far.
func meet(t *testing.T, cfg *agent.Config) {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(filepath.Dir(cfg.Dir), "*"))
	require.NoError(t, err)
	for _, dir := range dirs {
		require.NoError(t, os.Chmod(dir, 0o777)) // for the user of rooms
		cfg.Mounts = append(cfg.Mounts, agent.Mount{Path: dir, Writable: true})
	}
}

type noEnvironment struct{}

func (noEnvironment) Environ() []string               { return nil }
func (noEnvironment) LookupEnv(string) (string, bool) { return "", false }

// run has the team work on a requirement to the session's end.
func (s *stand) run(sessionID string, tm spec.Team, options ...func(*workflows.SessionInput)) (workflows.SessionResult, error) {
	s.t.Helper()
	run := s.start(sessionID, tm, options...)
	var result workflows.SessionResult
	err := run.Get(s.t.Context(), &result)
	s.keepHistory(run)
	return result, err
}

// start has the team begin to work on a requirement.
func (s *stand) start(sessionID string, tm spec.Team, options ...func(*workflows.SessionInput)) client.WorkflowRun {
	s.t.Helper()
	ctx := s.t.Context()
	data, err := json.Marshal(tm.Resolved())
	require.NoError(s.t, err)
	blob := func(data []byte) spec.Digest {
		digest, err := s.store.Content.PutBlob(ctx, data)
		require.NoError(s.t, err)
		return digest
	}
	empty, err := s.store.Content.PutManifest(ctx, cas.Manifest{})
	require.NoError(s.t, err)
	in := workflows.SessionInput{Start: session.Start{
		Store: s.store.ID(), Team: blob(data), Requirement: blob([]byte("the requirement")), Workspace: empty,
	}}
	for _, o := range options {
		o(&in)
	}
	run, err := s.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: sessionID, TaskQueue: spec.WorkflowQueue(s.store.ID())},
		workflows.TeamSessionName, in)
	require.NoError(s.t, err)
	return boundedRun{run}
}

// boundedRun is a session whose end is not waited for without limit, so that the test of
// one that never ends fails under its own name.
type boundedRun struct{ client.WorkflowRun }

func (r boundedRun) Get(ctx context.Context, result any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 4*time.Minute, errors.New("the session has not ended within 4 minutes"))
	defer cancel()
	err := r.WorkflowRun.Get(ctx, result)
	if ctx.Err() != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	return err
}

// histories is where the histories of these sessions are kept, for the replay
// tests of the workflows; empty: nowhere.
var histories = flag.String("histories", "", "directory to write the sessions' histories to")

// keepHistory writes the session's history to a file named after the test.
func (s *stand) keepHistory(run client.WorkflowRun) {
	s.t.Helper()
	temporaltest.KeepHistory(s.t.Context(), s.t, s.client, run.GetID(), run.GetRunID(), *histories)
}

// key is where the store keeps a session.
func (s *stand) key(sessionID string) session.Key {
	return session.Key{Namespace: s.namespace, Session: sessionID}
}

func (s *stand) execution(sessionID string) session.Execution {
	s.t.Helper()
	e, err := s.store.State.Execution(s.t.Context(), s.key(sessionID))
	require.NoError(s.t, err)
	account := s.account(sessionID)
	e.Status = account.AddTo(e.Status)
	return e
}

// tree is the result of a session, as path to content.
func (s *stand) tree(sessionID string) map[string]string {
	s.t.Helper()
	dir := s.t.TempDir()
	c, err := s.store.Checkpoint(s.t.Context(), s.execution(sessionID).Checkpoint)
	require.NoError(s.t, err)
	paths, err := s.store.Content.Export(s.t.Context(), c.Tree, nil, dir, false)
	require.NoError(s.t, err)
	tree := map[string]string{}
	for _, p := range paths {
		if !filepath.IsAbs(p) {
			p = filepath.Join(dir, p)
		}
		data, err := os.ReadFile(p)
		require.NoError(s.t, err)
		rel, err := filepath.Rel(dir, p)
		require.NoError(s.t, err)
		tree[rel] = string(data)
	}
	return tree
}

// model is an agent that asks a model of provider p.
func model() agent.Definition {
	return agent.Definition{Kind: agent.KindModel, Provider: "p", Model: "m"}
}

// served is provider p, behind an address.
func served(format wire.API, address string) map[string]agent.Provider {
	return map[string]agent.Provider{"p": {Format: format, BaseURL: address}}
}

func shell(script string) agent.Definition {
	return agent.Definition{Kind: agent.KindCommand, Argv: []string{"/bin/sh", "-c", script}}
}

func check(script string) agent.CheckDefinition {
	return agent.CheckDefinition{Argv: []string{"/bin/sh", "-c", script}}
}

func TestFailedAttemptIsToldWhyAndTheNextPasses(t *testing.T) {
	t.Parallel()
	s := newStand(t, agent.Config{
		Agents: map[string]agent.Definition{"coder": shell(`
			cat > brief.json
			if grep -q '"attempt":1' brief.json; then echo bad > answer; else echo good > answer; fi
			echo '{"usage":{"input_tokens":100},"decisions":{"style":"plain"}}' > $MAESTRO_RESULT`)},
		Checks: map[string]agent.CheckDefinition{"is-good": check(`grep good answer || { echo "the answer is $(cat answer)"; exit 1; }`)},
	})
	result, err := s.run("s", spec.Team{
		Version: 1, Name: "t", Personas: map[string]spec.Persona{"dev": {Role: "d", Agent: "coder", Instructions: "do"}},
		Phases: []spec.Phase{{Name: "build", Personas: []string{"dev"}, Produces: []string{"answer"}, Checks: []string{"is-good"}}},
	})
	require.NoError(t, err)
	tree := s.tree("s")
	require.Equal(t, "good\n", tree["answer"])
	require.Contains(t, tree["brief.json"], `"category":"test_failure"`)
	require.Contains(t, tree["brief.json"], "the answer is bad")
	e := s.execution("s")
	require.Equal(t, session.Completed, e.Status.Status)
	a := e.Phases[0].Assignments[0]
	require.Equal(t, 2, a.Attempts)
	require.Len(t, a.Failures, 1)
	require.Equal(t, int64(200), e.Usage.InputTokens, "the failed attempt is paid for")
	require.Equal(t, e.Usage, result.Usage)
	require.Equal(t, map[string]string{"style": "plain"}, e.Decisions)
	require.Equal(t, e.Checkpoint, result.Checkpoint)
	c, err := s.store.Checkpoint(t.Context(), e.Checkpoint)
	require.NoError(t, err)
	require.Equal(t, "build", c.CurrentPhase)
	require.Equal(t, "the requirement", c.Requirement)
	require.NotEmpty(t, c.Previous)
}

func TestConflictIsMendedByTheIntegrator(t *testing.T) {
	t.Parallel()
	s := newStand(t, agent.Config{
		Agents: map[string]agent.Definition{
			"left":  shell(`echo left > shared; echo left > left.txt`),
			"right": shell(`cat > brief; if grep -q 'merge conflict' brief; then echo both > shared; else echo right > shared; fi; rm brief; echo right > right.txt`),
		},
		Checks: map[string]agent.CheckDefinition{"both": check(`test "$(cat shared)" = both; test -f left.txt -a -f right.txt`)},
	})
	_, err := s.run("s", spec.Team{
		Version: 1, Name: "t",
		Personas: map[string]spec.Persona{
			"l": {Role: "l", Agent: "left", Instructions: "do"}, "r": {Role: "r", Agent: "right", Instructions: "do"},
		},
		Phases: []spec.Phase{{Name: "build", Personas: []string{"l", "r"}, Checks: []string{"both"}}},
		Retry:  spec.Retry{RoundInitial: textfmt.Duration(100 * time.Millisecond)},
	})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"shared": "both\n", "left.txt": "left\n", "right.txt": "right\n"}, s.tree("s"))
	require.Equal(t, 2, s.execution("s").Phases[0].Assignments[1].Rounds)
}

func TestPhasesSideBySideAndInSequence(t *testing.T) {
	t.Parallel()
	note := func(text string) agent.Definition { return shell(`echo ` + text + ` > "` + text + `"`) }
	s := newStand(t, agent.Config{Agents: map[string]agent.Definition{
		"a": note("a"), "b": note("b"), "c": shell(`cat a b > c`), "d": shell(`cat c > d; echo '{"decisions":{"x":"1"}}' > $MAESTRO_RESULT`),
		"e": shell(`cat > brief; grep -q '"x":"1"' brief && cp d e`),
	}})
	tm := spec.Team{Version: 1, Name: "t", Personas: map[string]spec.Persona{}}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		tm.Personas[name] = spec.Persona{Role: name, Agent: name, Instructions: "do"}
	}
	tm.Phases = []spec.Phase{
		{Name: "left", Needs: []string{}, Personas: []string{"a"}},
		{Name: "right", Needs: []string{}, Personas: []string{"b"}},
		{Name: "join", Needs: []string{"left", "right"}, Personas: []string{"c"}},
		{Name: "chain", Personas: []string{"d", "e"}, Order: spec.OrderSequence},
	}
	_, err := s.run("s", tm)
	require.NoError(t, err)
	tree := s.tree("s")
	require.Equal(t, "a\nb\n", tree["c"])
	require.Equal(t, tree["c"], tree["e"], "each in the sequence builds on the one before")
	require.Equal(t, map[string]string{"x": "1"}, s.execution("s").Decisions)
}

func TestCancelledSession(t *testing.T) {
	t.Parallel()
	s := newStand(t, agent.Config{Agents: map[string]agent.Definition{"a": shell(`sleep 100`)}})
	go func() {
		for s.t.Context().Err() == nil {
			if r, err := s.store.State.Record(t.Context(), state.Assignment{Key: s.key("s"), AssignmentID: spec.AssignmentID{Phase: "one", Persona: "dev"}}); err == nil && r.Status().Status == session.Running {
				_ = s.client.CancelWorkflow(s.t.Context(), "s", "")
				return
			}
		}
	}()
	_, err := s.run("s", spec.Team{
		Version: 1, Name: "t", Personas: map[string]spec.Persona{"dev": {Role: "d", Agent: "a", Instructions: "do"}},
		Phases: []spec.Phase{{Name: "one", Personas: []string{"dev"}}},
	})
	require.ErrorContains(t, err, "canceled")
	require.Equal(t, session.WasCancelled, s.execution("s").Status.Status)
}

func TestSpentRoundsFailWithHelpNeeded(t *testing.T) {
	t.Parallel()
	s := newStand(t, agent.Config{Agents: map[string]agent.Definition{"a": shell(`echo "no way" >&2; exit 3`)}})
	_, err := s.run("s", spec.Team{
		Version: 1, Name: "t", Personas: map[string]spec.Persona{"dev": {Role: "d", Agent: "a", Instructions: "do"}},
		Phases: []spec.Phase{{Name: "build", Personas: []string{"dev"}}},
		Retry:  spec.Retry{Attempts: 2, Initial: textfmt.Duration(10 * time.Millisecond), RoundInitial: textfmt.Duration(10 * time.Millisecond)},
		Help:   spec.Help{Mode: spec.HelpFail},
	})
	var app *temporal.ApplicationError
	require.ErrorAs(t, err, &app)
	require.Equal(t, session.HelpNeeded, app.Type())
	e := s.execution("s")
	require.Equal(t, session.Failed, e.Status.Status)
	require.Len(t, e.Help, 1)
	require.Len(t, e.Help[0].Attempts, 4)
	require.Contains(t, e.Help[0].Attempts[3].Message, "no way")
	require.Equal(t, session.Failed, e.Phases[0].Assignments[0].Status)
	require.Equal(t, 2, e.Phases[0].Assignments[0].Rounds)
}

func TestTeamThatNoWorkerCanServeIsNotAdmitted(t *testing.T) {
	t.Parallel()
	s := newStand(t, agent.Config{Agents: map[string]agent.Definition{"a": shell(`true`)}})
	_, err := s.run("s", spec.Team{
		Version: 1, Name: "t", Personas: map[string]spec.Persona{"dev": {Role: "d", Agent: "other", Instructions: "do"}},
		Phases: []spec.Phase{{Name: "one", Personas: []string{"dev"}}},
	})
	require.ErrorContains(t, err, `no worker has agent "other" of persona dev; available: a`)
	known, err := s.store.State.HasSession(t.Context(), s.key("s"))
	require.NoError(t, err)
	require.False(t, known, "a session that may not start leaves nothing")
}

// TestPhaseOfSeveralProducesWhatIsIgnored: what a phase has to produce is kept of each
// of its personas, ignored or not.
func TestPhaseOfSeveralProducesWhatIsIgnored(t *testing.T) {
	t.Parallel()
	s := newStand(t, agent.Config{Agents: map[string]agent.Definition{
		"a": shell("cat > /dev/null; echo a > a.out; echo no > a.log"), "b": shell("cat > /dev/null; echo b > b.out"),
	}})
	tm := short(spec.Phase{Name: "both", Personas: []string{"dev", "other"}, Produces: []string{"a.out", "b.out"}})
	tm.Ignore = []string{"*.out", "*.log"}
	_, err := s.run("s", tm)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"a.out": "a\n", "b.out": "b\n"}, s.tree("s"))
}
