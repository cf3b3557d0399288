package deliver

import (
	"context"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/delivery"
	"github.com/maestro-hive/maestro/internal/ops/apply"
)

// open opens the pull request, unless an earlier attempt has.
func (r *run) open(ctx context.Context) error {
	number, err := r.host.Find(ctx, r.record.Repository, r.record.Branch, r.record.Base)
	if err != nil {
		return err
	}
	if number == 0 {
		number, err = r.host.Open(ctx, r.record.Repository, delivery.New{
			Branch: r.record.Branch, Base: r.record.Base, Draft: true, Labels: r.order.Labels,
			Title: r.Mask(delivery.Title(r.order.Checkpoint.Requirement, r.order.Key.Session)), Body: r.body(ctx, ""),
		})
		if err != nil {
			return err
		}
	}
	r.record.Number = number
	return r.save(ctx)
}

// body returns the description of the pull request, with what people have written into it.
func (r *run) body(ctx context.Context, before string) string {
	c := r.order.Checkpoint
	d := delivery.Description{
		Session: r.order.Key.Session, Team: c.Team.Name, Requirement: c.Requirement, Work: c.Assignments, Usage: c.Usage,
		Checks: r.order.Checks,
	}
	if c.Labels["repository"] == r.record.Repository {
		d.Issue = c.Labels["issue"]
	}
	if at := r.Dashboard(ctx); at != "" {
		d.Address = strings.TrimRight(at, "/") + "/sessions/" + r.order.Key.Session
	}
	return r.Mask(d.Body(before))
}

// update writes the description anew after a push.
func (r *run) update(ctx context.Context) error {
	body := r.body(ctx, r.pull.Body)
	if body == r.pull.Body {
		return nil
	}
	return r.host.Edit(ctx, r.record.Repository, r.record.Number, delivery.Edit{Body: body})
}

// reply answers the comments whose rework is pushed, and resolves their threads. It looks for its own answers first.
func (r *run) reply(ctx context.Context) error {
	if len(r.record.Replies) == 0 {
		return nil
	}
	if err := r.update(ctx); err != nil {
		return err
	}
	for len(r.record.Replies) > 0 {
		next := r.record.Replies[0]
		if err := r.answer(ctx, next); err != nil {
			return err
		}
		r.record.Replies = slices.Clone(r.record.Replies[1:])
		if err := r.save(ctx); err != nil {
			return err
		}
	}
	return r.look(ctx)
}

func (r *run) answer(ctx context.Context, to delivery.Reply) error {
	repository, number := r.record.Repository, r.record.Number
	if !delivery.Answered(r.order.Key.Session, r.pull, to.Item) {
		summary := ""
		if len(r.record.Replies) == 1 || r.doneIn() == "" { // one rework is described once
			summary = r.summary()
		}
		text := delivery.ReplyText(to.To, r.doneIn(), summary) + "\n" + delivery.ReplyMark(r.order.Key.Session, to.Item)
		if err := r.host.Comment(ctx, repository, number, to.Thread, r.Mask(text)); err != nil {
			return err
		}
	}
	if to.Thread == "" || r.doneIn() == "" { // who has got an answer only may ask again there
		return nil
	}
	return r.host.Resolve(ctx, repository, number, to.Thread)
}

// doneIn is the commit of the rework; empty if it has changed no file.
func (r *run) doneIn() string {
	if r.record.Pushed == r.record.SentFor {
		return ""
	}
	return apply.Short(r.record.Pushed)
}

// summary is what the phase that has done its work again says about it.
func (r *run) summary() string {
	var said []string
	for _, a := range r.order.Checkpoint.Assignments {
		if a.Phase == r.order.Fix && a.Summary != "" {
			said = append(said, a.Summary)
		}
	}
	return strings.Join(said, " ")
}
