package simulator

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/models/wire"
	"github.com/maestro-hive/maestro/internal/store/cas"
)

// The answers of [Limited] that stall: the connection stays open, and nothing but pings comes.
const (
	stallsAtOnce = "at once"
	stallsLater  = "later" // after some tokens
)

// idleTimeout is the agents' idle_timeout. A call without progress ends after at most twice that.
const idleTimeout = 5 * time.Minute

// stall returns an answer that sends pings until the agent ends the call.
func (m provider) stall(ctx context.Context, l Limited) *http.Response {
	m.p.world.note(m.p, "provider stalls %s on %s", l.Stall, m.id)
	s := &stalled{m: m, ctx: ctx, began: time.Now(), next: "event: ping\ndata: {\"type\": \"ping\"}\n\n"}
	if l.Stall == stallsLater {
		s.next = `data: {"type":"message_start","message":{"id":"m"}}` + "\n\n" +
			`data: {"type":"content_block_delta","index":0,"delta":{"text":"` + strings.Repeat("x", 100) + `"}}` + "\n\n"
	}
	return responds(http.StatusOK, http.Header{"Content-Type": {"text/event-stream"}}, s)
}

// stalled is the body of such an answer.
type stalled struct {
	m     provider
	ctx   context.Context //nolint:containedctx // that of the call
	began time.Time
	next  string
}

func (s *stalled) Read(p []byte) (int, error) {
	if n := copy(p, s.next); n > 0 {
		s.next = s.next[n:]
		return n, nil
	}
	select {
	case <-time.After(30 * time.Second):
		s.next = "event: ping\ndata: {\"type\": \"ping\"}\n\n"
		return s.Read(p)
	case <-s.ctx.Done():
		if took := time.Since(s.began); took > 2*idleTimeout+time.Second && !s.m.p.wasFrozen(s.began) {
			s.m.p.world.watch.broke("P2", "a call of %s without progress was ended after %s", s.m.id, took)
		}
		return 0, context.Cause(s.ctx)
	}
}

// tooLong rejects a conversation that is longer than the plan's window.
func (m provider) tooLong(q asked) *wire.Fault {
	size, limit := 0, m.p.world.plan.Window
	for _, message := range q.Messages {
		for _, block := range message.Content {
			size += len(block.Content)
		}
	}
	if limit == 0 || size <= limit {
		return nil
	}
	m.p.world.note(m.p, "the conversation of %s is too long", m.id)
	return &wire.Fault{
		Status: http.StatusBadRequest, Type: "invalid_request_error", Header: http.Header{},
		Message: fmt.Sprintf("prompt is too long: %d tokens > %d maximum", size, limit),
	}
}

// rejected hears that the provider rejects a request: a person has to be asked before the next one.
func (v *watch) rejected(id spec.AssignmentID, by *execution) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.refusals == nil {
		v.refusals = map[spec.AssignmentID]*execution{}
	}
	v.refusals[id] = by
}

// asksUnheard looks whether a rejected request is repeated before a person was asked. A rejection that was lost
// because its process died or stopped then is nobody's fault.
func (v *watch) asksUnheard(id spec.AssignmentID, by *execution) {
	v.mu.Lock()
	heard := v.refusals[id]
	v.mu.Unlock()
	if heard == nil || heard.task.delivery.chain != by.task.delivery.chain || heard.p.isDead() {
		return
	}
	select {
	case <-heard.stopping:
	default:
		v.broke("P2", "the provider of %s is asked again after it has rejected the request, before a person was asked", id)
	}
}

// The ends of a program's run after which its process stays.
const (
	reportsSuccess = "success"
	reportsFailure = "failure"
	reportsNothing = "nothing"
)

// exitGrace is how long a program may stay after it has reported its end.
const exitGrace = 5 * time.Second

// stays is the outcome of a program whose process does not exit, as the activity gets it.
func (a agents) stays(ctx context.Context, id spec.AssignmentID) (failed error) {
	ends, n := a.p.world.plan.Ends[id.String()], a.p.world.count("end "+id.String())
	if n > len(ends) {
		return nil
	}
	if err := act(a.p, "Program.stays", func() error { return nil }); err != nil {
		return err
	}
	wait := exitGrace
	switch ends[n-1] {
	case reportsFailure:
		failed = failures.Failf(failures.Unknown, "the program reports a failure")
	case reportsNothing:
		wait, failed = agentLimit, failures.Failf(failures.Timeout, "the agent did not end within %s", agentLimit)
	}
	if err := a.pause(ctx, wait); err != nil {
		return err
	}
	return failed
}

