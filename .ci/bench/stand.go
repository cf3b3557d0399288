package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/secrets"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/models/agent"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/cas"
	"github.com/maestro-hive/maestro/worker/service"
	"github.com/maestro-hive/maestro/workflows"
)

// The kinds of work.
const (
	bareKind    = "bare"
	shapeKind   = "shape"
	maestroKind = "maestro"
	shimKind    = "shim"
	roomKind    = "room"
	// onPostgres ends the name of a kind whose store is a PostgreSQL database and a bucket.
	onPostgres = "-postgres"
)

const (
	bareQueue    = "bare"
	bareWorkflow = "bare-workflow"
	bareActivity = "bare-activity"
	// agentName is the one agent of all personas, and slots how many of its
	// attempts a worker runs side by side.
	agentName = "instant"
	slots     = 64
)

// stand is a server and a worker for each kind of work.
type stand struct {
	server   *server
	postgres *postgres // nil: no kind needs it
	conn     *temporalutil.Connection
	kinds    map[string]kind
	stops    []func() error
	serial   int
}

// kind starts work of one kind and says where it leaves its files.
type kind struct {
	start func(ctx context.Context, id string) (client.WorkflowRun, error)
	dir   string // empty: it leaves none
	crew  *crew
	// database is the name of its PostgreSQL database; empty: it has none.
	database string
}

func newStand(ctx context.Context, s settings, dir string) (*stand, error) {
	program, err := filepath.Abs(s.server)
	if err != nil {
		return nil, err
	}
	st := &stand{kinds: map[string]kind{}}
	if st.server, err = startServer(program, dir); err != nil {
		return nil, err
	}
	st.stops = append(st.stops, func() error { st.server.stop(); return nil })
	if err := st.open(ctx, s, dir); err != nil {
		return nil, errors.Join(err, st.close())
	}
	return st, nil
}

func (st *stand) open(ctx context.Context, s settings, dir string) (err error) {
	quiet := slog.New(slog.DiscardHandler)
	if st.conn, err = temporalutil.DialAddress(ctx, st.server.address, "default", quiet); err != nil {
		return err
	}
	st.stops = append(st.stops, func() error { st.conn.Close(); return nil })
	for _, name := range s.kinds {
		switch name {
		case bareKind:
			err = st.bare(s.phases)
		case shapeKind:
			err = st.shape(s.phases)
		case maestroKind, shimKind, roomKind, maestroKind + onPostgres, shimKind + onPostgres, roomKind + onPostgres:
			err = st.maestro(ctx, name, s.phases, filepath.Join(dir, name))
		default:
			err = fmt.Errorf("-kinds: there is no kind %q; there are bare, shape, maestro, shim and room, and the last three with %s",
				name, onPostgres)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// close stops everything, in the opposite order.
func (st *stand) close() (err error) {
	for i := len(st.stops) - 1; i >= 0; i-- {
		err = errors.Join(err, st.stops[i]())
	}
	return err
}

// bare serves the workflow of activities that do nothing.
func (st *stand) bare(steps int) error {
	q := worker.New(st.conn.Client, bareQueue, service.WorkflowQueueOptions("bare"))
	q.RegisterWorkflowWithOptions(func(ctx workflow.Context, n int) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
		for range n {
			if err := workflow.ExecuteActivity(ctx, bareActivity).Get(ctx, nil); err != nil {
				return err
			}
		}
		return nil
	}, workflow.RegisterOptions{Name: bareWorkflow})
	q.RegisterActivityWithOptions(func(context.Context) error { return nil }, activity.RegisterOptions{Name: bareActivity})
	if err := q.Start(); err != nil {
		return err
	}
	st.stops = append(st.stops, func() error { q.Stop(); return nil })
	st.kinds[bareKind] = kind{start: func(ctx context.Context, id string) (client.WorkflowRun, error) {
		return st.conn.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: id, TaskQueue: bareQueue, EnableEagerStart: true},
			bareWorkflow, steps)
	}}
	return nil
}

// script does what the instant agent does, in one process: a shell needs no other one for it. It
// reads no brief, because a shell reads a pipe byte by byte.
const script = `read -r id < /proc/sys/kernel/random/uuid
echo "$id" > "$id.md"
echo '{"summary": "done"}' > "$MAESTRO_RESULT"
`

// maestro serves sessions of a store of their own.
func (st *stand) maestro(ctx context.Context, name string, phases int, dir string) error {
	setup := service.Setup{
		Config: agent.Config{Version: 1, Dir: dir, Isolation: agent.IsolationNone, Agents: map[string]agent.Definition{
			agentName: {Kind: agent.KindCommand, Argv: []string{"/bin/sh", "-c", script}, Concurrency: slots},
		}},
		StateDir: filepath.Join(dir, "state"), Connection: st.conn, Getenv: os.Getenv,
		Host: "bench", PID: os.Getpid(), Version: "bench", Clock: time.Now, Logger: slog.New(slog.DiscardHandler),
	}
	engine, shared := strings.CutSuffix(name, onPostgres)
	switch engine {
	case maestroKind:
		setup.Agents = instant{}
	case roomKind:
		setup.Config.Isolation = agent.IsolationRequired
	}
	k := kind{dir: dir}
	if shared {
		k.database = strings.ReplaceAll(name, "-", "_")
		if err := st.share(ctx, k.database, &setup); err != nil {
			return err
		}
	}
	w, err := setup.Build()
	if err != nil {
		return err
	}
	serving, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(serving) }()
	st.stops = append(st.stops, func() error { stop(); return <-done })
	c, err := newCrew(ctx, st.conn, setup.StateDir, setup.Location, lineOf(phases))
	if err != nil {
		return err
	}
	if err := c.offered(ctx, setup.PID); err != nil {
		return err
	}
	k.start, k.crew = c.start, c
	st.kinds[name] = k
	return nil
}

