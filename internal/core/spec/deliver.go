package spec

import (
	"maps"
	"slices"
	"strings"
)

// MergeMode is who merges a pull request that is ready.
type MergeMode string

// The modes of merging.
const (
	// MergeNever leaves it to people, on the host.
	MergeNever MergeMode = "never"
	// MergeAsk asks a person.
	MergeAsk MergeMode = "ask"
	// MergeAuto merges it at once.
	MergeAuto MergeMode = "auto"
)

// MergeMethod is how a pull request becomes part of its base.
type MergeMethod string

// The methods of merging.
const (
	MethodMerge  MergeMethod = "merge"
	MethodSquash MergeMethod = "squash"
	MethodRebase MergeMethod = "rebase"
)

// DeliveryPersona is the persona of phases that deliver.
const DeliveryPersona = "delivery"

// KindDelivery is the kind of the agents that deliver.
const KindDelivery = "delivery"

// DefaultFixes is how often a pull request's checks and reviews may send work back.
const DefaultFixes = 3

// Deliver makes a phase deliver the work so far as a pull request, and wait until that is merged. Failed checks and
// reviews send the work of an earlier phase back.
type Deliver struct {
	// To names the worker-file agent, of the kind delivery, that has the host's address and credentials.
	To string `json:"to" yaml:"to" jsonschema:"format=name" example:"github"`
	// Repository is OWNER/NAME on the host. Default: the one that the session's directory was cloned from.
	Repository string `json:"repository,omitempty" yaml:"repository,omitempty" jsonschema:"format=repository,maxLength=255" example:"acme/shop"`
	// Base is the branch that the work is merged into. Default: the repository's default branch.
	Base string `json:"base,omitempty" yaml:"base,omitempty" jsonschema:"format=branch,maxLength=200"`
	// Fix names the phase that does its work again after failed checks and reviews. Default: the last phase that this one needs.
	Fix string `json:"fix,omitempty" yaml:"fix,omitempty" jsonschema:"format=reference"`
	// Times is how often that may happen in one session. After that a person decides.
	Times int `json:"times,omitempty" yaml:"times,omitempty" jsonschema:"minimum=1,maximum=20"`
	// Merge is who merges the pull request when the host permits it. With never people merge it there. With ask a person is asked
	// here. With auto it is merged at once.
	Merge MergeMode `json:"merge,omitempty" yaml:"merge,omitempty" jsonschema:"enum=never,enum=ask,enum=auto"`
	// Method is how it is merged. A host that permits only another one says so.
	Method MergeMethod `json:"method,omitempty" yaml:"method,omitempty" jsonschema:"enum=merge,enum=squash,enum=rebase"`
	// Labels are set on the pull request.
	Labels []string `json:"labels,omitempty" yaml:"labels,omitempty" jsonschema:"format=filled,maxItems=20,maxLength=50,uniqueItems=true"`
	// Reviewers are asked for a review when the checks have passed: names of people, or OWNER/TEAM for a team of GitHub.
	Reviewers []string `json:"reviewers,omitempty" yaml:"reviewers,omitempty" jsonschema:"format=filled,maxItems=20,maxLength=100,uniqueItems=true"`
}

// delivering returns a phase that delivers with its defaults, and with the persona that does it.
func (p Phase) delivering() Phase {
	d := *p.Deliver
	if d.Fix == "" && len(p.Needs) > 0 {
		d.Fix = p.Needs[len(p.Needs)-1]
	}
	setDefault(&d.Times, DefaultFixes)
	setDefault(&d.Merge, MergeNever)
	setDefault(&d.Method, MethodMerge)
	d.Labels, d.Reviewers = append([]string(nil), d.Labels...), append([]string(nil), d.Reviewers...) // nil if they are empty
	p.Deliver, p.Personas, p.Integrator = &d, []string{DeliveryPersona}, DeliveryPersona
	if d.Fix != "" {
		p.SendsBack = &SendsBack{To: d.Fix, Times: d.Times}
	}
	return p
}

// Written returns the team as its file says it, without what [Team.Resolved] adds to phases that deliver: their persona,
// and what depends on it. The defaults stay. Resolved adds the same again.
func (t Team) Written() Team {
	t.Personas, t.Phases = maps.Clone(t.Personas), slices.Clone(t.Phases)
	for i, p := range t.Phases {
		if p.Deliver != nil && slices.Equal(p.Personas, []string{DeliveryPersona}) {
			p.Personas, p.Integrator, p.SendsBack = nil, "", nil
			t.Phases[i] = p
			delete(t.Personas, DeliveryPersona)
		}
	}
	return t
}

// Delivers reports whether any phase delivers.
func (t Team) Delivers() bool {
	return slices.ContainsFunc(t.Phases, func(p Phase) bool { return p.Deliver != nil })
}

// Workers says who works in the phase: its personas, or that it delivers, and to which agent.
func (p Phase) Workers() string {
	if p.Deliver != nil {
		return "delivers to " + p.Deliver.To
	}
	return strings.Join(p.Personas, ", ")
}

// deliveryPersona returns the persona of phases that deliver.
func deliveryPersona(to string, attempts int) Persona {
	return Persona{
		Role: "Delivery", Agent: to, Attempts: attempts,
		Instructions: "Deliver the work as a pull request, and wait until it is merged.",
	}
}

// RepositoryOf returns the host and the repository that an address of git names: of HTTPS, of SSH, or user@host:path. Both are
// empty if it names none.
func RepositoryOf(address string) (host, name string) {
	var rest string
	if _, after, ok := strings.Cut(address, "://"); ok {
		host, rest, _ = strings.Cut(after, "/")
	} else if host, rest, ok = strings.Cut(address, ":"); !ok {
		return "", ""
	}
	if _, after, ok := strings.Cut(host, "@"); ok {
		host = after
	}
	host, _, _ = strings.Cut(host, ":")
	name = strings.TrimSuffix(strings.Trim(rest, "/"), ".git")
	if host == "" || !strings.Contains(name, "/") {
		return "", ""
	}
	return strings.ToLower(host), name
}
