package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/secrets"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/models/agent"
	"github.com/maestro-hive/maestro/internal/platform/diskspace"
	"github.com/maestro-hive/maestro/internal/sandbox/caches"
	"github.com/maestro-hive/maestro/internal/sandbox/layers"
	"github.com/maestro-hive/maestro/internal/sandbox/workdir"
	"github.com/maestro-hive/maestro/internal/store/cas"
)

// plan is one version of the worker file, with the objects made from it. New work uses
// the newest plan, and keeps it until its end.
type plan struct {
	worker *Worker
	config agent.Config
	// set are the agents and checks of the worker file, and agents what does their work.
	set    *agent.Set
	agents activities.Agents
	// content is that of the store, with the worker file's limits on trees.
	content *cas.Store
	// workDirs are the directories in which agents work, with the worker file's limits.
	workDirs *workdir.Dirs
	// caches are the caches of agents, and layers the layers of trees; nil: trees are copied.
	caches *caches.Caches
	layers *layers.Layers
	// tickets is the ticket system, and hook the webhook; nil: the worker does
	// not call it.
	tickets activities.Tickets
	hook    activities.Webhook
	// webUI is the address of Temporal's Web UI; empty: unknown.
	webUI string
}

// newPlan makes a plan from a worker file, or returns all its errors.
func (w *Worker) newPlan(cfg agent.Config) (*plan, error) {
	limits := cfg.Limits
	p := &plan{worker: w, config: cfg, webUI: cmp.Or(cfg.WebUI, w.WebUI), content: w.store.Content.With(cas.Limits{
		Files: limits.Files, FileBytes: int64(limits.FileBytes), TreeBytes: int64(limits.TreeBytes),
	})}
	root := p.besideAgents("caches")
	o := agent.Options{
		Worker: true, Getenv: w.Getenv, Now: w.Clock, Logger: w.Logger, Gateway: w.gateway,
		CacheRoot: root, WorkRoot: p.besideAgents("layers"), Hidden: []string{w.store.Dir(), p.besideAgents("")},
	}
	o.Egress.Observer, o.UsageDiffers = w.recorder, w.recorder.UsageDiffers
	var err error
	if p.set, err = agent.New(cfg, o); err != nil {
		return nil, fmt.Errorf("worker file: %w", err)
	}
	w.mask(p.set.Secrets().Secrets()...)
	if p.agents = w.Agents; p.agents == nil {
		p.agents = p.set
	}
	p.agents = p.withDeliveries(p.agents)
	most := diskspace.Used{Bytes: int64(limits.CacheBytes), Files: limits.DiskFiles}
	p.caches = caches.New(caches.Options{Root: root, Max: most, Clock: w.Clock, Logger: w.Logger})
	return p, errors.Join(p.makeWorkDirs(), p.makeClients())
}

// makeWorkDirs makes the directories on this host in which agents work, and the layers that they show.
func (p *plan) makeWorkDirs() (err error) {
	w := p.worker
	o := workdir.Options{
		Root: workdir.DefaultRoot(w.store.Dir()), Free: (&space{plan: p}).free,
		MaxWritten: int64(p.config.Limits.DiskBytes), MaxWrittenFiles: int64(p.config.Limits.DiskFiles),
	}
	if p.config.RunAs != "" {
		o.Root, o.Shared = workdir.SharedRoot(w.store.Dir()), true
	}
	if p.set.HasLayers() {
		of := layers.Options{Root: p.besideAgents("layers"), Files: p.content, Now: w.Clock}
		if user := p.set.User(); user != nil {
			of.Owner = &cas.Owner{UID: int(user.UID), GID: int(user.GID)}
		}
		if p.layers, err = layers.New(of); err != nil {
			return err
		}
		o.Acquire = func(ctx context.Context, manifest spec.Digest, near ...spec.Digest) (dirs []string, release func(), err error) {
			stack, err := p.layers.Acquire(ctx, manifest, near...)
			if err != nil {
				return nil, nil, err
			}
			return stack.Dirs, func() { _ = stack.Release() }, nil // the kernel unlocks at the latest when the process ends
		}
	}
	p.workDirs = workdir.New(o)
	return nil
}

// makeClients makes the clients of Jira and of the webhook, as far as the worker file has them.
func (p *plan) makeClients() error {
	w := p.worker
	if p.config.Jira != nil {
		tickets, err := Jira(*p.config.Jira, w.Getenv, w.Clock)
		if err != nil {
			return fmt.Errorf("worker file: jira: %w", err)
		}
		p.tickets = tickets
	}
	if p.config.Webhook != nil {
		hook, err := Webhook(*p.config.Webhook, w.Getenv, w.Version, w.Clock)
		if err != nil {
			return fmt.Errorf("worker file: %w", err)
		}
		p.hook = hook
	}
	return nil
}

// besideAgents returns a directory of agents: in the store or, if they run as another user, who
// cannot enter the store, beside it.
func (p *plan) besideAgents(name string) string {
	if p.config.RunAs == "" {
		return filepath.Join(p.worker.store.Dir(), name)
	}
	return filepath.Join(workdir.Beside(p.worker.store.Dir()), name)
}

// collectLayers removes unused layers.
func (p *plan) collectLayers(ctx context.Context) {
	if p.layers == nil {
		return
	}
	if err := p.layers.Collect(ctx); err != nil {
		p.worker.Logger.Warn("unused layers could not be removed", "error", err)
	}
}

// slots returns how many rounds of each agent may run at a time.
func (p *plan) slots() map[string]int {
	slots := map[string]int{}
	for name, offered := range p.set.OfferedAgents() {
		slots[name] = offered.Concurrency
	}
	return slots
}

// use makes new work use a plan.
func (w *Worker) use(p *plan) {
	w.plan.Store(p)
	w.offer.follow(p)
	w.recorder.Serves(w.store.ID(), p.slots())
}

// mask adds secrets to those that are masked.
func (w *Worker) mask(all ...secrets.Secret) {
	w.masking.Lock()
	defer w.masking.Unlock()
	if known := w.secrets.Load(); known != nil {
		all = append(all, known.Secrets()...)
	}
	w.secrets.Store(secrets.New(all))
}
