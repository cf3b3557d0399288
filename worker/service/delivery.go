package service

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"path/filepath"
	"sync"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/delivery"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/secrets"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/models/agent"
	"github.com/maestro-hive/maestro/internal/ops/deliver"
	"github.com/maestro-hive/maestro/internal/outside/codehost"
)

// deliveringAgents has the jobs of phases that deliver done by a [deliver.Deliverer], and all others by the worker's agents.
type deliveringAgents struct {
	activities.Agents
	deliverer *deliver.Deliverer
}

// Run does one attempt.
func (a deliveringAgents) Run(ctx context.Context, job session.Job) (session.Outcome, error) {
	if job.Delivery != nil {
		return a.deliverer.Run(ctx, job)
	}
	return a.Agents.Run(ctx, job)
}

// withDeliveries adds the deliverer to the agents of a plan.
func (p *plan) withDeliveries(agents activities.Agents) activities.Agents {
	w := p.worker
	hosts := &codeHosts{worker: w, set: p.set}
	return deliveringAgents{agents, &deliver.Deliverer{
		Store: w.store, Host: hosts.host, Dir: filepath.Join(w.store.Dir(), "clones"), Environ: w.gitEnviron(), Mask: w.Mask,
		Dashboard: func(ctx context.Context) string { return access.ServedAt(ctx, w.store.State) }, Clock: w.Clock,
	}}
}

// gitEnviron is the environment of git: none of the worker's secrets.
func (w *Worker) gitEnviron() []string {
	return []string{"PATH=" + w.Getenv("PATH"), "HOME=" + filepath.Join(w.store.Dir(), "clones")}
}

// codeHosts are the clients of the hosts of a worker file. A client is kept, with its tokens and cached answers, for as long as
// its settings are the same: a key in a file may be renewed.
type codeHosts struct {
	worker *Worker
	set    *agent.Set
	mu     sync.Mutex
	known  map[string]knownHost
}

type knownHost struct {
	settings [sha256.Size]byte
	host     delivery.Host
}

// host returns the host of an agent. The error is a [*failures.Failure].
func (c *codeHosts) host(name string) (delivery.Host, error) {
	settings, ok := c.set.Delivery(name)
	switch {
	case !ok:
		return nil, failures.Failf(failures.InvalidRequest, "agent %s is not of kind delivery; correct deliver.to", name)
	case settings.Err != nil:
		return nil, failures.Failf(failures.Auth, "%v", settings.Err)
	}
	data, err := json.Marshal(settings)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(data)
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.known[name]; ok && known.settings == sum {
		return known.host, nil
	}
	c.worker.mask(secrets.Secret{Name: "the credentials of agent " + name, Value: settings.Token + settings.Key})
	made, err := c.worker.newCodeHost(settings)
	if err != nil {
		return nil, failures.Failf(failures.Auth, "agent %s: %v", name, err)
	}
	if c.known == nil {
		c.known = map[string]knownHost{}
	}
	c.known[name] = knownHost{sum, made}
	return made, nil
}

func (w *Worker) newCodeHost(s agent.DeliverySettings) (delivery.Host, error) {
	if s.Host == agent.HostGitLab {
		return codehost.NewGitLab(codehost.GitLabOptions{URL: s.URL, Token: s.Token, Clock: w.Clock, Version: w.Version})
	}
	o := codehost.GitHubOptions{URL: s.URL, Token: s.Token, Clock: w.Clock, Version: w.Version}
	if s.AppID != 0 {
		o.App = &codehost.GitHubApp{ID: s.AppID, Installation: s.Installation, Key: []byte(s.Key)}
	}
	return codehost.NewGitHub(o)
}
