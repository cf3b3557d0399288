package control

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/models/config"
)

// Deliver is how the work of a completed session is delivered as a pull request. Empty fields have the defaults of
// [spec.Deliver].
type Deliver struct {
	// To names an agent of kind delivery; empty: the only one that workers offer.
	To         string `json:"to,omitempty" maxLength:"100" doc:"the agent of kind delivery; the only one that workers offer if left out"`
	Repository string `json:"repository,omitempty" maxLength:"255" doc:"OWNER/NAME on the host; the one that the session's directory was cloned from if left out"`
	Base       string `json:"base,omitempty" maxLength:"200" doc:"the branch that the work is merged into; the repository's default branch if left out"`
	// Fix names the phase that does its work again after failed checks and reviews; empty: the last one.
	Fix    string           `json:"fix,omitempty" maxLength:"100" doc:"the phase that does its work again after failed checks and reviews; the last one if left out"`
	Merge  spec.MergeMode   `json:"merge,omitempty" enum:"never,ask,auto" doc:"who merges it: people on the host (never), a person who is asked (ask), or Maestro (auto)"`
	Method spec.MergeMethod `json:"method,omitempty" enum:"merge,squash,rebase" doc:"how it is merged"`
}

// Deliver continues a completed session with a last phase that delivers its work as a pull request. With an error, the
// document names a session only if it was started.
func (s Starts) Deliver(ctx context.Context, sessionID string, in Deliver) (doc Started, err error) {
	event := access.Event{Action: "session.deliver", Subject: in.To, Detail: in.Repository}
	err = s.change(ctx, access.Operate, sessionID, event, func(ctx context.Context) error {
		next, err := s.delivering(ctx, sessionID, in)
		if err == nil {
			doc, err = s.resume(ctx, sessionID, next)
		}
		return err
	})
	return doc, err
}

// Delivering returns the resume with which Deliver would continue a session.
func (s Starts) Delivering(ctx context.Context, sessionID string, in Deliver) (Resume, error) {
	if err := s.may(ctx, access.Operate, sessionID); err != nil {
		return Resume{}, err
	}
	return s.delivering(ctx, sessionID, in)
}

func (s Starts) delivering(ctx context.Context, sessionID string, in Deliver) (next Resume, err error) {
	k, err := s.keptTeam(ctx, sessionID)
	if err != nil {
		return next, err
	}
	e, err := k.store.State.Execution(ctx, k.key)
	switch {
	case err != nil:
		return next, err
	case k.team.Delivers():
		return next, conflictf(sessionID, "team %s delivers a pull request already; `maestro resume %s` continues the session",
			k.team.Name, sessionID)
	case e.Status.Status != session.Completed:
		return next, conflictf(sessionID, "session %s is %s; only the work of a completed session is delivered", sessionID,
			e.Status.Status)
	}
	if in.To, err = s.deliveryAgent(ctx, in.To); err != nil {
		return next, err
	}
	if _, cloned := spec.RepositoryOf(k.source(ctx).Remote); in.Repository == "" && cloned == "" {
		return next, invalidf("repository", "it is not known which repository the files of session %s are from; give the repository, "+
			"like acme/shop",
			sessionID)
	}
	if in.Fix != "" {
		if err := CheckPhase(k.team, "fix", in.Fix); err != nil {
			return next, err
		}
	}
	t, phase := withDelivery(k.team, e.Course, in)
	if len(e.Course.Only) > 0 {
		next.Only = append(slices.Clone(e.Course.Only), phase)
	}
	next.Team.File, err = config.TeamText(t)
	return next, err
}

// withDelivery adds a phase to a team that delivers the work of the phases that a session has run. It returns the phase's name.
func withDelivery(t spec.Team, done session.Course, in Deliver) (spec.Team, string) {
	last := spec.Phase{Name: "deliver", Deliver: &spec.Deliver{
		To: in.To, Repository: in.Repository, Base: in.Base, Fix: in.Fix, Merge: in.Merge, Method: in.Method,
	}}
	if _, taken := t.Phase(last.Name); taken {
		last.Name = "delivery"
	}
	needed := map[string]bool{}
	for _, p := range t.Phases {
		for _, name := range p.Needs {
			needed[name] = needed[name] || done.Selects(p.Name)
		}
	}
	for _, p := range t.Phases {
		if done.Selects(p.Name) && !needed[p.Name] {
			last.Needs = append(last.Needs, p.Name)
		}
	}
	t.Phases = append(slices.Clone(t.Phases), last)
	return t, last.Name
}

// DeliveryAgents lists the agents of kind delivery that workers offer.
func (s Starts) DeliveryAgents(ctx context.Context) ([]string, error) {
	offers, err := s.Store.State.Offers(ctx)
	names := map[string]bool{}
	for _, o := range offers {
		for name, a := range o.Agents {
			if a.Kind == spec.KindDelivery && o.Live(s.Now()) {
				names[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names)), err
}

// deliveryAgent checks the agent that is to deliver, or chooses the only one.
func (s Starts) deliveryAgent(ctx context.Context, to string) (string, error) {
	offered, err := s.DeliveryAgents(ctx)
	switch {
	case err != nil:
		return "", err
	case len(offered) == 0:
		return "", conflictf("", "no worker offers an agent of kind delivery; define one in a worker file, and start a worker with it")
	case to == "" && len(offered) == 1:
		return offered[0], nil
	case to == "":
		return "", invalidf("to", "workers offer several agents of kind delivery; name one of %s", strings.Join(offered, ", "))
	case !slices.Contains(offered, to):
		return "", invalidf("to", "no worker offers %q as an agent of kind delivery; name one of %s", textfmt.Shorten(to, 80),
			strings.Join(offered, ", "))
	}
	return to, nil
}
