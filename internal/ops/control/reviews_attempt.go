package control

import (
	"context"
	"fmt"
	"strings"

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

// attemptDiff is the changes of an attempt. Of a failed attempt the store has only the patch, which
// may be cut.
func (r Reviews) attemptDiff(ctx context.Context, in DiffInput) (Diff, error) {
	doc := Diff{Session: in.Session, Phase: in.Attempt.Phase, Files: []ChangedFile{}}
	s, key, err := r.inStore(ctx, in.Session)
	if err != nil {
		return doc, err
	}
	none := notFoundf("session %s has no attempt %s", in.Session, textfmt.Shorten(in.Attempt.String(), 200))
	record, err := s.State.Record(ctx, state.Assignment{Key: key, AssignmentID: in.Attempt.AssignmentID})
	if err != nil {
		return doc, err
	}
	for _, round := range record.Rounds {
		if round.Pass != in.Attempt.Pass || round.Round != in.Attempt.Round {
			continue
		}
		before, after := treeSide{name: "the input of " + in.Attempt.AssignmentID.String()}, treeSide{name: "attempt " + in.Attempt.String()}
		for _, failed := range round.Attempts {
			if failed.Attempt == in.Attempt.Attempt {
				after.tree = failed.Left
				doc.put(DiffInput{}, before, after)
				return doc, r.addText(ctx, in, &doc, failed.Diff)
			}
		}
		if res := round.Result; res != nil && (round.Supplied || res.Attempts == in.Attempt.Attempt) {
			before.tree, after.tree = res.Input, res.Output
			doc.put(in, before, after)
			return doc, r.compare(ctx, in, &doc)
		}
		if len(round.Attempts)+1 == in.Attempt.Attempt {
			return doc, conflictf(in.Session, "attempt %s has not ended; its changes are known when it has", in.Attempt)
		}
	}
	return doc, none
}

// addText adds the files of a stored patch.
func (r Reviews) addText(ctx context.Context, in DiffInput, doc *Diff, patch spec.Digest) error {
	if patch == "" {
		return nil
	}
	data, err := r.Store.Content.Blob(ctx, patch)
	if err != nil {
		return err
	}
	for _, f := range filesOf(string(data)) {
		wanted := len(in.Paths) == 0 || len(in.Paths) == 1 && in.Paths[0] == literal(f.Path)
		if wanted && !doc.add(in, f) {
			break
		}
	}
	return nil
}

// filesOf splits a patch by file. Text between the parts of two files belongs to the first one.
func filesOf(patch string) (files []ChangedFile) {
	const head = "diff --git "
	patch, had := strings.CutPrefix(patch, head)
	if !had {
		if patch == "" {
			return nil
		}
		return []ChangedFile{{Change: "changed", Diff: patch}}
	}
	for part := range strings.SplitSeq(patch, "\n"+head) {
		f := ChangedFile{Change: "changed", Diff: head + strings.TrimSuffix(part, "\n") + "\n"}
		f.Path, _, _ = strings.Cut(part, "\n")
		if n := len(f.Path); n > len("a/ b/") && n%2 == 1 && f.Path[0] != '"' { // both names are equal except for a/ and b/
			f.Path = f.Path[len("a/") : n/2]
		}
		f.count(part)
		files = append(files, f)
	}
	return files
}

// count reads a part of a patch line by line.
func (f *ChangedFile) count(part string) {
	inside := false
	for line := range strings.Lines(part) {
		switch {
		case strings.HasPrefix(line, "@@"):
			inside = true
		case inside && strings.HasPrefix(line, "+"):
			f.Added++
		case inside && strings.HasPrefix(line, "-"):
			f.Removed++
		case inside:
		case strings.HasPrefix(line, "new file mode"):
			f.Change = "added"
		case strings.HasPrefix(line, "deleted file mode"):
			f.Change = "removed"
		case strings.HasPrefix(line, "Binary files"):
			f.Binary = true
		}
	}
}
