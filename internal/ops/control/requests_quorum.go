package control

import (
	"context"
	"slices"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/ops/sessionstatus"
)

// identify adds the sender's person and group to an answer to a request with a quorum. It rejects a
// program, which is no person, and a sender who is not a member of a group that the request needs. The session counts the
// persons. It returns the quorum; nil: the request has none, or it is not known.
func (r Requests) identify(ctx context.Context, w *sessionstatus.Watcher, answer *session.Answer) (*session.Quorum, error) {
	answer.Person, answer.PersonID, answer.Group = "", "", ""
	if !answer.Action.OfPhase() {
		return nil, nil
	}
	who, _ := access.Of(ctx)
	open, known, err := w.Requests(ctx)
	if err != nil {
		return nil, looked(w.Session, err)
	}
	i := slices.IndexFunc(open, func(h session.Request) bool { return h.ID == answer.Request })
	switch {
	case !known && who.OnHost() && who.Over() == "":
		answer.Person, answer.PersonID, answer.Group = who.Person(), who.PersonID, session.AnyGroup
		return nil, nil
	case !known:
		return nil, unavailablef("it is unknown who has to approve in session %s: no worker answers, and its store is not available "+
			"here; start a worker", w.Session)
	case i < 0 || open[i].Quorum == nil:
		return nil, nil
	}
	q := open[i].Quorum
	group, ok := groupFor(who, q)
	if !ok {
		return nil, &access.DeniedError{Actor: who.String(), Permission: access.Approve, Groups: q.By, Person: who.Over() != ""}
	}
	answer.Person, answer.PersonID, answer.Group = who.Person(), who.PersonID, group
	if why := q.Refuses(*answer); why != "" {
		return nil, conflictf(w.Session, "request %s: %s", answer.Request, why)
	}
	return q, nil
}

// groupFor is the group for which the caller answers; ok is false if the caller is a program, or not a member of
// any.
func groupFor(who access.Actor, q *session.Quorum) (group string, ok bool) {
	switch {
	case who.Over() != "":
		return "", false
	case who.OnHost():
		return session.AnyGroup, true
	case len(q.By) == 0:
		return "", true
	}
	i := slices.IndexFunc(q.By, func(group string) bool { return slices.Contains(who.Groups, group) })
	if i < 0 {
		return "", false
	}
	return q.By[i], true
}

// ChoicesFor are the answers to a request with a quorum that count if the caller gives them; nil:
// the request has no quorum, and all count.
func ChoicesFor(ctx context.Context, q *session.Quorum, choices []session.Choice) []session.Choice {
	if q == nil {
		return choices
	}
	who, _ := access.Of(ctx)
	group, ok := groupFor(who, q)
	return slices.DeleteFunc(slices.Clone(choices), func(c session.Choice) bool {
		return !ok || q.Refuses(session.Answer{Action: c.Action, Person: who.Person(), PersonID: who.PersonID, Group: group}) != ""
	})
}
