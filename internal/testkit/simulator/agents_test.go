package simulator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/breaker"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/secrets"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/models/agent"
	"github.com/maestro-hive/maestro/internal/models/agent/preset"
	"github.com/maestro-hive/maestro/internal/models/llm"
	"github.com/maestro-hive/maestro/internal/models/wire"
)

// agents are the agents of a process: models behind the real conversation, and programs.
// Methods that no simulated agent needs are those of nil.
type agents struct {
	activities.Agents
	p *process
}

// agentLimit is how long an agent may take.
const agentLimit = time.Hour

func (a agents) Run(ctx context.Context, job session.Job) (session.Outcome, error) {
	id := spec.AssignmentID{Phase: job.Brief.Phase, Persona: job.Brief.Persona}
	var out session.Outcome
	var failed error
	_, err := call(a.p, "Run", false, func() (any, error) {
		a.p.world.agentStarted(ctx, a.p, id)
		return nil, nil
	})
	if err != nil {
		return out, err
	}
	if job.Calls != nil {
		job.Calls = calls{job.Calls, a.p, id}
	}
	if slices.Contains(a.p.world.plan.Programs, job.Agent) {
		return a.program(ctx, id, job)
	}
	model := &llm.Agent{
		Name: job.Agent, API: wire.Anthropic, Model: "model", Transport: provider{a.p, id, job.Brief},
		MaxTurns: 20, MaxOutputTokens: 2000, ContextTokens: 100_000, Timeout: agentLimit, IdleTimeout: idleTimeout,
		Mask: func(s string) string { return s }, Now: time.Now, Scale: &wire.Scale{},
		Enter: func(context.Context, int64) (func(int64), error) { return func(int64) {}, nil },
	}
	out, failed = model.Run(ctx, job)
	return out, failed
}

// content is what an agent writes: bad work as often as the plan says, unless a person
// has said how to do it.
func (w *world) content(b session.Brief) string {
	id := spec.AssignmentID{Phase: b.Phase, Persona: b.Persona}
	n := (b.Round-1)*w.plan.Team.Personas[b.Persona].Attempts + b.Attempt
	if n <= w.plan.Bad[id.String()] && (b.Feedback == nil || b.Feedback.Note == "") {
		return fmt.Sprintf("bad work %d", n)
	}
	return "good work by " + id.String()
}

// Check looks for bad work.
func (a agents) Check(ctx context.Context, job session.CheckJob) (session.Outcome, error) {
	var failed *failures.Failure
	_, err := call(a.p, "Check."+job.Check, false, func() (any, error) {
		dirs := []string{job.Tree}
		if job.Layers != nil {
			dirs = append(dirs, job.Layers.Dirs...)
		}
		seen := map[string]bool{}
		for _, dir := range dirs {
			names, _ := filepath.Glob(filepath.Join(dir, "*.txt"))
			for _, name := range names {
				data, err := os.ReadFile(name)
				if err == nil && !seen[filepath.Base(name)] && strings.HasPrefix(string(data), "bad") {
					failed = failures.Failf(failures.TestFailure, "%s: %s", filepath.Base(name), data)
				}
				seen[filepath.Base(name)] = true
			}
		}
		return nil, nil
	})
	switch {
	case err != nil:
		return session.Outcome{}, err
	case failed != nil:
		return session.Outcome{}, failed
	case job.Check != "merged" || a.p.world.plan.SlowCheck == 0 || !a.p.world.first():
		return session.Outcome{}, nil
	}
	timer := time.NewTimer(a.p.world.plan.SlowCheck.Std())
	defer timer.Stop()
	select {
	case <-timer.C:
		return session.Outcome{}, nil
	case <-ctx.Done():
		return session.Outcome{}, context.Cause(ctx)
	}
}

// Reported: no program notes what it has used.
func (a agents) Reported(string, session.WorkDir, string) (used, estimate cost.Usage, ok bool) {
	return used, estimate, false
}

