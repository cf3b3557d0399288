package doctor

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/models/agent"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/ops/workerpool"
	"github.com/maestro-hive/maestro/internal/platform/buildinfo"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
)

// startWorker is a command that starts a worker.
func (h *host) startWorker() string {
	return h.Again("worker --agents " + agent.ShellWord(cmp.Or(h.Agents, "agents.yaml")))
}

// workers checks the offers of the store's workers.
func workers(ctx context.Context, h *host) (found []control.Finding) {
	offers, err := h.store.State.Offers(ctx)
	if err != nil {
		return bad("check that the store's directory is readable", "%s", err)
	}
	live := 0
	for _, o := range offers {
		if o.Live(h.Now()) {
			live++
			found = append(found, h.liveWorker(o)...)
			continue
		}
		found = append(found, about("worker "+o.Worker,
			with(warn("restart it on "+o.Host+"; its work continues on other workers, or waits",
				"on %s, no heartbeat for %s", o.Host, terminal.Span(h.Now().Sub(o.RenewedAt))), h.startWorker()))...)
	}
	if live == 0 {
		found = append(found, with(bad("start a worker", "no worker serves the store %s", h.store.ID()), h.startWorker())...)
	}
	return found
}

// liveWorker checks a live worker.
func (h *host) liveWorker(o spec.Offer) []control.Finding {
	name := "worker " + o.Worker
	text := fmt.Sprintf("last heartbeat %s ago, with agents %s and checks %s",
		h.Now().Sub(o.RenewedAt).Truncate(time.Second).Abs(), terminal.Names(o.Agents), terminal.Names(o.Checks))
	if o.Jira {
		text += "; creates tickets"
	}
	if o.Webhook {
		text += "; calls a webhook"
	}
	found := ok("%s", text)
	if mine := buildinfo.This().String(); o.Version != mine {
		found = warn("restart it with this build, or use the maestro of its build", "%s; its version is %s, this program's is %s",
			text, terminal.Dash(o.Version), mine)
	}
	found = about(name, found)
	if why := o.Isolation.WithoutRooms; why != "" {
		found = append(found, about(name+" rooms", warn("do what the message says, or write `isolation: none` in its worker file",
			"its agents and checks work without rooms: %s", why))...)
	}
	if o.Disk.Full {
		found = append(found, about(name+" disk", warn("free space on its host", "%s is full: %s free", o.Host,
			textfmt.Size(o.Disk.FreeBytes)))...)
	}
	return append(found, slowly(name+" ", o.Isolation)...)
}

// served checks who polls the task queue of each agent, and those of the
// team's, if there is one.
func served(ctx context.Context, h *host) (found []control.Finding) {
	team := "team " + h.Team.Name
	if h.store == nil {
		if h.Team.Name != "" {
			found = about(team, with(bad("start a worker", "there is no store, so no worker serves it"), h.startWorker()))
		}
		return found
	}
	pool, err := workerpool.Look(ctx, h.store, h.conn, h.Team, h.Now())
	if err != nil {
		return unreadable("check that the store and Temporal are reachable", "the workers' offers cannot be read", err)
	}
	offers, _ := h.store.State.Offers(ctx) // they could be read a moment ago
	found = append(h.polled(pool), h.strangers(pool, offers)...)
	if h.Team.Name == "" {
		for _, l := range spec.Differences(offers, h.Now()) {
			found = append(found, warn(l.Remedy, "%s", l.Message)...)
		}
		return found
	}
	_, lacks := h.Team.Lacks(offers, h.Now())
	for _, l := range lacks {
		found = append(found, about(team, bad(l.Remedy, "%s", l.Message))...)
	}
	if len(lacks) == 0 {
		found = append(found, about(team, ok("nothing is missing"))...)
	}
	return found
}

// polled lists the pollers of each agent's queue, and of the sessions' queue.
func (h *host) polled(pool workerpool.Roster) (found []control.Finding) {
	for _, q := range pool.Queues {
		switch l := q.Unpolled(h.conn); {
		case len(q.Pollers) > 0:
			found = append(found, about(q.For, ok("polled by %s", terminal.Enumeration(q.Pollers, "and")))...)
		case len(pool.Workers) > 0:
			found = append(found, about(q.For, bad(l.Remedy, "%s", l.Message))...)
		}
	}
	return found
}

// strangers looks for workers that poll this store's queues and have no offer in it:
// they serve a copy of it in another directory.
func (h *host) strangers(pool workerpool.Roster, offers []spec.Offer) (found []control.Finding) {
	known := map[string]bool{}
	for _, w := range pool.Workers {
		known[w.Identity] = true
	}
	for _, o := range offers { // the server lists pollers that have ended for a while
		known[o.Identity] = true
	}
	for _, q := range pool.Queues {
		for _, identity := range q.Pollers {
			if known[identity] {
				continue
			}
			known[identity] = true
			found = append(found, about("same store",
				warn("if this stays for more than two minutes: start that worker with the directory "+h.dir+
					", or run this command with the worker's --state-dir",
					"%s polls for store %s but has no offer in this directory: it has just ended, or it uses another copy of the store",
					identity, h.store.ID()))...)
		}
	}
	return found
}

// breakers checks for breakers that are not closed.
func breakers(ctx context.Context, h *host) (found []control.Finding) {
	known, err := workerpool.Breakers(ctx, h.store, h.Now())
	if err != nil {
		return unreadable("check that the store is reachable", "they cannot be listed", err)
	}
	for _, b := range known {
		if b.State == session.BreakerClosed {
			continue
		}
		until := "until it is reset"
		if b.OpenUntil != nil {
			until = "until " + terminal.Moment(b.OpenUntil)
		}
		found = append(found, about("breaker "+b.Name,
			with(warn("fix the cause; it then closes by itself, unless it was opened manually: then reset it",
				"%s, %s: %s", b.State, until, b.Because()), h.Again("breaker reset "+b.Name)))...)
	}
	if len(found) == 0 && len(known) > 0 {
		return ok("%s closed", terminal.Verbed(len(known), "breaker", "is", "are"))
	}
	return found
}
