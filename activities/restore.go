package activities

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/activity"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// restoration decides which finished work of a session is reused: work is a
// function of its basis, so it is reused while its basis is unchanged.
type restoration struct {
	*Admissions
	ctx    context.Context
	in     AdmitInput
	key    session.Key
	team   spec.Team
	agents map[string]spec.OfferedAgent
	// base is the checkpoint to continue from, and before its team; zero for a
	// new session.
	base   session.Checkpoint
	before spec.Team
	// unread is why before could not be read; nil: it could.
	unread      error
	requirement string
	given       map[string]string
	// records are the assignments' records at the time of the decision.
	records map[spec.AssignmentID]session.Record
	// costs are the costs of assignments with records, from their calls.
	costs map[spec.AssignmentID]cost.Usage
	// found is all recorded work; done is the reused work in complete phases,
	// partial that in incomplete ones.
	found   map[spec.AssignmentID]finished
	done    map[spec.AssignmentID]session.CheckpointAssignment
	partial []RestoredWork
	// todo has the phases to run; changed has, by phase, the reason why the work that
	// depends on it is not reused.
	todo    []string
	changed map[string]string
	// inputs and conflicts are for the phases that may start at once.
	inputs    map[string]spec.Digest
	conflicts map[string][]session.Conflict
	merged    map[string]spec.Digest
	// unapproved are the finished phases that have yet to be approved, and approved has
	// the approvals of their work so far.
	unapproved []string
	approved   map[string][]session.Approval
	status     session.Status
	plan       []session.PlanEntry
	faults     []string
}

// finished is an assignment's recorded work.
type finished struct {
	RestoredWork
	// phaseDone: its phase is in the checkpoint, too.
	phaseDone bool
}

// restore decides on all phases, in topological order.
func (a *Admissions) restore(ctx context.Context, in AdmitInput, t spec.Team, agents map[string]spec.OfferedAgent) (*restoration,
	error,
) {
	in.Run = max(in.Run, 1)
	requirement, err := a.Files.Blob(ctx, in.Requirement)
	if err != nil {
		return nil, fmt.Errorf("read requirement: %w", err)
	}
	r := a.restoration(ctx, sessionKey(activity.GetInfo(ctx)), in, t)
	r.agents, r.requirement = agents, string(requirement)
	if err := r.judge(); err != nil {
		return nil, err
	}
	if r.unread != nil {
		activity.GetLogger(ctx).Warn("the team of the last checkpoint cannot be read; its differences are not listed", "error",
			r.unread)
	}
	return r, nil
}

// judge decides on all work. It stops if the session may not start.
func (r *restoration) judge() error {
	r.status = session.NewStatus(r.key.Session, r.team)
	r.status.Run, r.status.Origin, r.status.Labels, r.status.Starter = r.in.Run, r.in.Origin, r.in.Labels, r.in.Starter
	if err := r.loadEarlierRuns(); err != nil || len(r.faults) > 0 {
		return err
	}
	if err := r.find(); err != nil {
		return err
	}
	if err := r.decide(); err != nil {
		return err
	}
	r.finish()
	return nil
}

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

// phase decides on the assignments of one phase.
func (r *restoration) phase(p spec.Phase) error {
	if s, ok := r.in.Course.Supply(p.Name); ok && !s.Edit {
		return r.supply(p, s)
	}
	selected := r.in.Course.Selects(p.Name)
	v := &reuse{restoration: r, phase: p, why: r.mustRun(p), complete: true}
	if v.why == "" || !selected {
		input, err := r.fold(r.team.Ancestors(p.Name))
		if err != nil {
			return err
		}
		v.input, v.tree = input, input.Manifest
	}
	for _, persona := range p.Personas {
		if err := v.assignment(spec.AssignmentID{Phase: p.Name, Persona: persona}, selected); err != nil {
			return err
		}
	}
	return v.decideRest(selected)
}

// mustRun returns why a phase must run even if it has finished work; empty: it need not.
func (r *restoration) mustRun(p spec.Phase) string {
	if slices.Contains(r.in.Course.Force, p.Name) {
		return "forced"
	}
	for _, above := range r.team.Ancestors(p.Name) {
		if why := r.changed[above]; why != "" {
			return "depends on " + above + ", which " + why
		}
	}
	return ""
}

func (r *restoration) mergeBase() mergeBase {
	return mergeBase{r.Files, r.team, r.in.Workspace, r.given}
}

// fold merges the reused work of the phases.
func (r *restoration) fold(phases []string) (session.Folded, error) {
	folded, _, err := r.mergeBase().fold(r.ctx, phases, r.done)
	return folded, err
}

// decisions returns the decisions of the phases' reused work.
func (r *restoration) decisions(phases []string) map[string]string {
	merged, _ := session.MergeDecisions(r.given, session.Steps(r.team, phases, r.done))
	return merged
}

func (r *restoration) note(id spec.AssignmentID, action session.PlanAction, reason string) {
	r.plan = append(r.plan, session.PlanEntry{AssignmentID: id, Action: action, Reason: reason})
}