// failingEnds is how many runs of an assignment's program end with a failure.
func (p *Plan) failingEnds(id string) (n int) {
	for _, end := range p.Ends[id] {
		if end != reportsSuccess {
			n++
		}
	}
	return n
}

// Conflict has the two personas of the first phase change the same path differently.
type Conflict struct {
	// Kind is "change", "delete" (one persona changes a file, the other deletes it) or "move" (one adds a file to a
	// directory, the other moves the directory).
	Kind string `json:"kind"`
	// Integrator is what the integrator does: "settle", "nothing" or "kept". After a person's note it settles.
	Integrator string `json:"integrator"`
}

// edit is a change of a file; without a content it is deleted.
type edit struct{ path, content string }

// workspace is what the session starts from.
func (p *Plan) workspace() map[string]string {
	files := map[string]string{}
	if p.Window > 0 {
		files["big.txt"] = strings.Repeat("many words\n", 600)
	}
	if p.Conflict != nil {
		files["shared/a.txt"], files["shared/b.txt"] = "a\n", "b\n"
	}
	return files
}

// edits are the changes of an assignment's own work that conflict with those of the other one.
func (p *Plan) edits(id spec.AssignmentID) []edit {
	first := p.Team.Phases[0]
	if p.Conflict == nil || id.Phase != first.Name {
		return nil
	}
	version := "version of " + id.Persona
	switch changes := id.Persona == first.Personas[0]; {
	case p.Conflict.Kind == "change", p.Conflict.Kind == "delete" && changes:
		return []edit{{"shared/a.txt", version}}
	case p.Conflict.Kind == "delete":
		return []edit{{path: "shared/a.txt"}}
	case changes:
		return []edit{{"shared/new.txt", version}}
	}
	return []edit{{"moved/a.txt", "a\n"}, {"moved/b.txt", "b\n"}, {path: "shared/a.txt"}, {path: "shared/b.txt"}}
}

// integrates reports whether an assignment merges the work of its phase.
func (p *Plan) integrates(id spec.AssignmentID) bool {
	first := p.Team.Phases[0]
	return id.Phase == first.Name && id.Persona == first.Integrator && len(first.Personas) > 1
}

// settles are the changes of the integrator, and what it says that it has kept.
func (p *Plan) settles(b session.Brief) (changes []edit, kept map[string]session.Kept) {
	first := p.Team.Phases[0]
	does := p.Conflict.Integrator
	if b.Feedback != nil && b.Feedback.Note != "" {
		does = "settle"
	}
	switch {
	case does == "nothing":
		return nil, nil
	case does == "kept": // the files have the version of the second one, unless that has removed the directory
		from := map[bool]string{false: first.Personas[1], true: first.Personas[0]}[p.Conflict.Kind == "move"]
		return nil, map[string]session.Kept{"shared": {From: from, Why: "it is right"}}
	case p.Conflict.Kind == "move":
		return []edit{{"moved/new.txt", "version of " + first.Personas[0]}, {path: "shared/new.txt"}}, nil
	}
	return []edit{{"shared/a.txt", fmt.Sprintf("version of %s and version of %s, merged", first.Personas[0], first.Personas[1])}},
		nil
}

// nothingDropped looks whether the result has the version of each persona, or a record that it was dropped.
func (v *watch) nothingDropped(c session.Checkpoint) {
	plan := v.world.plan
	if plan.Conflict == nil {
		return
	}
	ctx, store := context.Background(), v.world.store.Content
	tree, err := store.Manifest(ctx, c.Tree)
	if err != nil {
		v.broke("P7", "the result cannot be read: %v", err)
		return
	}
	has := func(path, part string) (found, exactly bool) {
		data, err := store.Blob(ctx, tree[path].SHA256)
		return err == nil && strings.Contains(string(data), part), err == nil && string(data) == part
	}
	records := ""
	for _, a := range c.Assignments {
		records += strings.Join(a.Dropped, "\n") + "\n"
	}
	first := plan.Team.Phases[0]
	for i, persona := range first.Personas[:2] {
		other := first.Personas[1-i]
		lost := false
		for _, e := range plan.edits(spec.AssignmentID{Phase: first.Name, Persona: persona}) {
			switch e.content {
			case "": // lost if the file is as the other one has it
				_, exactly := has(e.path, "version of "+other)
				lost = lost || exactly
			default:
				here, _ := has(e.path, e.content)
				moved, _ := has("moved/new.txt", e.content)
				lost = lost || !here && !moved
			}
		}
		if lost && !strings.Contains(records, "the version of "+persona+" is dropped") {
			v.broke("P16", "the version of %s is dropped, and no record says so", persona)
		}
	}
}

