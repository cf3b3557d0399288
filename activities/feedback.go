package activities

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.temporal.io/sdk/activity"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// feedback returns the feedback for the attempt: the failure of an earlier attempt or of the
// merge, the reasons why its work or a phase that it depends on was sent back, and a person's
// note. The reasons are repeated until the work is accepted.
func (a *attempt) feedback(ctx context.Context, s start) (*session.Feedback, error) {
	f, err := a.previousFailure(ctx, s)
	if err != nil {
		return nil, err
	}
	switch {
	case a.in.Rework == nil:
	case f == nil:
		f = a.sentBack(ctx, s)
	default:
		f.SentBack = sentBackText(a.in)
	}
	if a.in.Note == "" {
		return f, nil
	}
	if f == nil {
		f = &session.Feedback{}
	}
	f.Note = a.in.Note
	return f, nil
}

// previousFailure describes the previous failure; nil: there was none.
func (a *attempt) previousFailure(ctx context.Context, s start) (*session.Feedback, error) {
	if s.failure == nil {
		if a.merge.Category == "" {
			return nil, nil
		}
		f := session.FeedbackOn(&a.merge.Failure)
		if a.merge.Sides != "" {
			f.Advice = "Merge the versions in " + session.MergeDir +
				". If one version is right as it is, name it in the result's field kept, with the reason."
		}
		return f, nil
	}
	told := a.firstReport(*s.failure)
	feedback := session.FeedbackOn(&told.Failure)
	feedback.Kept = s.kept
	if told.Diff != "" {
		diff, err := a.Files.Blob(ctx, told.Diff)
		if err == nil {
			feedback.Diff = string(diff)
		}
	}
	return feedback, nil
}

// firstReport returns the first report of the same failure in the passes whose answers the attempt may use: of the same
// attempt, on the same files. The output of a check may contain times and paths. With another text the
// next attempt's requests would differ, and stored answers would be paid for again.
func (a *attempt) firstReport(t tried) session.AttemptReport {
	for _, round := range a.rows.rounds() {
		if round.Pass < t.answersFrom || round.Round != int(t.key.Round) {
			continue
		}
		for _, before := range round.Attempts {
			if before.Attempt == int(t.key.Attempt) && before.Files == t.report.Files &&
				before.Failure.Category == t.report.Failure.Category {
				return before
			}
		}
	}
	return t.report
}

// formerWork is what the assignment had left before its phase's work was sent back,
// on the same input; empty where it starts from its input like any other. Files
// that are lost are no reason not to do the work again.
func (a *attempt) formerWork(ctx context.Context) spec.Digest {
	if a.in.Rework == nil || a.in.Rework.To != a.in.Phase || a.in.Integrating {
		return ""
	}
	was, ok := a.session.undone(a.in.AssignmentID)
	if !ok || was.Delta == "" || was.Input != a.in.Input {
		return ""
	}
	steps := []session.Step{{By: a.in.AssignmentID, Work: was.Work}}
	if phase, _ := a.session.team.Phase(a.in.Phase); phase.Solo() { // else it was made on others' work, too
		on := map[int]bool{}
		for i, w := range was.Integrated {
			on[i] = true
			steps = append(steps, session.Step{By: a.in.AssignmentID, Work: w, On: maps.Clone(on)})
		}
	}
	folded, err := fromStore(ctx, a.exec.retryStore, func() (session.Folded, error) { return a.Files.Fold(ctx, a.in.Input, steps) })
	if err != nil {
		activity.GetLogger(ctx).Warn("the work that was sent back is lost; it starts from the input", "error", err)
		return ""
	}
	if folded.Manifest == a.in.Input {
		return ""
	}
	return folded.Manifest
}

// undone returns an assignment's work from before its own phase was last sent back.
func (s sessionContext) undone(id spec.AssignmentID) (session.CheckpointAssignment, bool) {
	for _, back := range slices.Backward(s.checkpoint.Reworks) {
		if back.To != id.Phase {
			continue
		}
		i := slices.IndexFunc(back.Undone, func(a session.CheckpointAssignment) bool { return a.AssignmentID == id })
		if i >= 0 {
			return back.Undone[i], true
		}
		return session.CheckpointAssignment{}, false
	}
	return session.CheckpointAssignment{}, false
}