func (a agents) Sweep(session.WorkDir) error                  { return nil }
func (a agents) Removed(session.WorkDir) (int64, bool)        { return 0, false }
func (a agents) EndStopped()                                  {}
func (a agents) Offered(name string) spec.OfferedAgent        { return a.p.world.offered(name) }
func (a agents) Keep(string) []string                         { return nil }
func (a agents) FillsCaches(string, string, spec.Digest) bool { return false }
func (a agents) Breaker(name string) spec.Breaker             { return spec.Breaker{}.For(name) }
func (a agents) Mask(text string) string                      { return text }
func (a agents) Secrets() *secrets.Set                        { return nil }

func (w *world) offered(name string) spec.OfferedAgent {
	o := spec.OfferedAgent{Kind: "anthropic", Model: "model", Concurrency: 4, Digest: "d", Breaker: name, Conversation: spec.InCalls}
	if slices.Contains(w.plan.Programs, name) {
		o.Kind, o.Conversation = "command", spec.InDirectory
	}
	return o
}

// think is how long an answer takes.
func (w *world) think(id spec.AssignmentID, n int) time.Duration {
	return time.Duration(hash(w.plan.Seed, "think "+id.String(), n) % uint64(20*time.Second))
}

// provider is a model of a provider, as an assignment's conversation reaches it.
type provider struct {
	p     *process
	id    spec.AssignmentID
	brief session.Brief
}

// asked is what the simulated model reads of a request.
type asked struct {
	Messages []struct {
		Content []struct{ Content string }
	}
}

func (m provider) RoundTrip(request *http.Request) (*http.Response, error) {
	ctx := request.Context()
	httptrace.ContextClientTrace(ctx).WroteHeaders()
	var q asked
	if err := json.NewDecoder(request.Body).Decode(&q); err != nil {
		return nil, err
	}
	w, ex := m.p.world, executionOf(ctx)
	return call(m.p, "Ask", false, func() (*http.Response, error) {
		n := w.count("ask " + m.id.String())
		w.watch.asksAgain(m.id, ex)
		w.watch.asksUnheard(m.id, ex)
		if l := w.limited(m.id, n); l != nil && l.Stall != "" {
			return m.stall(ctx, *l), nil
		}
		f := w.refusal(m.id, n, ex)
		if f == nil {
			f = m.tooLong(q)
		}
		if f != nil {
			w.note(m.p, "provider refuses %s: %v", m.id, f)
			return refusal(f), nil
		}
		wait := time.NewTimer(w.think(m.id, n))
		defer wait.Stop()
		select {
		case <-wait.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if f := w.outage("provider"); f != nil { // in the middle of an answer
			return refusal(f), nil
		}
		content, used := m.answer(q, n)
		w.watch.asForecast(m.id, &used)
		w.delivered(m.id, used)
		document, _ := json.Marshal(map[string]any{ // plain data
			"type": "message", "id": fmt.Sprint(n), "role": "assistant", "content": content, "stop_reason": "tool_use",
			"usage": map[string]any{"input_tokens": used.InputTokens, "output_tokens": used.OutputTokens},
		})
		return responds(http.StatusOK, http.Header{}, bytes.NewReader(document)), nil
	})
}

func responds(status int, header http.Header, body io.Reader) *http.Response {
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(body)}
}

// refusal is the response that is an error.
func refusal(f *wire.Fault) *http.Response {
	// plain data
	document, _ := json.Marshal(map[string]any{"type": "error", "error": map[string]any{"type": f.Type, "message": f.Message}})
	return responds(f.Status, f.Header, bytes.NewReader(document))
}

