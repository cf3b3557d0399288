package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

// feedback tells the attempt what went wrong before, in an attempt of its own or at
// the merge; that its work, or what it builds on, was sent back; and what a person
// says. It has the reasons for which work was sent back until the work is accepted.
func (a *attempt) feedback(ctx context.Context, s start) (*session.Feedback, error) {
	f, err := a.wentWrong(ctx, s)
	if err != nil {
		return nil, err
	}
	switch {
	case a.in.Rework == nil:
	case f == nil:
		f = a.sentBack(ctx, s)
	default:
		f.SentBack = whySentBack(a.in)
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

// wentWrong describes the failure before; nil if there was none.
func (a *attempt) wentWrong(ctx context.Context, s start) (*session.Feedback, error) {
	if s.failure == nil {
		if a.in.Feedback == "" {
			return nil, nil
		}
		f, err := readFeedback(ctx, a.files, a.in.Feedback)
		return session.FeedbackOn(f), err
	}
	rounds, _, _ := a.log.rounds()
	told := asBefore(rounds, *s.failure)
	feedback := session.FeedbackOn(&told.Failure)
	feedback.Kept = s.kept
	if told.Diff != "" {
		diff, err := a.files.Blob(ctx, told.Diff)
		if err == nil {
			feedback.Diff = string(diff)
		}
	}
	return feedback, nil
}

// asBefore is a failure in the words in which a run of the session first had it:
// the same attempt, on the same files, failing in the same way. What a check
// prints may name times and paths; told in other words, the next attempt would
// request anew what is paid for.
func asBefore(rounds []session.RoundRecord, t tried) session.AttemptReport {
	for _, round := range rounds {
		if round.Epoch != t.key.Epoch || round.Round != t.key.Round {
			continue
		}
		for _, before := range round.Attempts {
			if before.Attempt == t.key.Attempt && before.Left == t.report.Left && before.Failure.Category == t.report.Failure.Category {
				return before
			}
		}
	}
	return t.report
}

// readFeedback reads a failure that [writeFeedback] has stored.
func readFeedback(ctx context.Context, files Files, blob spec.Digest) (*failures.Failure, error) {
	data, err := files.Blob(ctx, blob)
	if err != nil {
		return nil, fmt.Errorf("read feedback: %w", err)
	}
	var f failures.Failure
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("feedback: %w: %w", session.ErrCorrupt, err)
	}
	return &f, nil
}

// writeFeedback stores a failure with its output, which histories must not hold.
func writeFeedback(ctx context.Context, files Files, f failures.Failure) (spec.Digest, error) {
	data, err := json.Marshal(f)
	if err != nil {
		return "", errors.Join(session.ErrCorrupt, err)
	}
	return files.PutBlob(ctx, data)
}
