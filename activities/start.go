package activities

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

// start is what an attempt starts from: the failure table decides, by how the
// attempt before it failed. This is where healing begins.
type start struct {
	// files is the manifest that the directory is filled from. asLeft: it is
	// not filled, because the execution that was cut off has left it.
	files  spec.Digest
	asLeft bool
	// begun is when an earlier execution, which was cut off, has begun the attempt; zero:
	// none has.
	begun time.Time
	// continues: a conversation in the directory and HOME can continue.
	continues bool
	// first is the attempt with which the conversation began, and earlier are
	// the failed ones that it has gone through since, newest first: their paid
	// answers are this attempt's, too.
	first   session.CallKey
	earlier []session.CallKey
	// failure is what the conversation was begun after; nil: nothing. kept:
	// the directory has what that attempt left.
	failure *tried
	kept    bool
	// former: the directory has the assignment's work that was sent back.
	former bool
}

// from says in a word what the attempt starts from.
func (s start) from() failures.Start {
	switch {
	case s.continues || len(s.earlier) > 0:
		return failures.FromConversation
	case s.kept || s.former || s.asLeft:
		return failures.FromFiles
	}
	return failures.FromInput
}

// tried is a failed attempt and where it belongs.
type tried struct {
	key    session.CallKey
	report session.AttemptReport
}

// start decides what the attempt to come starts from.
func (r *round) start(ctx context.Context) start {
	s := start{files: r.in.Input, first: r.attemptKey(), begun: r.log.AttemptAt}
	history := r.tried()
	for _, last := range slices.Backward(history) {
		if !r.goesOn(last) {
			break
		}
		s.earlier = append(s.earlier, last.key)
		s.first = last.key
		history = history[:len(history)-1]
	}
	if files := r.formerWork(ctx); files != "" {
		s.files, s.former = files, true
	}
	continuable := r.continuable()
	if len(history) > 0 {
		s.failure = &history[len(history)-1]
		last := s.failure.report
		s.kept = r.keeps(ctx, last, continuable)
		if s.kept {
			s.files, s.former = last.Left, false
		}
	}
	if o := r.outage(); o != nil && o.Left && r.Agents.Offered(r.agent()).Conversation == "" {
		s.asLeft = true
	}
	if continuable {
		cutOff := r.log.Begun == len(r.log.Attempts)+1
		if begun, ok := r.inherits(); ok {
			cutOff, s.begun = true, begun
		}
		s.asLeft = cutOff
		s.continues = cutOff || s.kept || s.former && s.failure == nil
	}
	return s
}

// continuable reports whether there is a conversation in the assignment's directory
// that could continue.
func (r *round) continuable() bool {
	if r.Agents.Offered(r.agent()).Conversation != spec.InDirectory {
		return false
	}
	dir, err := r.Sessions.WorkDir(r.session.key, r.in.AssignmentID)
	return err == nil && r.Agents.Continuable(r.agent(), dir)
}

// inherits reports whether an earlier incarnation of the session was cut off in the
// middle of an attempt that this round, at its beginning, can continue with, and when that
// was begun.
func (r *round) inherits() (begun time.Time, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.log.Attempts) > 0 || r.log.Begun > 0 || r.in.Feedback != "" {
		return begun, false
	}
	for _, round := range slices.Backward(r.record.Rounds) {
		switch {
		case round.Key == r.key():
		case round.Key.Run == r.run():
			return begun, false // a round of this run has gone on with it already
		default:
			return round.AttemptAt, round.Result == nil && !round.GaveUp && round.Epoch == r.epoch() && round.Begun == len(round.Attempts)+1
		}
	}
	return begun, false
}

// goesOn reports whether the conversation of a failed attempt continues: one that the
// journal has, so that the agent goes through it again from its beginning. It does
// so in a later series, too: there was nothing wrong with the answers. Where a
// person has said something new, it is another conversation by itself.
func (r *round) goesOn(last tried) bool {
	return r.Agents.Offered(r.agent()).Conversation == spec.InJournal && last.report.Agent == r.agent() &&
		last.key.Epoch >= r.record.Began && failures.RuleFor(last.report.Failure.Category).Start == failures.FromConversation
}

// keeps reports whether the next attempt continues from the files that one has left.
// From the middle of work only who remembers what it was doing can continue.
func (r *round) keeps(ctx context.Context, last session.AttemptReport, continuable bool) bool {
	from := failures.RuleFor(last.Failure.Category).Start
	may := from == failures.FromFiles || from == failures.FromConversation && continuable
	return may && last.Left != "" && r.Files.Intact(ctx, last.Left) == nil
}

