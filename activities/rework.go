package activities

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.temporal.io/sdk/activity"

	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// formerWork is what the assignment had left before its phase's work was sent back,
// on the same input; empty where it starts from its input like any other. Files
// that are lost are no reason not to do the work again.
func (r *round) formerWork(ctx context.Context) spec.Digest {
	if r.in.Rework == nil || r.in.Rework.To != r.in.Phase || r.in.Integrating {
		return ""
	}
	was, ok := r.session.undone(r.in.AssignmentID)
	if !ok || was.Delta == "" || was.Input != r.in.Input {
		return ""
	}
	steps := []session.Step{{By: r.in.AssignmentID, Work: was.Work}}
	if phase, _ := r.session.team.Phase(r.in.Phase); phase.Solo() { // else it was made on others' work, too
		on := map[int]bool{}
		for i, w := range was.Integrated {
			on[i] = true
			steps = append(steps, session.Step{By: r.in.AssignmentID, Work: w, On: maps.Clone(on)})
		}
	}
	var folded session.Folded
	err := r.retryStore(ctx, func() (err error) {
		folded, err = r.Files.Fold(ctx, r.in.Input, steps)
		return err
	})
	if err != nil {
		activity.GetLogger(ctx).Warn("the work that was sent back is lost; it starts from the input", "error", err)
		return ""
	}
	if folded.Manifest == r.in.Input {
		return ""
	}
	return folded.Manifest
}

// undone is an assignment's work as it was when its own phase was last sent back.
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
func (r *round) sentBack(ctx context.Context, s start) *session.Feedback {
	f := session.FeedbackOn(&failures.Failure{Category: failures.Rejected, Message: r.saysSentBack(), Output: r.reasons()})
	switch {
	case r.in.Rework.To != r.in.Phase:
		f.Advice = "Your input files were fixed for these reasons. Do your work on them as they are now, and check whether the reasons are resolved."
	case !s.former:
		f.Advice = "Your earlier work is not in the directory. Do it again on the files as they are now, and resolve the reasons."
	default:
		f.Kept = true
		diff, err := r.Files.UnifiedDiff(ctx, r.in.Input, s.files, session.MaxDiff)
		if err != nil {
			activity.GetLogger(ctx).Warn("the attempt does not get the earlier changes", "error", err)
		}
		f.Diff = r.Agents.Mask(diff)
	}
	return f
}

// saysSentBack is a sentence on who has sent the work back.
func (r *round) saysSentBack() string {
	back := r.in.Rework
	work, since := "the work", ""
	if back.To != r.in.Phase {
		work, since = "the work of "+back.To, "; it was done again since"
	}
	if back.From == (spec.AssignmentID{}) {
		by := "a person"
		if back.By != "" {
			by = textfmt.Shorten(back.By, 80)
		}
		return by + " rejected " + work + since
	}
	pass := ""
	if 0 < back.Pass && back.Pass <= back.Of { // beyond that a person has wanted it so
		pass = fmt.Sprintf(" (%d of %d)", back.Pass, back.Of)
	}
	return back.From.String() + " sent " + work + " back" + pass + since
}

// reasons lists what the work was sent back for, a line each.
func (r *round) reasons() string {
	var b strings.Builder
	for _, reason := range r.in.Rework.Reasons {
		fmt.Fprintf(&b, "- %s\n", strings.TrimSpace(reason))
	}
	return b.String()
}

// whySentBack is all of that in one text.
func (r *round) whySentBack() string { return r.saysSentBack() + ":\n" + r.reasons() }