// sentBack tells an attempt, where nothing else went wrong, that work was sent back:
// that of its own phase, or of one that it builds on.
func (a *attempt) sentBack(ctx context.Context, s start) *session.Feedback {
	f := session.FeedbackOn(&failures.Failure{Category: failures.Rejected, Message: sentBackSentence(a.in), Output: reasons(a.in)})
	switch {
	case a.in.Rework.To != a.in.Phase:
		f.Advice = "Your input files were fixed for these reasons. Do your work on them as they are now, and check whether the " +
			"reasons are resolved."
	case !s.former:
		f.Advice = "Your earlier work is not in the directory. Do it again on the files as they are now, and resolve the reasons."
	default:
		f.Kept = true
		diff, err := a.Files.UnifiedDiff(ctx, a.in.Input, s.files, session.MaxDiff)
		if err != nil {
			activity.GetLogger(ctx).Warn("the attempt does not get the earlier changes", "error", err)
		}
		f.Diff = a.exec.agents.Mask(diff)
	}
	return f
}

// sentBackSentence returns a sentence on who has sent the work back.
func sentBackSentence(in RoundInput) string {
	back := in.Rework
	work, since := "the work", ""
	if back.To != in.Phase {
		work, since = "the work of "+back.To, "; it was done again since"
	}
	if back.From == (spec.AssignmentID{}) {
		by := "a person"
		if back.By != "" {
			by = textfmt.Shorten(back.By, 80)
		}
		return by + " rejected " + work + since
	}
	times := ""
	if 0 < back.Count && back.Count <= back.Of { // beyond that a person has decided so
		times = fmt.Sprintf(" (%d of %d)", back.Count, back.Of)
	}
	return back.From.String() + " sent " + work + " back" + times + since
}

// reasons lists what the work was sent back for, a line each.
func reasons(in RoundInput) string {
	var b strings.Builder
	for _, reason := range in.Rework.Reasons {
		fmt.Fprintf(&b, "- %s\n", strings.TrimSpace(reason))
	}
	return b.String()
}

// sentBackText returns the sentence and the reasons.
func sentBackText(in RoundInput) string { return sentBackSentence(in) + ":\n" + reasons(in) }

// decisions are those of a phase's work and of all that the phase builds on. Where that is
// all work of the checkpoint, the checkpoint has merged it.
func (g mergeBase) decisions(c session.Checkpoint, phase string,
	done map[spec.AssignmentID]session.CheckpointAssignment,
) map[string]string {
	given, above := g.given, g.team.Ancestors(phase)
	if covers(above, c.Assignments) {
		given, above = c.Decisions, nil
	}
	decisions, _ := session.MergeDecisions(given, session.Steps(g.team, append(above, phase), done))
	return decisions
}

// decisions returns the decisions that are passed to the attempt.
func (a *attempt) decisions() map[string]string {
	base := mergeBase{team: a.session.team, given: a.session.checkpoint.Given}
	return base.decisions(a.session.checkpoint, a.in.Phase, a.session.done(a.in.Beside.List))
}

// maxLeftOutTold is how many sentences of a brief say what was left out of results.
const maxLeftOutTold = 20

// leftOut says what was left out of the assignment's earlier work, and of the work that it builds on: an agent that expects
// these files would look for them.
func (a *attempt) leftOut(s start) []string {
	var all []string
	if was, ok := a.session.undone(a.in.AssignmentID); s.failure != nil {
		all = said(all, "the last attempt", a.firstReport(*s.failure).LeftOut)
	} else if ok {
		all = said(all, "the work before", was.LeftOut)
	}
	done := a.session.done(a.in.Beside.List)
	phases := append(a.session.team.Ancestors(a.in.Phase), a.in.Phase)
	for _, id := range a.session.team.Assignments() {
		if slices.Contains(phases, id.Phase) {
			all = said(all, id.String(), done[id].LeftOut)
		}
	}
	if more := len(all) - maxLeftOutTold; more > 0 {
		all = append(all[:maxLeftOutTold], fmt.Sprintf("and %d more", more))
	}
	return all
}

// said adds notes of somebody's work.
func said(all []string, of string, notes []string) []string {
	for _, note := range notes {
		all = append(all, of+": "+note)
	}
	return all
}

// mayNotSendBack returns the failure of an attempt that sends work back although it is not
// permitted; nil: it is.
func mayNotSendBack(t spec.Team, in RoundInput) *failures.Failure {
	switch {
	case maySendBack(t, in) != nil:
		return nil
	case in.Integrating:
		return failures.Failf(failures.InvalidOutput,
			"the result has sends_back, but this round fixes the merged work of phase %s; fix it, or report an error", in.Phase)
	}
	return failures.Failf(failures.InvalidOutput,
		"the result has sends_back, but phase %s has no sends_back in the team file; do the work, or report an error", in.Phase)
}

// maySendBack returns the phase to which the agent may send work back; nil: to none.
func maySendBack(t spec.Team, in RoundInput) *session.MaySendBack {
	phase, _ := t.Phase(in.Phase)
	if phase.SendsBack == nil || in.Integrating {
		return nil
	}
	return &session.MaySendBack{To: phase.SendsBack.To, Left: in.SendBacksLeft}
}