// finish fills in the status, and adds dropped assignments to the plan.
func (r *restoration) finish() {
	for _, a := range r.base.Assignments {
		if r.status.Assignment(a.AssignmentID) == nil {
			r.note(a.AssignmentID, session.Drop, "no longer in the team; its work is dropped")
		}
	}
	restored := map[spec.AssignmentID]session.CheckpointAssignment{}
	for _, a := range r.partial {
		restored[a.AssignmentID] = a.CheckpointAssignment
	}
	for id, a := range r.done {
		restored[id] = a
	}
	for i, p := range r.status.Phases {
		complete := true
		for j, s := range p.Assignments {
			id := spec.AssignmentID{Phase: p.Name, Persona: s.Persona}
			if a, ok := restored[id]; ok {
				r.status.Phases[i].Assignments[j] = session.AssignmentStatus{Persona: s.Persona, AssignmentSummary: a.AssignmentSummary}
			} else {
				r.status.Phases[i].Assignments[j] = r.spent(id)
			}
			_, ok := r.done[id]
			complete = complete && ok
		}
		if complete {
			r.status.Phases[i].Status = r.status.Phases[i].Done(session.Restored)
		}
	}
	r.approvals()
	r.status.Usage = r.status.Sum()
	r.status.Decisions = r.decisions(r.team.PhaseNames())
	if r.in.Base != "" || len(r.in.Course.Only)+len(r.in.Course.Supplied) > 0 {
		r.status.Plan = r.plan
	}
}

// spent returns the status of an assignment that has yet to run, with its cost so far.
func (r *restoration) spent(id spec.AssignmentID) session.AssignmentStatus {
	s := session.AssignmentStatus{AssignmentSummary: session.NoWork()}
	if record := r.records[id]; len(record.Rounds) > 0 {
		s = record.Status()
		s.Usage = r.costs[id]
	} else if a, ok := r.found[id]; ok && !r.forks() {
		s.AssignmentSummary = a.AssignmentSummary
	}
	s.Persona, s.Status, s.Summary, s.Files, s.LeftOut = id.Persona, session.Pending, "", 0, nil
	return s
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

// checkpoint returns the first checkpoint of the run.
func (r *restoration) checkpoint() (session.Checkpoint, error) {
	c := session.Checkpoint{
		Schema: session.CheckpointSchema, Session: r.key.Session, Run: r.status.Run,
		Team:        session.Ref{Name: r.team.Name, Blob: r.in.Team},
		Requirement: r.requirement, Workspace: r.in.Workspace, Tree: r.in.Workspace, Given: r.given, Origin: r.in.Origin,
		ReportTo: r.in.ReportTo, Labels: r.in.Labels,
		CurrentPhase: spec.ReservedPhase, Decisions: r.status.Decisions, Previous: r.in.Base,
		Assignments: []session.CheckpointAssignment{}, Artifacts: []session.Artifact{},
		Answers: r.base.Answers, Reworks: slices.Clone(r.base.Reworks),
	}
	for i, rework := range c.Reworks { // supplied work is done again, too
		c.Reworks[i].Open = slices.DeleteFunc(slices.Clone(rework.Open), func(p string) bool { return !slices.Contains(r.todo, p) })
		c.Reworks[i].Undone = slices.Clone(rework.Undone)
		for j, a := range rework.Undone {
			c.Reworks[i].Undone[j] = r.asForked(a)
		}
	}
	for _, a := range r.partial {
		c.Partial = append(c.Partial, a.CheckpointAssignment)
	}
	if len(r.done)+len(c.Reworks) == 0 {
		return c, nil
	}
	_, err := r.mergeBase().fill(r.ctx, &c, r.done)
	return c, err
}

// admission returns the result for the workflow.
func (r *restoration) admission() Admission {
	out := Admission{
		Team: r.team.Outline(), Status: r.status.Clone(), Todo: r.todo, Partial: r.partial, Inputs: r.inputs, Conflicts: r.conflicts,
		Merged:     r.merged,
		Unapproved: r.unapproved, Approvals: r.approved, Notes: r.notes(),
	}
	out.Status.Decisions = nil
	for _, p := range out.Status.Phases {
		for i, a := range p.Assignments {
			p.Assignments[i].Failures = session.LastFailures(a.Failures)
		}
	}
	for _, rework := range r.base.Reworks {
		out.Reworks = append(out.Reworks, rework.Outline())
	}
	return out
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

// restoration returns a restoration that has decided nothing yet.
func (a *Admissions) restoration(ctx context.Context, key session.Key, in AdmitInput, t spec.Team) *restoration {
	return &restoration{
		Admissions: a, ctx: ctx, key: key, in: in, team: t, given: in.Course.Given,
		records: map[spec.AssignmentID]session.Record{}, costs: map[spec.AssignmentID]cost.Usage{},
		found: map[spec.AssignmentID]finished{},
		done:  map[spec.AssignmentID]session.CheckpointAssignment{}, changed: map[string]string{},
		approved: map[string][]session.Approval{}, inputs: map[string]spec.Digest{}, conflicts: map[string][]session.Conflict{},
		merged: map[string]spec.Digest{},
	}
}

// decide decides on every assignment: it is reused or runs.
func (r *restoration) decide() error {
	for _, phase := range r.team.InOrder() {
		if err := r.phase(*phase); err != nil {
			return err
		}
	}
	return r.disagreement()
}
