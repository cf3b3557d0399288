package control

import (
	"context"
	"fmt"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// AttemptRef names an attempt as the documents of `logs` do.
type AttemptRef struct {
	spec.AssignmentID
	// Pass counts how often the assignment was started over, Round and Attempt within it; each
	// from 1.
	Pass    int `json:"pass"`
	Round   int `json:"round"`
	Attempt int `json:"attempt"`
}

// String is the attempt's name for people.
func (a AttemptRef) String() string {
	return fmt.Sprintf("%s, pass %d, round %d, attempt %d", a.AssignmentID, a.Pass, a.Round, a.Attempt)
}

// attemptDiff is the changes of an attempt. What a failed attempt left is compared with the last input that its assignment had
// until then: supplied files that were refused have none of their own.
func (r Reviews) attemptDiff(ctx context.Context, in DiffInput) (Diff, error) {
	doc := Diff{Session: in.Session, Phase: in.Attempt.Phase, Files: []ChangedFile{}}
	s, key, err := r.InStore(ctx, in.Session)
	if err != nil {
		return doc, err
	}
	record, err := s.State.Record(ctx, state.Assignment{Key: key, AssignmentID: in.Attempt.AssignmentID})
	if err != nil {
		return doc, err
	}
	before, after := treeSide{name: "the input of " + in.Attempt.AssignmentID.String()},
		treeSide{name: "attempt " + in.Attempt.String()}
	for _, round := range record.Rounds {
		if round.Basis != nil {
			before.tree = round.Basis.Input
		}
		if round.Pass != in.Attempt.Pass || round.Round != in.Attempt.Round {
			continue
		}
		for _, failed := range round.Attempts {
			if failed.Attempt != in.Attempt.Attempt {
				continue
			}
			after.tree = failed.Files
			doc.put(before, after)
			if before.tree == "" || after.tree == "" { // its files were not to be kept
				return doc, nil
			}
			return doc, r.compare(ctx, in, &doc)
		}
		if res := round.Result; res != nil && (round.Supplied || res.Attempts == in.Attempt.Attempt) {
			before.tree, after.tree = res.Input, res.Output
			doc.put(before, after)
			return doc, r.compare(ctx, in, &doc)
		}
		if len(round.Attempts)+1 == in.Attempt.Attempt {
			return doc, conflictf(in.Session, "attempt %s has not ended; its changes are known when it has", in.Attempt)
		}
	}
	return doc, notFoundf("session %s has no attempt %s", in.Session, textfmt.Shorten(in.Attempt.String(), 200))
}
