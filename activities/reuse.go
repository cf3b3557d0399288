package activities

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// loadEarlierRuns takes over the alerts of earlier runs, and the cost of assignments that are no longer in the team. It
// refuses a session that another run has already taken over.
func (r *restoration) loadEarlierRuns() error {
	if r.in.Run == 1 && r.in.Base == "" {
		return nil
	}
	e, err := r.State.Execution(r.ctx, r.key)
	switch {
	case errors.Is(err, session.ErrNotFound):
		return r.sumDropped()
	case err != nil:
		return err
	}
	if e.Run >= r.in.Run && e.OriginalRun != r.in.OriginalRun {
		r.faults = append(r.faults, fmt.Sprintf("session %s is already in run %d; see `maestro status %[1]s`", r.key.Session, e.Run))
		return nil
	}
	r.status.Alerts = e.Alerts
	return r.sumDropped()
}

// sumDropped adds up the cost of assignments that are no longer in the team.
func (r *restoration) sumDropped() error {
	costs, err := r.State.Costs(r.ctx, r.key, "phase", "persona")
	for _, c := range costs {
		id := spec.AssignmentID{Phase: c.Phase, Persona: c.Persona}
		if r.costs[id] = c.Usage; r.status.Assignment(id) == nil {
			r.status.Dropped = r.status.Dropped.Add(c.Usage)
		}
	}
	return err
}

// find collects the recorded work: the checkpoint's and, of phases that were not
// complete, that of the assignments' records.
func (r *restoration) find() error {
	if r.in.Base == "" {
		return nil
	}
	var err error
	if r.base, err = r.Sessions.Checkpoint(r.ctx, r.in.Base); err != nil {
		return fmt.Errorf("read checkpoint %s: %w", r.in.Base.Short(), err)
	}
	if err := r.Files.Intact(r.ctx, r.in.Workspace); err != nil {
		r.faults = append(r.faults, "the session's workspace tree is damaged: "+err.Error())
	}
	if r.base.Team.Blob != r.in.Team {
		r.before, r.unread = r.Sessions.Team(r.ctx, r.base.Team.Blob)
	}
	if len(r.given) == 0 {
		r.given = r.base.Given
	}
	if r.in.Origin == nil {
		r.in.Origin = r.base.Origin // a resumed fork stays one
		r.status.Origin = r.in.Origin
	}
	for _, a := range r.base.Partial {
		r.found[a.AssignmentID] = finished{RestoredWork{CheckpointAssignment: r.asForked(a)}, false}
	}
	for _, a := range r.base.Assignments {
		r.found[a.AssignmentID] = finished{RestoredWork{CheckpointAssignment: r.asForked(a)}, true}
	}
	if r.in.Run == 1 {
		return nil
	}
	return r.findRecorded()
}

// forks reports whether the session begins as a fork of another one.
func (r *restoration) forks() bool { return r.in.Run == 1 && r.in.Origin != nil }

// asForked returns finished work without its cost in a fork: the origin has paid for it.
func (r *restoration) asForked(a session.CheckpointAssignment) session.CheckpointAssignment {
	if r.forks() {
		a.Usage = cost.Usage{}
	}
	return a
}

func (r *restoration) findRecorded() error {
	records, err := r.State.Records(r.ctx, r.key)
	if err != nil {
		return err
	}
	for _, record := range records {
		id := record.Assignment
		if r.status.Assignment(id) == nil {
			continue
		}
		r.records[id] = record
		if work, ok := recordedWork(record); ok {
			if _, known := r.found[id]; !known {
				r.found[id] = finished{work, false}
			}
		}
	}
	return r.findSkipped()
}

// recordedWork is an assignment's own work in its record, without its fixes of
// the merged tree.
func recordedWork(record session.Record) (RestoredWork, bool) {
	for _, round := range slices.Backward(record.Rounds) {
		if round.Result == nil || round.Integrating || round.Stale() {
			continue
		}
		a, res := record.Counted(), round.Result
		a.Seconds, a.Summary, a.Files = res.EndedAt.Sub(res.StartedAt).Seconds(), res.Summary, res.Files
		a.LeftOut, a.BasedWork = res.LeftOut, res.BasedWork
		return RestoredWork{withBasisDigest(a), res.Output}, true
	}
	return RestoredWork{}, false
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

// damage describes which part of an assignment's work is missing from the store;
// empty: none.
func (r *restoration) damage(a session.CheckpointAssignment) (string, error) {
	deltas := []spec.Digest{a.Delta}
	for _, w := range a.Integrated {
		deltas = append(deltas, w.Delta)
	}
	for _, delta := range deltas {
		err := r.Files.IntactDelta(r.ctx, delta)
		if errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrCorrupt) {
			return "its work is damaged: " + strings.ReplaceAll(err.Error(), "\n", "; "), nil
		}
		if err != nil {
			return "", err
		}
	}
	return "", nil
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

// Plan returns the decision of an admission on each assignment, in the order of the
// phases, with the same texts; or a sentence for each reason why it would refuse the
// course. It runs and writes nothing. A new session needs only Files, which must have the
// workspace and the files that the course supplies.
func (a *Admissions) Plan(ctx context.Context, p Planned) (plan []session.PlanEntry, faults []string, err error) {
	if faults := p.Start.Course.Problems(p.Team); len(faults) > 0 {
		return nil, faults, nil
	}
	p.Start.Run = max(p.Start.Run, 1)
	r := a.restoration(ctx, p.Key, AdmitInput{Start: p.Start}, p.Team)
	r.agents, r.requirement = p.Agents, p.Requirement
	if err := r.judge(); err != nil {
		return nil, nil, err
	}
	return r.plan, r.faults, nil
}
