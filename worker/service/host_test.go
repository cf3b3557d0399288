package service_test

import (
	"context"
	"encoding/json"
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

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/models/agent"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil/temporaltest"
	"github.com/maestro-hive/maestro/internal/sandbox/room"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/testkit/worktest"
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

// sessionID is the session of a test that has only one.
const sessionID = "s"

// stand is a Temporal server, a store and a worker in this process.
type stand struct {
	t      *testing.T
	client client.Client
	// namespace is the one in Temporal that is this stand's own.
	namespace string
	store     *store.Store
	// dir is a directory that agents may use, too.
	dir string
	// seen are the requests that the test has seen: run and id.
	seen map[string]bool
}

// standOptions are what few stands have.
type standOptions struct {
	telemetry *telemetry.Telemetry
	// variables are those of the worker's environment besides the test's own.
	variables map[string]string
	// flags are those of the server.
	flags []string
}

type noEnvironment struct{}

func (noEnvironment) Environ() []string               { return nil }
func (noEnvironment) LookupEnv(string) (string, bool) { return "", false }

// newStand starts a worker with the agents of cfg, which find the stand's directory in $dir.
func newStand(t *testing.T, cfg agent.Config, o standOptions) *stand {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	address, namespace := temporaltest.Namespace(t, o.flags...)
	conn, err := temporalutil.Dial(t.Context(), &temporalutil.Options{Address: address, Namespace: namespace}, noEnvironment{},
		quiet, o.telemetry.Instrument)
	require.NoError(t, err)
	t.Cleanup(conn.Close)

	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o777)) // for the user of rooms
	cfg.Version, cfg.Dir = 1, t.TempDir()
	cfg.Mounts = []agent.Mount{{Path: dir, Writable: true}}
	for _, definition := range cfg.Agents {
		if definition.Kind == agent.KindCommand {
			definition.Argv[2] = "dir=" + dir + "; " + definition.Argv[2]
		}
	}
	state := filepath.Join(t.TempDir(), "state")
	w, err := service.Setup{
		Config: cfg, StateDir: state, Connection: conn, Getenv: environment(o.variables), Host: "test", PID: os.Getpid(),
		Version: "test", Telemetry: o.telemetry, Clock: time.Now, Logger: quiet,
	}.Build()
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() { stop(); require.NoError(t, <-done) })

	st, err := store.Open(state, store.Options{Clock: time.Now})
	require.NoError(t, err)
	s := &stand{t: t, client: conn.Client, namespace: namespace, store: st, dir: dir, seen: map[string]bool{}}
	s.eventually("the worker offers its agents", func() bool {
		offers, err := st.State.Offers(t.Context())
		return err == nil && len(offers) == 1
	})
	return s
}

// environment is the test's own, with some variables set.
func environment(set map[string]string) func(string) string {
	return func(name string) string {
		if value, ok := set[name]; ok {
			return value
		}
		return os.Getenv(name)
	}
}

func (s *stand) eventually(what string, condition func() bool) {
	s.t.Helper()
	require.Eventually(s.t, condition, time.Minute, 20*time.Millisecond, what)
}

// touch makes a file for which an agent looks in the stand's directory.
func (s *stand) touch(name string) {
	s.t.Helper()
	require.NoError(s.t, os.WriteFile(filepath.Join(s.dir, name), nil, 0o600))
}

// exists reports whether an agent has made a file there.
func (s *stand) exists(name string) bool {
	_, err := os.Stat(filepath.Join(s.dir, name))
	return err == nil
}

// shell is an agent that has its brief in $brief. It can ask whether it was told something, and report.
func shell(script string) agent.Definition {
	return agent.Definition{Kind: agent.KindCommand, Argv: []string{"/bin/sh", "-c", `brief=$(cat)
		told() { printf %s "$brief" | grep -q "$1"; }
		report() { printf %s "$1" > "$MAESTRO_RESULT"; }
		` + script}}
}

// shells are agents by name.
func shells(scripts map[string]string) map[string]agent.Definition {
	agents := map[string]agent.Definition{}
	for name, script := range scripts {
		agents[name] = shell(script)
	}
	return agents
}

func check(script string) agent.CheckDefinition {
	return agent.CheckDefinition{Argv: []string{"/bin/sh", "-c", script}}
}

// team is a team that gives up at once, and asks. Each persona is called like its agent.
func team(phases ...spec.Phase) spec.Team {
	tm := spec.Team{
		Version: 1, Name: "t", Personas: map[string]spec.Persona{}, Phases: phases,
		Retry: spec.Retry{Attempts: 1, Rounds: 1},
	}
	for _, p := range phases {
		for _, name := range p.Personas {
			tm.Personas[name] = spec.Persona{Role: name, Agent: name, Instructions: "do"}
		}
	}
	return tm
}

