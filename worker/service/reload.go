package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/models/config"
)

// WorkerFile describes the loaded worker file.
type WorkerFile struct {
	Path     string    `json:"path,omitempty"`
	LoadedAt time.Time `json:"loaded_at"`
	// Trouble is the error of the last reload; the previous content stays in effect.
	Trouble string `json:"trouble,omitempty"`
}

// reloadPlan loads the worker file again and makes the plan that replaces now.
func (w *Worker) reloadPlan(now *plan) (*plan, error) {
	cfg, err := config.LoadWorker(w.File)
	if err != nil {
		return nil, err
	}
	if cfg.RunAs != now.config.RunAs {
		return nil, fmt.Errorf("run_as changed from %q to %q; restart the worker, because working directories in use belong to "+
			"the old user",
			now.config.RunAs, cfg.RunAs)
	}
	p, err := w.newPlan(cfg)
	if err != nil {
		return nil, err
	}
	if before, after := now.set.Isolation(), p.set.Isolation(); before.Rooms && !after.Rooms && after.WithoutRooms != "" {
		return nil, fmt.Errorf("agents would run without rooms now: %s; try again, or restart the worker", after.WithoutRooms)
	}
	return p, nil
}

// reload applies the current content of the worker file: all of it, or nothing.
func (w *Worker) reload(ctx context.Context) {
	if w.File == "" {
		w.Logger.Warn("this worker was started without a worker file")
		return
	}
	old := w.plan.Load()
	p, err := w.reloadPlan(old)
	var begun map[string]*queue
	if err == nil {
		begun = w.missingQueues(p)
		err = w.start(begun)
	}
	w.health.fileRead(err)
	if err != nil {
		logProblems(w.Logger, w.File, err)
		return
	}
	over := w.follow(p, begun)
	if err := w.publish(ctx); err != nil {
		w.Logger.Warn("the worker's new offer is not published yet; retrying", "error", err)
	}
	for _, q := range over {
		w.queues.retiring.Go(q.Stop)
	}
	w.Logger.Info("worker file reloaded", "file", w.File, "changed", changes(old, p))
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

// missingQueues makes the queues of a plan that are not polled yet.
func (w *Worker) missingQueues(p *plan) map[string]*queue {
	made := map[string]*queue{}
	for name, build := range w.wantedQueues(p) {
		if w.queues.polled[name] == nil {
			made[name] = build(p)
		}
	}
	return made
}

// wantedQueues returns what makes the queues of a plan, by name.
func (w *Worker) wantedQueues(p *plan) map[string]func(*plan) *queue {
	store := w.store.ID()
	wanted := map[string]func(*plan) *queue{spec.WorkflowQueue(store): w.workflowQueue}
	if p.tickets != nil {
		wanted[spec.TicketQueue(store)] = w.ticketQueue
	}
	if p.hook != nil {
		wanted[spec.WebhookQueue(store)] = w.webhookQueue
	}
	for agent := range p.slots() {
		wanted[spec.AgentQueue(store, agent)] = func(p *plan) *queue { return w.agentQueue(agent, p) }
	}
	return wanted
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

// follow makes new work use a plan, and returns the queues that must no longer be
// polled.
func (w *Worker) follow(p *plan, begun map[string]*queue) (over []*queue) {
	wanted := w.wantedQueues(p)
	for name, q := range w.queues.polled {
		if wanted[name] != nil {
			q.plan.Store(p)
			continue
		}
		if q.slots != nil {
			q.slots.resize(0)
		}
		over = append(over, q)
		delete(w.queues.polled, name)
	}
	for agent, concurrency := range p.slots() {
		w.queues.slots[agent].resize(concurrency)
	}
	maps.Copy(w.queues.polled, begun)
	p.set.UseProviders()
	w.use(p)
	return over
}

// changes names the keys of the worker file whose values differ. Agents and checks also differ if a file that they refer to does.
func changes(old, p *plan) string {
	var keys []string
	before, after := reflect.ValueOf(old.config), reflect.ValueOf(p.config)
	for i := range before.NumField() {
		key, _, _ := strings.Cut(before.Type().Field(i).Tag.Get("yaml"), ",")
		same := reflect.DeepEqual(before.Field(i).Interface(), after.Field(i).Interface())
		switch key {
		case "", "-":
			continue
		case "agents":
			same = same && reflect.DeepEqual(old.set.OfferedAgents(), p.set.OfferedAgents())
		case "checks":
			same = same && reflect.DeepEqual(old.set.OfferedChecks(), p.set.OfferedChecks())
		}
		if !same {
			keys = append(keys, key)
		}
	}
	return cmp.Or(strings.Join(keys, ", "), "nothing")
}
