package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/agent"
	"github.com/maestro-hive/maestro/internal/config"
	"github.com/maestro-hive/maestro/internal/spec"
)

// WorkerFile describes the loaded worker file.
type WorkerFile struct {
	Path     string    `json:"path,omitempty"`
	LoadedAt time.Time `json:"loaded_at"`
	// Trouble is the error of the last reload; the previous content stays in effect.
	Trouble string `json:"trouble,omitempty"`
}

// reloadPlan loads the worker file again and makes the plan that replaces now.
func (s Setup) reloadPlan(now *plan) (*plan, error) {
	cfg, err := config.LoadWorker(s.File)
	if err != nil {
		return nil, err
	}
	if cfg.RunAs != now.config.RunAs {
		return nil, fmt.Errorf("run_as changed from %q to %q; restart the worker, because working directories in use belong to the old user",
			now.config.RunAs, cfg.RunAs)
	}
	files := now.files
	if trees(cfg.Limits) != trees(now.config.Limits) {
		if files, err = OpenStore(s.StateDir, cfg, s.Clock); err != nil {
			return nil, err
		}
	}
	p, err := s.plan(cfg, files)
	if err != nil {
		return nil, err
	}
	if before, after := now.agents.Isolation(), p.agents.Isolation(); before.Rooms && !after.Rooms && after.WithoutRooms != "" {
		return nil, fmt.Errorf("agents would run without rooms now: %s; try again, or restart the worker", after.WithoutRooms)
	}
	return p, nil
}

// trees returns the limits of trees, which the store enforces.
func trees(l agent.Limits) agent.Limits {
	return agent.Limits{Files: l.Files, FileBytes: l.FileBytes, TreeBytes: l.TreeBytes}
}

// reload applies the current content of the worker file: all of it, or nothing.
func (w *Worker) reload(ctx context.Context) {
	o, old := w.options, w.plan.Load()
	if o.Reread == nil {
		o.Logger.Warn("this worker was started without a worker file")
		return
	}
	p, err := o.Reread(old)
	var begun map[string]*queue
	if err == nil {
		begun, err = w.missingQueues(p)
	}
	if err == nil {
		w.masks.add(p.agents)
		err = w.start(begun)
	}
	w.health.fileRead(err)
	if err != nil {
		logProblems(o.Logger, o.File, err)
		return
	}
	over := w.follow(p, begun)
	if err := w.offer.publish(ctx); err != nil {
		o.Logger.Warn("the worker's new offer is not published yet; retrying", "error", err)
	}
	for _, q := range over {
		w.queues.retiring.Go(q.Stop)
	}
	o.Logger.Info("worker file reloaded", append([]any{"file", o.File}, differences(old, p)...)...)
}

// logProblems logs each error of a worker file as a line.
func logProblems(logger *slog.Logger, file string, err error) {
	const message = "worker file not reloaded; the worker keeps the previous one"
	var faults *config.Problems
	if !errors.As(err, &faults) {
		logger.Error(message, "file", file, "error", err)
		return
	}
	for _, f := range faults.List {
		logger.Error(message, "file", f.File, "line", f.Line, "field", f.Field, "error", f.Message)
	}
}

// missingQueues makes the queues of a plan that are not polled yet, or with another
// concurrency.
func (w *Worker) missingQueues(p *plan) (map[string]*queue, error) {
	made := map[string]*queue{}
	store, polled := w.options.Store.ID(), w.queues.polled
	for name, build := range map[string]func(*plan) *queue{
		spec.WorkflowQueue(store): w.workflowQueue, spec.TicketQueue(store): w.ticketQueue, spec.WebhookQueue(store): w.webhookQueue,
	} {
		if polled[name] == nil && w.needs(p, name) {
			made[name] = build(p)
		}
	}
	for agent, concurrency := range p.slots() {
		name := spec.AgentQueue(store, agent)
		if q := polled[name]; q != nil && q.concurrency == concurrency {
			continue
		}
		q, err := w.agentQueue(agent, concurrency, p)
		if err != nil {
			return nil, err
		}
		made[name] = q
	}
	return made, nil
}

