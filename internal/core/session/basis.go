package session

import "github.com/maestro-hive/maestro/internal/core/spec"

// Basis has the digests of an assignment's inputs. Work whose basis is unchanged is restored when a
// session is resumed or forked; work whose basis has changed is stale and runs again. Limits,
// checks and the number of concurrent attempts are not part of it: they define how work is done,
// not what it is.
type Basis struct {
	// Persona is the persona's name and role.
	Persona spec.Digest `json:"persona"`
	// Agent is the agent's name, kind and model. Its command line is not part of it: a corrected
	// command line makes no finished work stale.
	Agent        spec.Digest `json:"agent"`
	Instructions spec.Digest `json:"instructions"`
	Requirement  spec.Digest `json:"requirement"`
	// Input is the manifest that the work started from.
	Input spec.Digest `json:"input"`
	// Decisions are the decisions that were passed to the work.
	Decisions spec.Digest `json:"decisions"`
	// Target is the repository and the base that work is delivered to; empty for other work.
	Target spec.Digest `json:"target,omitempty"`
}

// DeliveredTo returns the basis of work in a phase that may deliver; d is nil if it does not.
func (b Basis) DeliveredTo(d *spec.Deliver) Basis {
	if d != nil {
		b.Target = spec.DigestOfJSON([]string{d.Repository, d.Base})
	}
	return b
}

// BasisOf computes the basis of an assignment's work.
func BasisOf(id spec.AssignmentID, p spec.Persona, agent spec.OfferedAgent, requirement string, input spec.Digest,
	decisions map[string]string,
) Basis {
	if len(decisions) == 0 {
		decisions = nil
	}
	return Basis{
		Persona:      spec.DigestOfJSON([]string{id.Persona, p.Role}),
		Agent:        spec.DigestOfJSON([]string{p.Agent, agent.Kind, agent.Model}),
		Instructions: spec.DigestOfJSON(p.Instructions),
		Requirement:  spec.DigestOfJSON(requirement),
		Input:        input,
		Decisions:    spec.DigestOfJSON(decisions),
	}
}

// SameWork reports whether two bases differ in the agent at most.
func (b Basis) SameWork(as Basis) bool {
	b.Agent = as.Agent
	return b == as
}

// Digest names the basis as a whole: an assignment's input digest.
func (b Basis) Digest() spec.Digest { return spec.DigestOfJSON(b) }

// Changed names the parts in which the basis differs from another.
func (b Basis) Changed(from Basis) []string {
	var parts []string
	for _, part := range []struct {
		name      string
		now, then spec.Digest
	}{
		{"persona", b.Persona, from.Persona},
		{"agent or model", b.Agent, from.Agent},
		{"instructions", b.Instructions, from.Instructions},
		{"requirement", b.Requirement, from.Requirement},
		{"input files", b.Input, from.Input},
		{"decisions", b.Decisions, from.Decisions},
		{"repository or base", b.Target, from.Target},
	} {
		if part.now != part.then {
			parts = append(parts, part.name)
		}
	}
	return parts
}
