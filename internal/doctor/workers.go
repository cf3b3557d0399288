package doctor

import (
	"context"
	"fmt"
	"time"

	"github.com/maestro-hive/maestro/internal/agent"
	"github.com/maestro-hive/maestro/internal/buildinfo"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/terminal"
	"github.com/maestro-hive/maestro/internal/textfmt"
	"github.com/maestro-hive/maestro/internal/workerpool"
)

// longDead is the age of an offer whose worker is not coming back.
const longDead = 24 * time.Hour

// workers looks at what the store's workers publish.
func (d *examination) workers(ctx context.Context) {
	if d.store == nil {
		return
	}
	offers, err := d.store.Offers(ctx)
	if err != nil {
		d.add("workers", Bad, "see that the store's directory can be read", "%s", err)
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
		d.add("workers", Bad, "start one", "no worker serves the store %s", d.store.ID()).Command = d.startWorker()
	}
}

// liveWorker looks at a worker that is alive.
func (d *examination) liveWorker(o spec.Offer) {
	check, now := "worker "+o.Worker, d.options.Now()
	text := fmt.Sprintf("alive %s ago, with agents %s and checks %s%s",
		now.Sub(o.RenewedAt).Truncate(time.Second).Abs(), terminal.Names(o.Agents), terminal.Names(o.Checks), tells(o))
	if mine := buildinfo.This().String(); o.Version != mine {
		d.add(check, Warning, "start it again with this build, or use the maestro of its own",
			"%s; it is version %s, and this program %s", text, terminal.Dash(o.Version), mine)
	} else {
		d.add(check, OK, "", "%s", text)
	}
	_, written, err := d.store.OfferFile(o.Worker)
	if err != nil {
		return // it has just ended
	}
	// What it says of the time, against what the file system says when it said so.
	if ahead := o.RenewedAt.Sub(written) + d.fileClock; ahead.Abs() > clockTolerance {
		d.clock(check+" clock", "the clock of "+o.Host, "by what its offer says and when that was written", ahead)
	}
}

// deadWorker looks at an offer that nobody renews. That of a worker which was killed
// lies there until the worker comes back.
func (d *examination) deadWorker(o spec.Offer) {
	path, _, err := d.store.OfferFile(o.Worker)
	age := d.options.Now().Sub(o.RenewedAt)
	switch {
	case err != nil: // it has just ended
	case age > longDead:
		d.add("worker "+o.Worker, Warning, "start it again on its machine, or forget it", "on %s, not heard of for %s", o.Host, brief(age.Truncate(time.Hour))).
			Command = "rm " + agent.ShellWord(path)
	default:
		d.add("worker "+o.Worker, Warning, "start it again on "+o.Host+"; its work has gone to others, or waits",
			"on %s, not heard of for %s", o.Host, terminal.Span(age)).
			Command = d.startWorker()
	}
}

// tells says whom a worker tells of sessions.
func tells(o spec.Offer) string {
	text := ""
	if o.Jira {
		text += "; it makes tickets"
	}
	if o.Webhook {
		text += "; it calls a webhook"
	}
	return text
}

// served looks who asks Temporal for the work of each agent, and for that of the
// team's, if there is one.
func (d *examination) served(ctx context.Context, t spec.Team) {
	if d.store == nil {
		if t.Name != "" {
			d.add("team "+t.Name, Bad, "start one", "there is no store, and so no worker that serves it").Command = d.startWorker()
		}
		return
	}
	now := d.options.Now()
	doc, err := workerpool.Look(ctx, d.store, d.conn, t, now)
	if err != nil {
		d.add("agents", Warning, "see that the store and Temporal can be read", "what workers offer is not known: %s", textfmt.FirstLine(err.Error()))
		return
	}
	offers, _ := d.store.Offers(ctx) // they could be read a moment ago
	d.polled(doc)
	if d.conn != nil {
		d.strangers(doc, offers)
	}
	if t.Name == "" {
		return
	}
	_, lacks := t.Lacks(offers, now)
	for _, l := range lacks {
		d.add("team "+t.Name, Bad, l.Remedy, "%s", l.Message)
	}
	if len(lacks) == 0 {
		d.add("team "+t.Name, OK, "", "all that it needs is offered")
	}
}

// polled says who asks for the work of each agent, and of the sessions themselves.
func (d *examination) polled(doc workerpool.Roster) {
	var unasked []string
	for _, q := range doc.Queues {
		if len(q.Pollers) > 0 {
			d.add(q.For, OK, "", "asked for by %s", terminal.Enumeration(q.Pollers, "and"))
		} else {
			unasked = append(unasked, q.For)
		}
	}
	if len(unasked) > 0 && len(doc.Workers) > 0 {
		d.add("queues", Bad, "see that the worker is connected to the same address and namespace, and that it does not just start",
			"nobody asks Temporal at %s, namespace %s, for the work of %s", d.conn.Address, d.conn.Namespace, terminal.Enumeration(unasked, "and"))
	}
}

// strangers looks for workers that ask for this store's work and have no offer in it:
// they serve a copy of it in another directory.
func (d *examination) strangers(doc workerpool.Roster, offers []spec.Offer) {
	known := map[string]bool{}
	for _, w := range doc.Workers {
		known[w.Identity] = true
	}
	for _, o := range offers { // the dead are remembered by the server for a while
		known[o.Identity] = true
	}
	for _, q := range doc.Queues {
		for _, identity := range q.Pollers {
			if known[identity] {
				continue
			}
			known[identity] = true
			d.add("same store", Warning, "if this is said in two minutes, too: have it use the directory "+d.store.Dir()+", or this command the worker's, with --state-dir",
				"%s has asked for the work of store %s, and is not known in this directory: it has just ended, or it uses another copy of the store",
				identity, d.store.ID())
		}
	}
}

// breakers looks for those that keep rounds waiting.
func (d *examination) breakers(ctx context.Context) {
	if d.store == nil {
		return
	}
	known, err := workerpool.Breakers(ctx, d.store, d.conn, d.options.Now())
	if err != nil {
		d.add("breakers", Warning, "see that the store and Temporal can be read", "they cannot be listed: %s", textfmt.FirstLine(err.Error()))
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
		d.add("breaker "+b.Name, Warning, "mend what it says; it closes by itself then, unless somebody opened it by hand: close it",
			"%s, %s: %s", b.State, until, b.Because()).
			Command = d.options.Again("breaker reset " + b.Name)
	}
	if open == 0 && len(known) > 0 {
		d.add("breakers", OK, "", "%s closed", terminal.Verbed(len(known), "breaker", "is", "are"))
	}
}