// start starts to poll queues: all of them, or none.
func (w *Worker) start(made map[string]*queue) error {
	var begun []*queue
	for name, q := range made {
		if err := q.Start(); err != nil {
			for _, b := range begun {
				w.queues.retiring.Go(b.Stop)
			}
			return fmt.Errorf("poll %s: %w", name, err)
		}
		begun = append(begun, q)
	}
	return nil
}

// needs reports whether a plan needs a queue that is no agent's.
func (w *Worker) needs(p *plan, name string) bool {
	switch store := w.options.Store.ID(); name {
	case spec.TicketQueue(store):
		return p.tickets != nil
	case spec.WebhookQueue(store):
		return p.hook != nil
	default:
		return name == spec.WorkflowQueue(store)
	}
}

// follow makes new work use a plan, and returns the queues that must no longer be
// polled.
func (w *Worker) follow(p *plan, begun map[string]*queue) (over []*queue) {
	slots, store := p.slots(), w.options.Store.ID()
	agents := map[string]bool{}
	for agent := range slots {
		agents[spec.AgentQueue(store, agent)] = true
	}
	for name, q := range w.queues.polled {
		if begun[name] != nil || !agents[name] && !w.needs(p, name) {
			if q.supplier != nil {
				q.supplier.end() // before slots become free by a larger bound
			}
			over = append(over, q)
			delete(w.queues.polled, name)
			continue
		}
		q.plan.Store(p)
	}
	for agent, concurrency := range slots {
		w.queues.slots[agent].resize(concurrency)
	}
	maps.Copy(w.queues.polled, begun)
	if set, ok := p.agents.(*agent.Set); ok {
		set.UseProviders()
	}
	w.plan.Store(p)
	w.offer.follow(p)
	if r := w.options.Telemetry.Recorder(); r != nil {
		r.Serves(store, slots)
	}
	return over
}

// differences returns the changes as log attributes.
func differences(old, p *plan) (attributes []any) {
	say := func(key string, names []string) {
		if len(names) > 0 {
			slices.Sort(names)
			attributes = append(attributes, key, strings.Join(names, ", "))
		}
	}
	added, removed, changed := compare(old.config.Agents, p.config.Agents, old.agents.OfferedAgents(), p.agents.OfferedAgents())
	say("agents_added", added)
	say("agents_removed", removed)
	say("agents_changed", changed)
	added, removed, changed = compare(old.config.Checks, p.config.Checks, old.agents.OfferedChecks(), p.agents.OfferedChecks())
	say("checks_added", added)
	say("checks_removed", removed)
	say("checks_changed", changed)
	before, after := reflect.ValueOf(old.config), reflect.ValueOf(p.config)
	var settings []string
	for i := range before.NumField() {
		field := before.Type().Field(i)
		key, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		if key == "agents" || key == "checks" || key == "" || key == "-" {
			continue
		}
		if !reflect.DeepEqual(before.Field(i).Interface(), after.Field(i).Interface()) {
			settings = append(settings, key)
		}
	}
	say("settings_changed", settings)
	if len(attributes) == 0 {
		return []any{"changed", "nothing"}
	}
	return attributes
}

// compare names the definitions that were added, removed and changed. A definition is
// also changed if its offer differs because of a file that it refers to.
func compare[D, O any](was, is map[string]D, offered, offers map[string]O) (added, removed, changed []string) {
	for name, d := range is {
		before, known := was[name]
		switch {
		case !known:
			added = append(added, name)
		case !reflect.DeepEqual(before, d) || !reflect.DeepEqual(offered[name], offers[name]):
			changed = append(changed, name)
		}
	}
	for name := range was {
		if _, known := is[name]; !known {
			removed = append(removed, name)
		}
	}
	return added, removed, changed
}
