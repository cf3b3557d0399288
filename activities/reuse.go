package activities

import (
	"fmt"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// reuse decides on the assignments of one phase, in their order.
type reuse struct {
	*restoration
	phase spec.Phase
	// why is the reason why the phase runs even if it has finished work; empty: it need not.
	why string
	// input is the phase's input, if it has been determined; tree is the input
	// of the next persona of a sequence.
	input  session.Folded
	tree   spec.Digest
	reused []finished
	// complete: the work of every persona is reused; runs: an assignment has to run.
	complete, runs bool
}

// assignment decides on one assignment: it is restored, or runs, or is left.
func (v *reuse) assignment(id spec.AssignmentID, selected bool) error {
	a, ok := v.found[id]
	damage, reason := "", v.why
	var err error
	if ok {
		damage, err = v.damage(a.CheckpointAssignment)
	}
	switch {
	case err != nil:
	case !ok:
		reason = v.unfinished(id)
	case damage != "":
		ok, reason = false, damage
	case reason == "":
		reason, err = v.stale(a, id)
	}
	if err != nil {
		return err
	}
	if ok && (reason == "" || !selected) {
		return v.restore(id, a, reason)
	}
	v.complete = false
	if !selected {
		v.note(id, session.Leave, strings.TrimPrefix(damage+"; not selected", "; "))
		return nil
	}
	v.runs = true
	v.note(id, session.RunIt, reason)
	if v.phase.Order == spec.OrderSequence && v.why == "" {
		v.why = fmt.Sprintf("follows %s, which runs again", id.Persona)
	}
	return nil
}

// unfinished returns why an assignment has no work.
func (v *reuse) unfinished(id spec.AssignmentID) string {
	if len(v.records[id].Rounds) > 0 {
		return "not finished"
	}
	return "not done yet"
}

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

// withAbove lists the phase and all phases that it depends on.
func (v *reuse) withAbove() []string { return append(v.team.Ancestors(v.phase.Name), v.phase.Name) }

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

// phaseReusable reports whether the phase's work is reused as a whole: as it was merged,
// checked and recorded, or by one persona, whose record proves its checks.
func (v *reuse) phaseReusable() bool {
	if !v.complete {
		return false
	}
	for _, a := range v.base.Assignments { // the merge must have had the work of all personas
		if a.Phase == v.phase.Name && !slices.Contains(v.phase.Personas, a.Persona) {
			return false
		}
	}
	recorded := slices.ContainsFunc(v.reused, func(a finished) bool { return !a.phaseDone })
	return !recorded || (v.phase.Solo() && !v.in.Course.PausesAfter(v.phase))
}

// decideRest adds the phase's reused work to the result, and decides what is left to do.
func (v *reuse) decideRest(selected bool) error {
	if s, ok := v.in.Course.Supply(v.phase.Name); ok && s.Edit && !v.phaseReusable() {
		v.faults = append(v.faults, fmt.Sprintf("phase %s has no finished work to edit; use --input, or let the phase run",
			v.phase.Name))
	}
	if v.phaseReusable() {
		for _, a := range v.reused {
			v.done[a.AssignmentID] = a.CheckpointAssignment
		}
		return v.edit()
	}
	for _, a := range v.reused { // an incomplete phase has no output
		delete(v.done, a.AssignmentID)
		if len(a.Integrated) > 0 {
			v.amend(a.AssignmentID, "; fixes and edits of the phase's merged tree are dropped, because the tree has changed")
			a.Integrated = nil
		}
		v.partial = append(v.partial, a.RestoredWork)
	}
	if !selected {
		return nil
	}
	v.changed[v.phase.Name] = "is merged again"
	if v.runs {
		v.changed[v.phase.Name] = "runs again"
	}
	v.todo = append(v.todo, v.phase.Name)
	if slices.ContainsFunc(v.team.Ancestors(v.phase.Name), func(above string) bool { return slices.Contains(v.todo, above) }) {
		return nil
	}
	return v.start()
}

// amend adds to the reason that the plan gives for an assignment.
func (v *reuse) amend(id spec.AssignmentID, more string) {
	for i, entry := range v.plan {
		if entry.AssignmentID == id {
			v.plan[i].Reason += more
		}
	}
}

// start determines the phase's input. All phases that it depends on are done.
func (v *reuse) start() (err error) {
	if v.input.Manifest == "" {
		if v.input, err = v.fold(v.team.Ancestors(v.phase.Name)); err != nil {
			return err
		}
	}
	if len(v.input.Conflicts) > 0 {
		v.conflicts[v.phase.Name], v.merged[v.phase.Name] = session.FewConflicts(v.input.Conflicts), v.input.Manifest
		return nil
	}
	v.inputs[v.phase.Name] = v.input.Manifest
	return nil
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
