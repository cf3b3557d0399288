package service

import (
	"cmp"
	"errors"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/agent"
	"github.com/maestro-hive/maestro/internal/caches"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/textfmt"
	"github.com/maestro-hive/maestro/internal/workdir"
)

// plan is one version of the worker file, with the objects made from it. New work uses
// the newest plan, and keeps it until its end.
type plan struct {
	config agent.Config
	agents Agents
	// files is the store, with the worker file's limits on trees.
	files *store.Store
	// workDirs are the working directories of agents, with the worker file's limits.
	workDirs *workdir.Dirs
	// caches are the caches of agents, with the worker file's limits.
	caches *caches.Caches
	// tickets is the ticket system, and hook the webhook; nil: the worker does
	// not call it.
	tickets activities.Tickets
	hook    activities.Webhook
	// webUI is the address of Temporal's Web UI; empty: unknown.
	webUI string
}

// plan makes a plan from a worker file, or returns all its errors.
func (s Setup) plan(cfg agent.Config, files *store.Store) (*plan, error) {
	p := &plan{config: cfg, agents: s.Agents, files: files, webUI: cmp.Or(cfg.WebUI, s.WebUI)}
	var errs []error
	if p.agents == nil {
		o := agent.Options{Worker: true, Getenv: s.Getenv, Now: s.Clock, Logger: s.Logger, Gateway: s.gateway}
		if r := s.Telemetry.Recorder(); r != nil {
			o.Egress.Observer, o.UsageDiffers = r, r.UsageDiffers
		}
		set, err := newAgents(files, cfg, o)
		if err != nil {
			return nil, err
		}
		p.agents = set
	}
	p.caches = newCaches(files, cfg, s.Logger, s.Clock)
	var err error
	if p.workDirs, err = newWorkDirs(files, cfg, p.agents, p.caches, s.Logger, s.Clock); err != nil {
		errs = append(errs, err)
	}
	p.tickets, p.hook, err = s.clients(cfg)
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	return p, nil
}

// indexDelay returns how long after its creation the ticket system may not find a ticket.
func (p *plan) indexDelay() textfmt.Duration {
	if p.config.Jira == nil {
		return 0
	}
	return p.config.Jira.IndexDelay
}

// offer adds the plan's agents and checks to an offer.
func (p *plan) offer(o spec.Offer) spec.Offer {
	o.Agents, o.Checks = p.agents.OfferedAgents(), p.agents.OfferedChecks()
	o.Isolation = p.agents.Isolation()
	o.Jira, o.Webhook, o.WebUI, o.Work = p.tickets != nil, p.hook != nil, p.webUI, p.workDirs.Root()
	return o
}

// slots returns how many rounds of each agent may run at a time.
func (p *plan) slots() map[string]int {
	slots := map[string]int{}
	for name, offered := range p.agents.OfferedAgents() {
		slots[name] = offered.Concurrency
	}
	return slots
}