// phase is one of a team, with the personas that work in it.
func phase(name string, personas ...string) spec.Phase {
	return spec.Phase{Name: name, Personas: personas}
}

// start has the team begin to work on a requirement.
func (s *stand) start(id string, tm spec.Team, options ...func(*workflows.SessionInput)) client.WorkflowRun {
	s.t.Helper()
	ctx := s.t.Context()
	data, err := json.Marshal(tm.Resolved())
	require.NoError(s.t, err)
	in := workflows.SessionInput{Start: session.Start{
		Store: s.store.ID(), Team: worktest.Blob(s.t, s.store, string(data)), Workspace: worktest.Tree(s.t, s.store, nil),
		Requirement: worktest.Blob(s.t, s.store, "the requirement"),
	}}
	for _, o := range options {
		o(&in)
	}
	run, err := s.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: id, TaskQueue: spec.WorkflowQueue(s.store.ID())},
		workflows.TeamSessionName, in)
	require.NoError(s.t, err)
	return run
}

// ends waits for the end of a run and keeps its history.
func (s *stand) ends(run client.WorkflowRun) (result workflows.SessionResult, err error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 4*time.Minute)
	defer cancel()
	err = run.Get(ctx, &result)
	require.NoError(s.t, ctx.Err(), "the session has not ended")
	s.keepHistory(run.GetID(), run.GetRunID())
	return result, err
}

// histories is where the histories of these sessions are kept, for the replay
// tests of the workflows; empty: nowhere.
var histories = flag.String("histories", "", "directory to write the sessions' histories to")

// keepHistory writes a history to a file named after the test.
func (s *stand) keepHistory(id, run string) {
	s.t.Helper()
	temporaltest.KeepHistory(s.t.Context(), s.t, s.client, id, run, *histories)
}

func (s *stand) key(id string) session.Key { return session.Key{Namespace: s.namespace, Session: id} }

func (s *stand) execution(id string) session.Execution {
	s.t.Helper()
	e, err := s.store.State.Execution(s.t.Context(), s.key(id))
	require.NoError(s.t, err)
	account, err := s.store.State.Account(s.t.Context(), s.key(id))
	require.NoError(s.t, err)
	e.Status = account.AddTo(e.Status)
	return e
}

// shows waits until a condition holds for the session.
func (s *stand) shows(what string, condition func(session.Execution) bool) (e session.Execution) {
	s.t.Helper()
	s.eventually(what, func() bool {
		var err error
		e, err = s.store.State.Execution(s.t.Context(), s.key(sessionID))
		return err == nil && condition(e)
	})
	return e
}

// asks waits until the session has exactly one open request that was not seen before.
func (s *stand) asks() (h session.Request) {
	s.t.Helper()
	s.shows("a request", func(e session.Execution) bool {
		if len(e.Help) != 1 || s.seen[e.RunID+e.Help[0].ID] {
			return false
		}
		h, s.seen[e.RunID+e.Help[0].ID] = e.Help[0], true
		return true
	})
	return h
}

// update sends an update to the session.
func (s *stand) update(name string, arg any) error {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	handle, err := s.client.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: sessionID, UpdateName: name, Args: []any{arg}, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err != nil {
		return err
	}
	return handle.Get(ctx, nil)
}

// answers answers the session's next request.
func (s *stand) answers(action session.Action, note string) session.Request {
	s.t.Helper()
	h := s.asks()
	require.NoError(s.t, s.update(workflows.ResolveUpdate, session.Answer{Request: h.ID, Action: action, Note: note, By: "ada"}))
	return h
}

// head is the newest checkpoint of a session.
func (s *stand) head(id string) session.Checkpoint {
	s.t.Helper()
	c, err := s.store.Checkpoint(s.t.Context(), s.execution(id).Checkpoint)
	require.NoError(s.t, err)
	return c
}

// tree is the result of a session, as path to content.
func (s *stand) tree(id string) map[string]string {
	s.t.Helper()
	m, err := s.store.Content.Manifest(s.t.Context(), s.head(id).Tree)
	require.NoError(s.t, err)
	tree := map[string]string{}
	for path, entry := range m {
		data, err := s.store.Content.Blob(s.t.Context(), entry.SHA256)
		require.NoError(s.t, err)
		tree[path] = string(data)
	}
	return tree
}
