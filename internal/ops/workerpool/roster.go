package workerpool

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
	"github.com/maestro-hive/maestro/internal/store"
)

// polledWithin is how fresh a poller has to be to count as one. A poll takes up
// to a minute.
const polledWithin = 2 * time.Minute

// Roster is what workers offer, who polls, and what is missing. As JSON
// it is the document of `agents -o json`.
type Roster struct {
	// Store is the id of the store that the workers serve.
	Store string `json:"store"`
	// Workers are the live ones, sorted by name.
	Workers []Worker `json:"workers"`
	// Temporal reports whether it could be asked who polls.
	Temporal bool    `json:"temporal"`
	Queues   []Queue `json:"queues"`
	// Team is the name of the team that was given; empty if none was.
	Team string `json:"team,omitempty"`
	// Missing is what prevents sessions: the team's, if one was given.
	Missing []spec.Lack `json:"missing"`
}

// Worker is a live worker and what it offers.
type Worker struct {
	Worker   string `json:"worker"`
	Identity string `json:"identity"`
	Host     string `json:"host"`
	PID      int    `json:"pid"`
	Version  string `json:"version"`
	// Since is when it started, RenewedAt the time of its last heartbeat.
	Since     time.Time `json:"since"`
	RenewedAt time.Time `json:"renewed_at"`
	Agents    []Agent   `json:"agents"`
	Checks    []string  `json:"checks"`
	// Isolation is how its agents and checks are separated from the host.
	Isolation spec.Isolation `json:"isolation"`
	Disk      spec.Disk      `json:"disk"`
	// Jira and Webhook: it makes tickets, and calls a webhook.
	Jira    bool `json:"jira"`
	Webhook bool `json:"webhook"`
}

// Agent is one of a worker's agents.
type Agent struct {
	Agent string `json:"agent"`
	spec.OfferedAgent
	State session.BreakerState `json:"breaker_state"`
}

// Queue is a task queue and its pollers.
type Queue struct {
	Queue string `json:"queue"`
	// For is what waits in it: sessions, agent NAME, tickets or webhook.
	For string `json:"for"`
	// Pollers are the identities of recent pollers.
	Pollers []string `json:"pollers"`
}

// Unpolled is what is missing if nobody polls the queue.
func (q Queue) Unpolled(conn *temporalutil.Connection) spec.Lack {
	return spec.Lack{
		Message: fmt.Sprintf("no poller in Temporal at %s, namespace %s, for %s", conn.Address, conn.Namespace, q.For),
		Remedy:  "check that the worker is connected to this address and namespace, and has finished starting",
	}
}

// Look gathers what there is and what is missing. A team without a name is none;
// conn is nil where Temporal cannot be reached.
func Look(ctx context.Context, s *store.Store, conn *temporalutil.Connection, t spec.Team, now time.Time) (Roster, error) {
	doc := Roster{
		Store: s.ID(), Team: t.Name, Temporal: conn != nil,
		Workers: []Worker{}, Queues: []Queue{}, Missing: []spec.Lack{},
	}
	offers, err := s.State.Offers(ctx)
	if err != nil {
		return doc, err
	}
	known, err := Breakers(ctx, s, now)
	if err != nil {
		return doc, err
	}
	states := map[string]session.BreakerState{}
	for _, b := range known {
		states[b.Name] = b.State
	}
	for _, o := range offers {
		if o.Live(now) {
			doc.Workers = append(doc.Workers, offering(o, states))
		}
	}
	_, lacks := t.Lacks(offers, now) // of a team that is none: a worker at all
	if t.Name == "" {
		lacks = append(lacks, spec.Differences(offers, now)...)
	}
	doc.Missing = append(doc.Missing, lacks...)
	if conn == nil {
		return doc, nil
	}
	for _, q := range queues(s.ID(), doc.Workers) {
		if q.Pollers, err = pollers(ctx, conn, q, doc.Workers, now); err != nil {
			return doc, err
		}
		doc.Queues = append(doc.Queues, q)
		if len(q.Pollers) == 0 && len(doc.Workers) > 0 {
			doc.Missing = append(doc.Missing, q.Unpolled(conn))
		}
	}
	return doc, nil
}

func offering(o spec.Offer, states map[string]session.BreakerState) Worker {
	w := Worker{
		Worker: o.Worker, Identity: o.Identity, Host: o.Host, PID: o.PID, Version: o.Version,
		Since: o.StartedAt, RenewedAt: o.RenewedAt, Isolation: o.Isolation, Disk: o.Disk, Jira: o.Jira, Webhook: o.Webhook,
		Agents: []Agent{}, Checks: append([]string{}, slices.Sorted(maps.Keys(o.Checks))...),
	}
	for _, name := range slices.Sorted(maps.Keys(o.Agents)) {
		w.Agents = append(w.Agents, Agent{name, o.Agents[name], states[o.Agents[name].Breaker]})
	}
	return w
}

// queues lists the queues that the workers should poll.
func queues(store string, workers []Worker) []Queue {
	out := []Queue{{Queue: spec.WorkflowQueue(store), For: "sessions"}}
	add := func(queue, what string) {
		if !slices.ContainsFunc(out, func(q Queue) bool { return q.Queue == queue }) {
			out = append(out, Queue{Queue: queue, For: what})
		}
	}
	for _, w := range workers {
		for _, offer := range w.Agents {
			add(spec.AgentQueue(store, offer.Agent), "agent "+offer.Agent)
		}
		if w.Jira {
			add(spec.TicketQueue(store), "tickets")
		}
		if w.Webhook {
			add(spec.WebhookQueue(store), "webhook")
		}
	}
	return out
}

// pollers are the identities of a queue's recent pollers. Builds
// that one of the live workers has replaced are left out.
func pollers(ctx context.Context, conn *temporalutil.Connection, q Queue, live []Worker, now time.Time) ([]string, error) {
	kind := enumspb.TASK_QUEUE_TYPE_ACTIVITY
	if q.For == "sessions" {
		kind = enumspb.TASK_QUEUE_TYPE_WORKFLOW
	}
	answer, err := conn.DescribeTaskQueue(ctx, q.Queue, kind)
	if err != nil {
		return nil, err
	}
	found := []string{}
	for _, p := range answer.GetPollers() {
		asked := p.GetLastAccessTime().AsTime()
		replaced := slices.ContainsFunc(live, func(w Worker) bool { return w.replaced(p.GetIdentity(), asked) })
		if now.Sub(asked) < polledWithin && !replaced {
			found = append(found, p.GetIdentity())
		}
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}

// replaced reports whether an identity is that of another build which had this
// worker's slot before it: a slot has one holder at a time, and that one last polled
// before this worker started.
func (w Worker) replaced(identity string, asked time.Time) bool {
	own, _, _ := strings.Cut(w.Identity, " ")
	slot, _, _ := strings.Cut(identity, " ")
	return slot == own && identity != w.Identity && asked.Before(w.Since)
}
