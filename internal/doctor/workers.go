package doctor

import (
	"context"
	"fmt"
	"time"

	"github.com/maestro-hive/maestro/internal/buildinfo"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/terminal"
	"github.com/maestro-hive/maestro/internal/textfmt"
	"github.com/maestro-hive/maestro/internal/workerpool"
)

// workers checks the offers of the store's workers.
func (d *examination) workers(ctx context.Context) {
	if d.store == nil {
		return
	}
	offers, err := d.store.State.Offers(ctx)
	if err != nil {
		d.add("workers", Bad, "check that the store's directory is readable", "%s", err)
		return
	}
	live := 0
	for _, o := range offers {
		if o.Live(d.options.Now()) {
			live++
			d.liveWorker(o)
		} else {
			d.deadWorker(o)
		}
	}
	if live == 0 {
		d.add("workers", Bad, "start a worker", "no worker serves the store %s", d.store.ID()).Command = d.startWorker()
	}
}

// liveWorker checks a live worker.
func (d *examination) liveWorker(o spec.Offer) {
	check, now := "worker "+o.Worker, d.options.Now()
	text := fmt.Sprintf("last heartbeat %s ago, with agents %s and checks %s%s",
		now.Sub(o.RenewedAt).Truncate(time.Second).Abs(), terminal.Names(o.Agents), terminal.Names(o.Checks), notified(o))
	if mine := buildinfo.This().String(); o.Version != mine {
		d.add(check, Warning, "restart it with this build, or use the maestro of its build",
			"%s; its version is %s, this program's is %s", text, terminal.Dash(o.Version), mine)
	} else {
		d.add(check, OK, "", "%s", text)
	}
	if why := o.Isolation.WithoutRooms; why != "" {
		d.add(check+" rooms", Warning, "do what the message says, or write `isolation: none` in its worker file", "its agents and checks work without rooms: %s", why)
	}
	if why := o.Isolation.WithoutLayers; why != "" {
		d.unlayered(check+" layers", "it copies trees", why)
	}
	d.shim(check+" shim", o.Isolation)
}

// deadWorker adds a finding on an offer that is not renewed, of a worker that was killed.
func (d *examination) deadWorker(o spec.Offer) {
	d.add("worker "+o.Worker, Warning, "restart it on "+o.Host+"; its work continues on other workers, or waits",
		"on %s, no heartbeat for %s", o.Host, terminal.Span(d.options.Now().Sub(o.RenewedAt))).
		Command = d.startWorker()
}

// notified lists the systems that a worker notifies.
func notified(o spec.Offer) string {
	text := ""
	if o.Jira {
		text += "; creates tickets"
	}
	if o.Webhook {
		text += "; calls a webhook"
	}
	return text
}

// served checks who polls the task queue of each agent, and those of the
// team's, if there is one.
func (d *examination) served(ctx context.Context, t spec.Team) {
	if d.store == nil {
		if t.Name != "" {
			d.add("team "+t.Name, Bad, "start a worker", "there is no store, so no worker serves it").Command = d.startWorker()
		}
		return
	}
	now := d.options.Now()
	doc, err := workerpool.Look(ctx, d.store, d.conn, t, now)
	if err != nil {
		d.add("agents", Warning, "check that the store and Temporal are reachable", "the workers' offers cannot be read: %s", textfmt.FirstLine(err.Error()))
		return
	}
	offers, _ := d.store.State.Offers(ctx) // they could be read a moment ago
	d.polled(doc)
	if d.conn != nil {
		d.strangers(doc, offers)
	}
	if t.Name == "" {
		for _, l := range spec.Differences(offers, now) {
			d.add("agents", Warning, l.Remedy, "%s", l.Message)
		}
		return
	}
	_, lacks := t.Lacks(offers, now)
	for _, l := range lacks {
		d.add("team "+t.Name, Bad, l.Remedy, "%s", l.Message)
	}
	if len(lacks) == 0 {
		d.add("team "+t.Name, OK, "", "nothing is missing")
	}
}

// polled adds findings on the pollers of each agent's queue, and of the sessions' queue.
func (d *examination) polled(doc workerpool.Roster) {
	var unasked []string
	for _, q := range doc.Queues {
		if len(q.Pollers) > 0 {
			d.add(q.For, OK, "", "polled by %s", terminal.Enumeration(q.Pollers, "and"))
		} else {
			unasked = append(unasked, q.For)
		}
	}
	if len(unasked) > 0 && len(doc.Workers) > 0 {
		d.add("queues", Bad, "check that the worker is connected to this address and namespace, and has finished starting",
			"no poller in Temporal at %s, namespace %s, for %s", d.conn.Address, d.conn.Namespace, terminal.Enumeration(unasked, "and"))
	}
}

// strangers looks for workers that poll this store's queues and have no offer in it:
// they serve a copy of it in another directory.
func (d *examination) strangers(doc workerpool.Roster, offers []spec.Offer) {
	known := map[string]bool{}
	for _, w := range doc.Workers {
		known[w.Identity] = true
	}
	for _, o := range offers { // the server lists pollers that have ended for a while
		known[o.Identity] = true
	}
	for _, q := range doc.Queues {
		for _, identity := range q.Pollers {
			if known[identity] {
				continue
			}
			known[identity] = true
			d.add("same store", Warning, "if this stays for more than two minutes: start that worker with the directory "+d.store.Dir()+", or run this command with the worker's --state-dir",
				"%s polls for store %s but has no offer in this directory: it has just ended, or it uses another copy of the store",
				identity, d.store.ID())
		}
	}
}

// breakers checks for breakers that are not closed.
func (d *examination) breakers(ctx context.Context) {
	if d.store == nil {
		return
	}
	known, err := workerpool.Breakers(ctx, d.store, d.conn, d.options.Now())
	if err != nil {
		d.add("breakers", Warning, "check that the store and Temporal are reachable", "cannot be listed: %s", textfmt.FirstLine(err.Error()))
		return
	}
	open := 0
	for _, b := range known {
		if b.State == session.BreakerClosed {
			continue
		}
		open++
		until := "until it is reset"
		if b.OpenUntil != nil {
			until = "until " + terminal.Moment(b.OpenUntil)
		}
		d.add("breaker "+b.Name, Warning, "fix the cause; it then closes by itself, unless it was opened manually: then reset it",
			"%s, %s: %s", b.State, until, b.Because()).
			Command = d.options.Again("breaker reset " + b.Name)
	}
	if open == 0 && len(known) > 0 {
		d.add("breakers", OK, "", "%s closed", terminal.Verbed(len(known), "breaker", "is", "are"))
	}
}