// answer is what the model says: some turns of looking, one that writes, one that ends.
func (m provider) answer(q asked, n int) (content []any, used cost.Usage) {
	turn := (len(q.Messages) + 1) / 2
	used = cost.Usage{
		InputTokens:  500 + int64(hash(m.p.world.plan.Seed, "in", n)%2000),
		OutputTokens: 100 + int64(hash(m.p.world.plan.Seed, "out", n)%900),
	}
	add := func(name string, arguments any) {
		content = append(content, map[string]any{
			"type": "tool_use", "id": fmt.Sprintf("c%d.%d", turn, len(content)), "name": name,
			"input": arguments,
		})
	}
	plan := &m.p.world.plan
	changes, kept := append(plan.edits(m.id), edit{m.id.Persona + ".txt", m.p.world.content(m.brief)}), map[string]session.Kept(nil)
	if len(m.brief.Conflicts) > 0 {
		changes, kept = plan.settles(m.brief)
	}
	switch turns := plan.Turns[m.id.String()]; {
	case turn == turns && len(changes) > 0:
		for _, e := range changes {
			if e.content == "" {
				add("delete", map[string]any{"path": e.path})
			} else {
				add("write", map[string]any{"path": e.path, "content": e.content})
			}
		}
	case turn > turns:
		add("finish", map[string]any{"summary": "done", "kept": kept})
	case plan.Window > 0:
		add("read", map[string]any{"path": "big.txt"})
	default:
		add("list", map[string]any{})
	}
	return content, used
}

// limited is what the plan has for a call; nil: nothing.
func (w *world) limited(id spec.AssignmentID, n int) *Limited {
	for _, l := range w.plan.Limited {
		if l.Of == id.String() && l.N == n {
			return &l
		}
	}
	return nil
}

// refusal is what the provider answers instead of working.
func (w *world) refusal(id spec.AssignmentID, n int, ex *execution) *wire.Fault {
	if l := w.limited(id, n); l != nil {
		f := &wire.Fault{Status: l.Status, Message: "slow down", Header: http.Header{}}
		switch l.Status {
		case http.StatusBadRequest, http.StatusNotFound, http.StatusUnprocessableEntity:
			f.Message = "not like this"
			w.watch.rejected(id, ex)
		}
		if l.RetryAfter > 0 {
			f.Header.Set("Retry-After", strconv.Itoa(l.RetryAfter))
			w.watch.askedToWait(id, time.Duration(l.RetryAfter)*time.Second, ex)
		}
		return f
	}
	return w.outage("provider")
}

// outage is the provider's error while it is away.
func (w *world) outage(what string) *wire.Fault {
	for _, o := range w.plan.Windows {
		if o.What == what && w.within(o) {
			return &wire.Fault{Status: o.Status, Message: "out of order", Header: http.Header{}}
		}
	}
	return nil
}

// breakers are the circuit breakers of the store.
type breakers struct{ p *process }

func (b breakers) of() *breaker.Breakers { return &breaker.Breakers{State: b.p.store.State} }

func (b breakers) Read(ctx context.Context, name string) (session.BreakerStatus, error) {
	return call(b.p, "ReadBreaker", false, func() (session.BreakerStatus, error) { return b.of().Read(ctx, name) })
}

func (b breakers) Report(ctx context.Context, r session.BreakerReport) (breaker.Answer, error) {
	return b.change("ReportToBreaker", r.Breaker.Name, r, func() (breaker.Answer, error) { return b.of().Report(ctx, r) })
}

func (b breakers) Acquire(ctx context.Context, set spec.Breaker, holder string) (breaker.Answer, error) {
	return b.change("AcquireBreaker", set.Name, nil, func() (breaker.Answer, error) { return b.of().Acquire(ctx, set, holder) })
}

func (b breakers) Renew(ctx context.Context, set spec.Breaker, holder string) (breaker.Answer, error) {
	return b.change("RenewBreaker", set.Name, nil, func() (breaker.Answer, error) { return b.of().Renew(ctx, set, holder) })
}

// change changes a breaker, one change at a time, so that each is seen.
func (b breakers) change(op, name string, e breaker.Event, change func() (breaker.Answer, error)) (breaker.Answer, error) {
	return call(b.p, op, false, func() (breaker.Answer, error) {
		w := b.p.world
		w.breakers.Lock()
		defer w.breakers.Unlock()
		before, err := b.of().Read(context.Background(), name)
		if err != nil {
			return breaker.Answer{}, err
		}
		answer, err := change()
		if err == nil {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.watchBreaker(name, before, answer, e)
		}
		return answer, err
	})
}