// tried lists the failed attempts since the assignment last succeeded: those of
// this round, of the failed rounds before it in its epoch, and of earlier epochs.
// What was found outside of them, at a seal, begins a new page, and what a person
// had supplied was no attempt. The same rounds in other runs are not before this
// one, nor are those of later epochs: it goes through them again.
func (r *round) tried() []tried {
	r.mu.Lock()
	defer r.mu.Unlock()
	var before []session.RoundRecord
search:
	for _, round := range slices.Backward(r.record.Rounds) {
		ofThisRun := round.Key.Run == r.run() && round.Epoch == r.epoch() && round.Round < r.in.Round
		switch {
		case round.Epoch >= r.epoch() && !ofThisRun:
			continue
		case round.Result != nil || r.in.Feedback != "":
			break search
		case !round.Supplied:
			before = append(before, round)
		}
	}
	var out []tried
	add := func(epoch, round int, attempts []session.AttemptReport) {
		for _, a := range attempts {
			out = append(out, tried{session.CallKey{Epoch: epoch, Round: round, Attempt: a.Attempt}, a})
		}
	}
	for _, round := range slices.Backward(before) {
		add(round.Epoch, round.Round, round.Attempts)
	}
	add(r.epoch(), r.in.Round, r.log.Attempts)
	return out
}

// epoch is the round's: that of the incarnation's beginning, and one more for
// every time that the assignment has begun afresh since. A session that was reset
// comes to the same ones again, whatever the record has seen by then.
func (r *round) epoch() int { return cmp.Or(r.record.Began, r.record.Epoch) + r.in.Series }

// settleEpochs fills in the epochs that the record does not know: where it was
// lost, the journal still tells of those that were paid for. It returns true if
// the incarnation's first one cannot be told from the journal later: the record has
// to say so before anything is paid.
func (r *round) settleEpochs(paid []budget.Call) (write bool) {
	highest, ofThisRun := max(r.record.Epoch, 1), 0
	for _, call := range paid {
		highest = max(highest, call.Key.Epoch)
		if call.Run == r.run() && (ofThisRun == 0 || call.Key.Epoch < ofThisRun) {
			ofThisRun = call.Key.Epoch
		}
	}
	if r.record.Began == 0 {
		r.record.Began = cmp.Or(ofThisRun, highest)
		write = r.in.Series > 0
	}
	r.record.Epoch = max(highest, r.epoch())
	return write
}

// attemptKey names the attempt under way.
func (r *round) attemptKey() session.CallKey {
	return session.CallKey{Epoch: r.epoch(), Round: r.in.Round, Attempt: len(r.log.Attempts) + 1}
}

// feedback tells the attempt what went wrong before, in an attempt of its own or at
// the seal; that its work, or what it builds on, was sent back; and what a person
// says. What the work was sent back for is told until the work is accepted.
func (r *round) feedback(ctx context.Context, s start) (*session.Feedback, error) {
	f, err := r.wentWrong(ctx, s)
	if err != nil {
		return nil, err
	}
	switch {
	case r.in.Rework == nil:
	case f == nil:
		f = r.sentBack(ctx, s)
	default:
		f.SentBack = r.whySentBack()
	}
	if r.in.Note == "" {
		return f, nil
	}
	if f == nil {
		f = &session.Feedback{}
	}
	f.Note = r.in.Note
	return f, nil
}

// wentWrong tells of the failure before; nil if there was none.
func (r *round) wentWrong(ctx context.Context, s start) (*session.Feedback, error) {
	if s.failure == nil {
		if r.in.Feedback == "" {
			return nil, nil
		}
		f, err := r.loadFeedback(ctx)
		return session.FeedbackOn(f), err
	}
	told := r.asBefore(*s.failure)
	feedback := session.FeedbackOn(&told.Failure)
	feedback.Kept = s.kept
	if told.Diff != "" {
		diff, err := r.Files.Blob(ctx, told.Diff)
		if err == nil {
			feedback.Diff = string(diff)
		}
	}
	return feedback, nil
}

// asBefore is a failure in the words in which a run of the session first had it:
// the same attempt, on the same files, failing in the same way. What a check
// prints may name times and paths; told in other words, the next attempt would
// ask anew what is paid for.
func (r *round) asBefore(t tried) session.AttemptReport {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, round := range r.record.Rounds {
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