// share places a worker's store in a database of its own, beside a bucket that is a directory.
func (st *stand) share(ctx context.Context, database string, setup *service.Setup) (err error) {
	if st.postgres == nil {
		if st.postgres, err = startPostgres(ctx); err != nil {
			return err
		}
		// Workers stop before it does.
		st.stops = slices.Insert(st.stops, 0, st.postgres.stop)
	}
	bucket := filepath.Join(setup.Config.Dir, "bucket")
	if err := os.MkdirAll(bucket, 0o700); err != nil {
		return err
	}
	setup.Location.Content = "file://" + bucket
	setup.Location.Database, err = st.postgres.makeDatabase(ctx, database)
	return err
}

// lineOf is a team with phases one after the other, of one persona each.
func lineOf(phases int) spec.Team {
	t := spec.Team{Version: 1, Name: "bench", Personas: map[string]spec.Persona{}, Help: spec.Help{Mode: spec.HelpFail}}
	for i := range phases {
		name := fmt.Sprintf("p%03d", i+1)
		t.Personas[name] = spec.Persona{Role: "role", Agent: agentName, Instructions: "Do what there is to do."}
		t.Phases = append(t.Phases, spec.Phase{Name: name, Personas: []string{name}})
	}
	return t
}

// crew starts sessions of one team in one store.
type crew struct {
	conn  *temporalutil.Connection
	store *store.Store
	team  spec.Team
	input workflows.SessionInput
}

func newCrew(ctx context.Context, conn *temporalutil.Connection, dir string, at store.Location, t spec.Team) (*crew, error) {
	s, err := store.Create(dir, store.Options{Clock: time.Now, Location: at})
	if err != nil {
		return nil, err
	}
	c := &crew{conn: conn, store: s, team: t.Resolved(), input: workflows.SessionInput{
		Version: workflows.LogicVersion,
		Start:   session.Start{Store: s.ID()},
	}}
	data, err := json.Marshal(c.team)
	if err != nil {
		return nil, err
	}
	if c.input.Team, err = s.Content.PutBlob(ctx, data); err != nil {
		return nil, err
	}
	if c.input.Workspace, err = s.Content.PutManifest(ctx, cas.Manifest{}); err != nil {
		return nil, err
	}
	return c, nil
}

// offered waits until the worker that is this process has said what it offers.
func (c *crew) offered(ctx context.Context, pid int) error {
	var err error
	return errors.Join(within(ctx, time.Minute, 10*time.Millisecond, func() bool {
		var offers []spec.Offer
		offers, err = c.store.State.Offers(ctx)
		return err != nil || slices.ContainsFunc(offers, func(o spec.Offer) bool { return o.PID == pid })
	}), err)
}

// start starts a session as `maestro run` does: its requirement goes into the
// store first.
func (c *crew) start(ctx context.Context, id string) (client.WorkflowRun, error) {
	in := c.input
	var err error
	if in.Requirement, err = c.store.Content.PutBlob(ctx, []byte("the requirement of "+id)); err != nil {
		return nil, err
	}
	return c.conn.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: id, TaskQueue: spec.WorkflowQueue(in.Store), EnableEagerStart: true,
		Memo: map[string]any{
			workflows.MemoStore: in.Store, workflows.MemoTeam: c.team.Name, workflows.MemoRequirement: "the requirement of " + id,
		},
		StaticSummary: "team bench: the requirement of " + id,
	}, workflows.TeamSessionName, in)
}

// instant is an agent that is a function in this process.
type instant struct{}

func (instant) Run(_ context.Context, job session.Job) (session.Outcome, error) {
	text := job.Brief.Session + " " + job.Brief.Phase + "\n"
	err := os.WriteFile(filepath.Join(job.Tree, job.Brief.Phase+".md"), []byte(text), 0o600)
	return session.Outcome{Summary: "done"}, err
}

func (instant) Check(context.Context, session.CheckJob) (session.Outcome, error) {
	return session.Outcome{}, errors.New("there are no checks")
}

func (instant) Offered(name string) spec.OfferedAgent {
	return spec.OfferedAgent{Kind: agent.KindCommand, Concurrency: slots, Breaker: name}
}

func (instant) Conversation(string, session.WorkDir) (c session.Conversation, ok bool) {
	return c, false
}
func (instant) ConversationFiles(string, string) []string                    { return nil }
func (instant) NoteConversation(session.WorkDir, session.Conversation) error { return nil }
func (instant) Reported(string, session.WorkDir, string) (used, estimate cost.Usage, ok bool) {
	return used, estimate, false
}
func (instant) Sweep(session.WorkDir) error           { return nil }
func (instant) Removed(session.WorkDir) (int64, bool) { return 0, false }
func (instant) EndStopped()                           {}
func (instant) Forget(session.WorkDir) error          { return nil }
func (instant) Breaker(name string) spec.Breaker      { return spec.Breaker{}.For(name) }

func (instant) Keep(string) []string                         { return nil }
func (instant) FillsCaches(string, string, spec.Digest) bool { return false }
func (instant) Mask(text string) string                      { return text }
func (instant) Secrets() *secrets.Set                        { return secrets.New(nil) }
