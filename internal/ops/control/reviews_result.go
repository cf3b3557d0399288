package control

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/ops/apply"
	"github.com/maestro-hive/maestro/internal/store/cas"
)

// Result is the work of a session so far, from its newest checkpoint.
type Result struct {
	Session string `json:"session"`
	// Status is the session's, Phase the phase of its newest checkpoint.
	Status     session.State `json:"status"`
	Checkpoint spec.Digest   `json:"checkpoint"`
	Phase      string        `json:"phase"`
	Completeness
	Damage

	// Work is the work in the checkpoint, and Source the origin of the workspace.
	Work   apply.Work     `json:"-"`
	Source session.Source `json:"-"`
}

// Completeness is how much of a session's work its newest checkpoint has.
type Completeness struct {
	// Whole: it has the work of every phase that the session has to run, or the session has
	// completed.
	Whole bool `json:"whole"`
	// Missing are the phases without work, in the team's order.
	Missing []string `json:"missing"`
	// Reason is the reason in words; empty: the result is whole.
	Reason string `json:"reason"`

	// Part describes what there is, like "1 of 4 phases (requirements)".
	Part string `json:"-"`
}

// Newest is the result of a session's newest checkpoint, without its changes. It needs no readable
// team.
func (r Reviews) Newest(ctx context.Context, sessionID string) (Result, error) {
	k, err := r.kept(ctx, sessionID)
	return Result{Session: sessionID, Checkpoint: k.Name, Phase: k.CurrentPhase, Damage: k.Damage, Work: k.work()}, err
}

func (k kept) work() apply.Work {
	return apply.Work{StoredCheckpoint: k.StoredCheckpoint, Store: k.store}
}

// Result reads the work of a session so far.
func (r Reviews) Result(ctx context.Context, sessionID string) (Result, error) {
	k, err := r.keptTeam(ctx, sessionID)
	if err != nil {
		return Result{}, err
	}
	e, _ := k.store.State.Execution(ctx, k.key) // without a readable status, the result counts as incomplete
	return Result{
		Session: sessionID, Status: e.Status.Status, Checkpoint: k.Name, Phase: k.CurrentPhase, Completeness: k.completeness(e),
		Damage: k.Damage,
		Work:   k.work(), Source: k.source(ctx),
	}, nil
}

// PatchInput selects the changes of a patch.
type PatchInput struct {
	Session string   `path:"session" maxLength:"200" doc:"the session's id"`
	Partial bool     `query:"partial" doc:"also of a result that is not whole; otherwise that is a conflict"`
	Paths   []string `query:"path,explode" maxItems:"100" doc:"a file, directory or pattern; repeatable"`
}

// Patch is a session's changes as a patch for `git apply`, binary files included.
func (r Reviews) Patch(ctx context.Context, in PatchInput) (Download, error) {
	result, err := r.Result(ctx, in.Session)
	if err != nil {
		return Download{}, err
	}
	if !result.Whole && !in.Partial {
		return Download{}, conflictf(in.Session, "%s", result.Reason)
	}
	work := result.Work
	return Download{Name: in.Session + ".patch", WriteTo: func(ctx context.Context, w io.Writer) error {
		for d, err := range work.Store.Content.Patch(ctx, work.Workspace, work.Tree, cas.PatchOptions{Paths: in.Paths, Binary: true}) {
			if err == nil {
				_, err = io.WriteString(w, d.Text)
			}
			if err != nil {
				return unselected(err, in.Paths)
			}
		}
		return nil
	}}, nil
}

// completeness compares a checkpoint with the session's selected phases. A completed session is
// whole, also if phases were left out.
func (k kept) completeness(e session.Execution) Completeness {
	c := Completeness{Whole: true, Missing: []string{}}
	if e.Status.Status == session.Completed {
		return c
	}
	var has, sentBack, lacking []string
	for _, phase := range k.team.PhaseNames() {
		switch reworking := k.Reworking(phase) != nil; {
		case len(e.Course.Only) > 0 && !slices.Contains(e.Course.Only, phase):
			continue
		case k.hasPhase(phase):
			has = append(has, phase)
			continue
		case reworking:
			sentBack = append(sentBack, phase)
		default:
			lacking = append(lacking, phase)
		}
		c.Missing = append(c.Missing, phase)
	}
	unapproved := slices.IndexFunc(e.Phases, func(p session.PhaseStatus) bool { return p.Status == session.AwaitingApproval })
	if len(c.Missing) == 0 && (unapproved < 0 || e.Status.Status.Closed()) {
		return c
	}
	c.Whole = false
	c.Part = fmt.Sprintf("%d of %s", len(has), textfmt.Count(len(has)+len(c.Missing), "phase"))
	if len(has) > 0 {
		c.Part += " (" + textfmt.FirstOf(has, 5) + ")"
	}
	verb := "are"
	if len(has) == 1 {
		verb = "is"
	}
	c.Reason = fmt.Sprintf("session %s %s and its result is incomplete: %s %s in its newest checkpoint", k.Session,
		statePhrase(e.Status.Status), c.Part, verb)
	if unapproved >= 0 {
		c.Reason += fmt.Sprintf("; phase %s is not approved", e.Phases[unapproved].Name)
	}
	if len(sentBack) > 0 {
		c.Reason += fmt.Sprintf("; %s sent back and not redone", wasOrWere(sentBack))
	}
	if len(lacking) > 0 {
		c.Reason += fmt.Sprintf("; %s not done", wasOrWere(lacking))
	}
	return c
}

// hasPhase reports whether a checkpoint has the work of a whole phase. Work that a person skipped
// counts as done.
func (k kept) hasPhase(phase string) bool {
	return !slices.ContainsFunc(k.team.Assignments(), func(id spec.AssignmentID) bool {
		return id.Phase == phase && !slices.ContainsFunc(k.Assignments,
			func(a session.CheckpointAssignment) bool { return a.AssignmentID == id }) && !k.settled(id)
	})
}

// settled reports whether the last answer of a person on an assignment, since it was
// last sent back, was to skip it.
func (k kept) settled(id spec.AssignmentID) bool {
	for _, a := range slices.Backward(k.Answers) {
		if a.Phase == id.Phase && a.Persona == id.Persona {
			r := k.Reworking(id.Phase)
			return a.CountsAsDone && (r == nil || r.At.Before(a.At))
		}
	}
	return false
}

// statePhrase is a session's state as the predicate of a sentence.
func statePhrase(s session.State) string {
	switch s {
	case session.Failed:
		return "has failed"
	case session.WasCancelled:
		return "is cancelled"
	case session.HelpIsNeeded, session.AwaitingApproval:
		return "waits for a person"
	case "":
		return "has an unknown state"
	default:
		return "has not ended"
	}
}

func wasOrWere(names []string) string {
	if len(names) == 1 {
		return names[0] + " was"
	}
	return safetext.Clip(strings.Join(names[:len(names)-1], ", ")+" and "+names[len(names)-1], 200) + " were"
}
