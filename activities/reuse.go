package activities

import (
	"fmt"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// stale returns why the work is not reused; empty if it is.
func (v *reuse) stale(a finished, id spec.AssignmentID) (string, error) {
	if a.Basis == nil {
		return "", nil
	}
	persona := v.team.Personas[id.Persona]
	now := session.BasisOf(id, persona, v.agents[persona.Agent], v.requirement, v.tree, v.decisions(v.withAbove())).
		DeliveredTo(v.phase.Deliver)
	if parts := now.Changed(*a.Basis); len(parts) > 0 {
		return "changed: " + strings.Join(parts, ", "), nil
	}
	return v.changedProtected(a)
}

// changedProtected describes the work's changes to files that its phase protects now; empty if there are none.
func (v *reuse) changedProtected(a finished) (string, error) {
	if len(v.phase.Protected) == 0 {
		return "", nil
	}
	works, touched := []session.Work{a.Work}, []string(nil)
	// The integrated work includes a person's edit, which may change protected files.
	if before, _ := v.before.Phase(v.phase.Name); !slices.Equal(before.Protected, v.phase.Protected) {
		works = append(works, a.Integrated...)
	}
	for _, w := range works {
		paths, err := v.Files.Touched(v.ctx, w.Delta, v.phase.Protected)
		if err != nil {
			return "", err
		}
		touched = append(touched, paths...)
	}
	if len(touched) == 0 {
		return "", nil
	}
	slices.Sort(touched)
	return "changed files that are protected now: " + firstFew(slices.Compact(touched)), nil
}

// restore reuses an assignment's work.
func (v *reuse) restore(id spec.AssignmentID, a finished, reason string) error {
	switch {
	case reason != "":
		reason = "kept although stale (" + reason + "): its phase is not selected"
	case a.phaseDone:
		reason = "finished before"
	default:
		reason = "finished before, but not its phase"
	}
	if parts := v.team.Differences(v.before, id); len(parts) > 0 && v.before.Version > 0 {
		reason += "; changed without effect on finished work: " + strings.Join(parts, ", ")
	}
	v.note(id, session.Restore, reason)
	switch {
	case a.Status == session.Skipped: // by a person
	case a.Basis == nil:
		a.Status = session.Supplied
	default:
		a.Status = session.Restored
	}
	if v.phase.Order == spec.OrderSequence {
		// The next persona of a sequence depends on this one's own work.
		own := a.CheckpointAssignment
		own.Integrated = nil
		v.done[id] = own
		folded, err := v.fold(v.withAbove())
		if err != nil {
			return err
		}
		v.tree, a.Output = folded.Manifest, folded.Manifest
	}
	v.reused = append(v.reused, a)
	return nil
}

// withAbove lists the phase and all phases that it depends on.
func (v *reuse) withAbove() []string { return append(v.team.Ancestors(v.phase.Name), v.phase.Name) }

// amend adds to the reason that the plan gives for an assignment.
func (v *reuse) amend(id spec.AssignmentID, more string) {
	for i, entry := range v.plan {
		if entry.AssignmentID == id {
			v.plan[i].Reason += more
		}
	}
}

// edit applies a person's changes to the phase's work.
func (v *reuse) edit() error {
	s, ok := v.in.Course.Supply(v.phase.Name)
	if !ok {
		return nil
	}
	folded, err := v.fold(v.withAbove())
	if err != nil {
		return err
	}
	laid, err := v.Files.Overlay(v.ctx, folded.Manifest, s.Files)
	if err != nil {
		return err
	}
	id := spec.AssignmentID{Phase: v.phase.Name, Persona: v.phase.Integrator}
	if len(laid.Changed) == 0 {
		v.faults = append(v.faults, fmt.Sprintf("the edit of phase %s changes none of its files; change a file, or omit --edit",
			v.phase.Name))
		return nil
	}
	a := v.done[id]
	a.Integrated = append(slices.Clone(a.Integrated), session.Work{Delta: laid.Delta})
	a.Status = session.Supplied
	v.done[id] = a
	v.changed[v.phase.Name] = "was edited"
	v.note(id, session.SupplyIt, "edited: "+firstFew(laid.Changed))
	return nil
}

// supply replaces the phase's work by a person's.
func (r *restoration) supply(p spec.Phase, s session.SuppliedWork) error {
	folded, err := r.fold(r.team.Ancestors(p.Name))
	if err != nil {
		return err
	}
	input := folded.Manifest
	laid, err := r.Files.Overlay(r.ctx, input, s.Files)
	if err != nil {
		return err
	}
	if f := notProduced(p.Produces, laid.Changed); f != nil {
		r.faults = append(r.faults, fmt.Sprintf("the files supplied for phase %s are incomplete: %s; they have %s", p.Name, f.Message,
			firstFew(laid.Changed)))
		return nil
	}
	empty, err := r.Files.Overlay(r.ctx, input, input)
	if err != nil {
		return err
	}
	for _, a := range session.SupplyPhase(p, session.Work{Delta: laid.Delta}, input, empty.Delta, "supplied: "+
		firstFew(laid.Changed)) {
		r.done[a.AssignmentID] = a
		r.note(a.AssignmentID, session.SupplyIt, "supplied: "+firstFew(laid.Changed))
	}
	if _, had := r.found[spec.AssignmentID{Phase: p.Name, Persona: p.Integrator}]; had {
		r.changed[p.Name] = "was supplied again"
	}
	return nil
}

// firstFew lists the first of many paths.
func firstFew(paths []string) string {
	if len(paths) == 0 {
		return "no changed file"
	}
	return textfmt.FirstOf(paths, 5)
}

// undone lists the assignments whose recorded work runs again.
func (r *restoration) undone() (ids []spec.AssignmentID) {
	for _, entry := range r.plan {
		if entry.Action == session.RunIt {
			ids = append(ids, entry.AssignmentID)
		}
	}
	return ids
}

// Planned is the input of Plan.
type Planned struct {
	Key         session.Key
	Team        spec.Team // resolved
	Requirement string
	// Start has no store and no blobs of the team and the requirement.
	Start session.Start
	// Agents are the offers of workers; they are used only for a session that resumes.
	Agents map[string]spec.OfferedAgent
}