// A program keeps its conversation in HOME, as Claude Code does, and works in steps. It notes each
// step in a file of the tree, and then in the conversation.
const (
	programSteps     = 3
	programDirectory = ".claude/projects/-workspace"
)

// program continues a conversation, or begins one, and writes its file at the end.
func (a agents) program(ctx context.Context, id spec.AssignmentID, job session.Job) (session.Outcome, error) {
	w := a.p.world
	c, ok := agent.ReadConversation(job.Home, preset.Claude)
	if !ok || !job.Continues {
		c = session.Conversation{Preset: preset.Claude, ID: fmt.Sprintf("c%d", w.count("conversation"))}
		if err := a.NoteConversation(job.WorkDir, c); err != nil {
			return session.Outcome{}, err
		}
	}
	talk, notes := filepath.Join(job.Home, programDirectory, c.ID+".jsonl"), id.Phase+"-"+id.Persona+".notes"
	said, noted := lines(talk), lines(inTree(job.WorkDir, notes))
	if job.Continues && !follows(noted, said) && !w.sentBack(job.Brief) {
		w.watch.broke("P1", "%s: the program continues a conversation that said %q on files that note %q", id, said, noted)
	}
	for step := len(said); step < programSteps; step++ {
		if err := a.pause(ctx, w.think(id, step)); err != nil {
			return session.Outcome{}, err
		}
		if err := w.outage("provider"); err != nil {
			return session.Outcome{}, failures.Failf(failures.APIError, "%v", err)
		}
		said = append(said, fmt.Sprintf("%s step %d", c.ID, step))
		if err := a.write("Program.work", filepath.Join(job.Tree, notes), said); err != nil {
			return session.Outcome{}, err
		}
		if err := a.write("Program.note", talk, said); err != nil {
			return session.Outcome{}, err
		}
	}
	err := a.write("Program.end", filepath.Join(job.Tree, id.Persona+".txt"), []string{w.content(job.Brief)})
	if err == nil {
		err = a.stays(ctx, id)
	}
	return session.Outcome{Summary: "done"}, err
}

// follows reports whether the files have all that the conversation says was done.
func follows(noted, said []string) bool {
	return len(noted) >= len(said) && slices.Equal(noted[:len(said)], said)
}

// sentBack reports whether the work is done again, on files that others may have changed.
func (w *world) sentBack(b session.Brief) bool {
	return b.Feedback != nil && (b.Feedback.Category == failures.Rejected || b.Feedback.SentBack != "")
}

// pause waits, unless ctx ends.
func (a agents) pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// write writes a program's file, unless its process is dead.
func (a agents) write(op, path string, text []string) error {
	return act(a.p, op, func() error {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		return os.WriteFile(path, []byte(strings.Join(text, "\n")+"\n"), 0o600)
	})
}

// inTree is where a file of an assignment's tree lies: above the layers, or in one.
func inTree(dir session.WorkDir, name string) string {
	dirs := []string{dir.Tree}
	if dir.Layers != nil {
		dirs = append(dirs, dir.Layers.Dirs...)
	}
	for _, d := range dirs {
		if path := filepath.Join(d, name); exists(path) {
			return path
		}
	}
	return filepath.Join(dir.Tree, name)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, os.ErrNotExist)
}

func lines(path string) []string {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSpace(string(data)), "\n")
}

func (a agents) Conversation(name string, dir session.WorkDir) (c session.Conversation, ok bool) {
	if !slices.Contains(a.p.world.plan.Programs, name) {
		return c, false
	}
	return agent.ReadConversation(dir.Home, preset.Claude)
}

func (a agents) ConversationFiles(agent, ofPreset string) []string {
	if !slices.Contains(a.p.world.plan.Programs, agent) || ofPreset != preset.Claude {
		return nil
	}
	return preset.For(ofPreset).ConversationFiles
}

func (a agents) NoteConversation(dir session.WorkDir, c session.Conversation) error {
	return act(a.p, "Program.conversation", func() error { return agent.WriteConversation(dir.Home, c) })
}

func (a agents) Forget(dir session.WorkDir) error {
	return act(a.p, "Program.forget", func() error { return agent.ForgetConversation(dir.Home) })
}