// entries stores files.
func (w *world) entries(files map[string]string) cas.Manifest {
	m := cas.Manifest{}
	for path, content := range files {
		m[path] = cas.Entry{SHA256: w.put([]byte(content)), Size: int64(len(content))}
	}
	return m
}

func (p *Plan) addStalls(r *rand.Rand) {
	ids := p.assignments()
	for range 1 + r.IntN(12) {
		p.Limited = append(p.Limited, Limited{Of: ids[r.IntN(len(ids))], N: 1 + r.IntN(8), Stall: pick(r, stallsAtOnce, stallsLater)})
	}
}

// addRejected has requests rejected, and conversations grow beyond the model's window.
func (p *Plan) addRejected(r *rand.Rand) {
	ids := p.assignments()
	for range 1 + r.IntN(8) {
		p.Limited = append(p.Limited, Limited{Of: ids[r.IntN(len(ids))], N: 1 + r.IntN(6), Status: pick(r, 400, 404, 422)})
	}
	if r.IntN(2) == 0 {
		p.Window = 8_000 + r.IntN(12_000)
		for _, id := range ids {
			p.Turns[id] = 3 + r.IntN(6)
		}
	}
}

// addEnds has the runs of a program end while its process stays.
func (p *Plan) addEnds(r *rand.Rand) {
	p.addPrograms(r)
	p.Ends = map[string][]string{}
	for _, id := range p.assignments() {
		for range r.IntN(5) {
			p.Ends[id] = append(p.Ends[id], pick(r, reportsSuccess, reportsFailure, reportsNothing))
		}
	}
	if r.IntN(2) == 0 {
		p.Faults = append(p.Faults, Fault{Kind: pick(r, KillBefore, KillAfter, Stop), Op: "Program.stays", N: 1 + r.IntN(3)})
	}
}

func (p *Plan) addConflict(r *rand.Rand) {
	p.joinFirst()
	p.Conflict = &Conflict{Kind: pick(r, "change", "delete", "move"), Integrator: pick(r, "settle", "nothing", "kept")}
	for _, name := range p.Team.Phases[0].Personas { // models: a program deletes nothing in layers
		persona := p.Team.Personas[name]
		persona.Agent = "a1"
		p.Team.Personas[name] = persona
	}
}

// The workflow's clock and timers are the world's. The environment's clock stands still
// between its own timers, so that one which is started in between would fire early.

func (w *workflowOut) Now(workflow.Context) time.Time { return time.Now() }

func (w *workflowOut) NewTimerWithOptions(ctx workflow.Context, d time.Duration, _ workflow.TimerOptions) workflow.Future {
	future, settle := workflow.NewFuture(ctx)
	if ctx.Err() != nil {
		settle.SetError(temporal.NewCanceledError())
		return future
	}
	calm, _ := workflow.NewDisconnectedContext(ctx)
	timer := workflow.ExecuteActivity(workflow.WithActivityOptions(calm, workflow.ActivityOptions{StartToCloseTimeout: forever}),
		clockActivity, d+w.d.world.moment("timer", w.d.world.count("timer")))
	workflow.Go(calm, func(calm workflow.Context) {
		workflow.NewSelector(calm).AddFuture(timer, func(workflow.Future) { settle.Chain(timer) }).
			AddReceive(ctx.Done(), func(workflow.ReceiveChannel, bool) { settle.SetError(temporal.NewCanceledError()) }).Select(calm)
	})
	return future
}

// ExecuteLocalActivity has the environment's clock continue while a local activity is at work:
// how long that is tried depends on it.
func (w *workflowOut) ExecuteLocalActivity(ctx workflow.Context, name string, args ...any) workflow.Future {
	future := w.Next.ExecuteLocalActivity(ctx, name, args...)
	calm, _ := workflow.NewDisconnectedContext(ctx)
	workflow.Go(calm, func(calm workflow.Context) {
		for !future.IsReady() {
			second := w.Next.NewTimer(calm, time.Second)
			workflow.NewSelector(calm).AddFuture(future, func(workflow.Future) {}).AddFuture(second, func(workflow.Future) {}).Select(calm)
		}
	})
	return future
}

// tick waits for a time, or until the workflow is over.
func (d *delivery) tick(limit time.Duration) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-d.closed:
	}
}
