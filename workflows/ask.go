package workflows

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/team"
)

// request is what the session waits for a person with.
type request struct {
	team.HelpRequest
	// left names the files that a phase which wants approval has left.
	left string
	// answer is a person's; nil: none has come yet.
	answer *team.Answer
	// told: people outside have heard of the request.
	told bool
	// own: it is about the assignment's own work, and not about how that fits
	// together with others'.
	own bool
	// heeded: the session has done as the answer says, and everybody can see it.
	heeded bool
	// over: nobody waits for an answer any more.
	over bool
	// wake tells that the answer is not needed any more; day is ready when a
	// daily budget may pay again. Either may be nil.
	wake func() bool
	day  func(ctx workflow.Context) workflow.Future
}

// answered is the error of a round that ends because a person has said what
// becomes of the assignment.
type answered struct{ team.Answer }

func (a *answered) Error() string { return fmt.Sprintf("answered by %s: %s", a.By, a.Verb) }

// takeAnswers lets a person answer the session's requests: by an update, which
// answers, or by a signal, which needs no worker to be at hand.
func (s *session) takeAnswers(ctx workflow.Context) error {
	signals := workflow.GetSignalChannel(ctx, ResolveUpdate)
	workflow.Go(ctx, func(ctx workflow.Context) {
		if s.awaitAdmission(ctx) != nil {
			return
		}
		for {
			var a team.Answer
			signals.Receive(ctx, &a)
			if err := s.answerable(a); err != nil {
				workflow.GetLogger(ctx).Warn("a signal with an answer is ignored", "error", err)
				continue
			}
			s.accept(ctx, a)
		}
	})
	return workflow.SetUpdateHandlerWithOptions(ctx, ResolveUpdate,
		func(ctx workflow.Context, a team.Answer) (team.Answer, error) {
			r := s.accept(ctx, a)
			patient, _ := workflow.NewDisconnectedContext(ctx) // a session that is cancelled says so, too
			if err := workflow.Await(patient, func() bool { return r.over }); err != nil {
				return *r.answer, err
			}
			if !r.heeded {
				return *r.answer, notAwaited("request %s was taken back before its answer was heeded: the session ends, or phase %s is done again", r.ID, r.Phase)
			}
			return *r.answer, nil
		},
		workflow.UpdateHandlerOptions{
			Validator: s.answerable,
			Description: `Answers a session that waits for a person. Copy the answer from the tab User Metadata, Current Details: ` +
				`{"request": "design.architect.1", "action": "retry", "note": "what to do differently", "by": "your name"}. ` +
				`For help, the action is retry, skip or abort; for an approval, approve or reject.`,
		})
}

// answerable refuses an answer that nobody waits for, or that is none.
func (s *session) answerable(a team.Answer) error {
	r := s.find(a.Request)
	switch {
	case !s.admitted():
		return notAwaited(notAdmittedYet)
	case a == (team.Answer{}):
		return notAwaited("the answer is empty; %s. A form of the Web UI that is opened again sends nothing of what it shows: load the page again, and paste the answer", s.waitsFor())
	case r == nil:
		return notAwaited("the session does not wait for an answer to request %q: %s", team.Shorten(a.Request, 200), s.waitsFor())
	case r.answer != nil:
		return notAwaited("request %s is answered already: %s, by %s", r.ID, r.answer.Verb, r.answer.By)
	case !s.awaits(r):
		return notAwaited("the session ends, and waits for an answer to request %s no more", r.ID)
	case !r.Takes(a.Verb):
		return notAwaited("request %s cannot be answered with action %q; it takes %s", r.ID, team.Shorten(string(a.Verb), 40), list(r.Answers))
	case len(a.Note) > team.MaxNote:
		return notAwaited("the note has %d bytes; at most %d are allowed: put longer texts into a file, and supply it", len(a.Note), team.MaxNote)
	case len(a.By) > team.MaxMessage:
		return notAwaited("by has %d bytes; at most %d are allowed", len(a.By), team.MaxMessage)
	case a.Verb == team.Rejecting && strings.TrimSpace(a.Note) == "":
		return notAwaited("a rejection needs a note: it is what the personas are told")
	case a.Verb == team.Supplying && !a.Files.Valid():
		return notAwaited("files names no manifest; supply them with `maestro resolve %s supply PATH`, which stores them", s.status.Session)
	}
	return nil
}

func notAwaited(format string, args ...any) error {
	return temporal.NewApplicationErrorWithOptions(fmt.Sprintf(format, args...), NotAwaited, temporal.ApplicationErrorOptions{NonRetryable: true})
}

// find returns the open request of an id; nil: there is none.
func (s *session) find(id string) *request {
	i := slices.IndexFunc(s.open, func(r *request) bool { return r.ID == id })
	if i < 0 {
		return nil
	}
	return s.open[i]
}

// awaits tells whether an answer to a request would still be heeded.
func (s *session) awaits(r *request) bool {
	return r != nil && r.answer == nil && !r.over && !s.stopping()
}

// waitsFor says which requests are open.
func (s *session) waitsFor() string {
	var open []string
	for _, r := range s.open {
		if s.awaits(r) {
			open = append(open, fmt.Sprintf("%s (%s)", r.ID, list(r.Answers)))
		}
	}
	if len(open) == 0 {
		return "it waits for none"
	}
	return "it waits for " + strings.Join(open, ", ")
}

func list(verbs []team.Verb) string {
	var words []string
	for _, v := range verbs {
		words = append(words, string(v))
	}
	return strings.Join(words, ", ")
}

// accept takes an answer; who asked wakes up.
func (s *session) accept(ctx workflow.Context, a team.Answer) *request {
	r := s.find(a.Request)
	a.Phase, a.Persona, a.At = r.Phase, r.Persona, workflow.Now(ctx).UTC()
	if a.By == "" {
		a.By = "somebody who gave no name"
	}
	r.answer = &a
	return r
}

// newRequest opens a request, which shows in the status.
func (s *session) newRequest(ctx workflow.Context, h team.HelpRequest) *request {
	who := h.Persona
	if h.Kind == team.ForApproval {
		who = string(team.ForApproval)
	}
	base := h.Phase + "." + who
	s.asked[base]++
	h.ID = fmt.Sprintf("%s.%d%s", base, s.asked[base], s.suffix(ctx))
	h.Since = workflow.Now(ctx).UTC()
	if h.Attempts == nil {
		h.Attempts = []team.AttemptFailure{}
	}
	if limit := s.team.Help.GiveUpAfter.Std(); limit > 0 && h.Kind != team.ForApproval {
		h.Until = h.Since.Add(limit)
	}
	h.Command = s.command(h)
	r := &request{HelpRequest: h}
	r.Advice = s.howToAnswer(r)
	s.open = append(s.open, r)
	s.listRequests()
	return r
}

// suffix keeps answers to a request of one incarnation, or of a run that was
// reset, from being taken for answers to the same request of another.
func (s *session) suffix(ctx workflow.Context) string {
	suffix := ""
	if s.status.Incarnation > 1 {
		suffix = fmt.Sprintf("-%d", s.status.Incarnation)
	}
	info := workflow.GetInfo(ctx)
	if info.OriginalRunID != info.WorkflowExecution.RunID {
		suffix += "-" + info.WorkflowExecution.RunID[:min(8, len(info.WorkflowExecution.RunID))]
	}
	return suffix
}

// listRequests brings the status up to date with the open requests.
func (s *session) listRequests() {
	s.status.Help = []team.HelpRequest{}
	for _, r := range s.open {
		s.status.Help = append(s.status.Help, r.HelpRequest)
	}
}

// forget takes a request out of the status.
func (s *session) forget(r *request) {
	s.open = slices.DeleteFunc(s.open, func(other *request) bool { return other == r })
	s.listRequests()
}

// withdraw does so with a request that nobody needs to answer any more.
func (s *session) withdraw(ctx workflow.Context, r *request) {
	r.over = true
	s.forget(r)
	if r.told {
		s.tell(ctx, team.WentOn, &r.HelpRequest, nil)
	}
}

// ask parks an assignment until a person has answered, or until an answer is not
// needed any more: nil then. Everything that does not build on the assignment goes
// on meanwhile. errNotBegun says that the session ends: nobody has answered in
// time, or somebody has aborted it, or something else has failed for good.
func (s *session) ask(ctx workflow.Context, a *assignment, r *request) (*team.Answer, error) {
	defer func() { r.over = true }()
	if err := s.standBy(ctx, a, team.HelpIsNeeded, nil); err != nil {
		return nil, s.unasked(ctx, r, err)
	}
	if !s.stopping() {
		r.told = true
		s.tell(ctx, team.HelpAsked, &r.HelpRequest, nil)
	}
	if err := s.untilAnswered(ctx, a, r); err != nil {
		return nil, s.unasked(ctx, r, err)
	}
	answer := r.answer
	if answer != nil && answer.Verb == team.Aborting {
		return nil, s.abort(ctx, a, r)
	}
	s.forget(r)
	if answer != nil {
		answer.Settles = answer.Verb == team.Skipping && r.own
	}
	err := s.standBy(ctx, a, team.Running, answer)
	if err == nil {
		r.heeded = true
		s.tell(ctx, team.WentOn, &r.HelpRequest, answer)
	}
	return answer, err
}

// unasked takes a request back whose phase is to be done again, and leaves that of
// a session that ends: its end says for what nobody has come.
func (s *session) unasked(ctx workflow.Context, r *request, err error) error {
	if temporal.IsCanceledError(err) && s.recalled[r.Phase] {
		s.withdraw(ctx, r)
	}
	return err
}

// untilAnswered waits for as long as the team lets a parked session wait.
func (s *session) untilAnswered(ctx workflow.Context, a *assignment, r *request) error {
	waiting, cancel := workflow.WithCancel(ctx)
	defer cancel()
	timer := workflow.NewTimerWithOptions(waiting, s.team.Help.GiveUpAfter.Std(), workflow.TimerOptions{
		// The timeline is the first that a person sees of a session in the Web UI.
		Summary: team.Shorten(fmt.Sprintf("HELP NEEDED: %s waits for a person. The tab User Metadata says what to do", a.AssignmentID), 200),
	})
	day := never(ctx)
	if r.day != nil {
		day = r.day(waiting)
	}
	err := workflow.Await(ctx, func() bool {
		return r.answer != nil || r.wake != nil && r.wake() || s.stopping() || timer.IsReady() || day.IsReady()
	})
	switch {
	case err != nil:
		return err
	case s.stopping():
		return errNotBegun
	case r.answer != nil || r.wake != nil && r.wake():
		return nil
	case day.IsReady():
		return day.Get(ctx, nil)
	}
	s.end(ctx, a, r, fmt.Sprintf("nobody has answered within %s", s.team.Help.GiveUpAfter))
	return errNotBegun
}

// never is a future that is not ready.
func never(ctx workflow.Context) workflow.Future {
	future, _ := workflow.NewFuture(ctx)
	return future
}

// end fails the session because of a request.
func (s *session) end(ctx workflow.Context, a *assignment, r *request, why string) {
	s.failing, s.ended, s.endedBy = true, r, why
	s.note(ctx, a, team.Failed)
	s.setPhase(a.Phase, team.Failed)
}

// abort ends the session at a person's word, which is kept.
func (s *session) abort(ctx workflow.Context, a *assignment, r *request) error {
	why := "aborted by " + r.answer.By
	if r.answer.Note != "" {
		why += ": " + r.answer.Note
	}
	r.heeded = true
	s.end(ctx, a, r, why)
	if err := s.keep(ctx, "", r.answer); err != nil {
		return err
	}
	return errNotBegun
}

// next is what becomes of an assignment after a person was asked.
type next int

// What becomes of it.
const (
	// itEnds: the session ends, or the phase is done again.
	itEnds next = iota
	// itTriesAgain: it has new rounds, or a person's files to look at.
	itTriesAgain
	// itIsSettled: it counts as done, without work.
	itIsSettled
)

// askFor asks a person what becomes of an assignment that has failed for good. A
// team that does not want to be asked has its session end.
func (s *session) askFor(ctx workflow.Context, a *assignment, f team.Failure, attempts []team.AttemptFailure) (next, error) {
	h := team.HelpRequest{
		Kind: team.ForHelp, Phase: a.Phase, Persona: a.Persona, Category: f.Category, Message: f.Message, Suggestion: f.Remedy(),
		Attempts: append([]team.AttemptFailure{}, attempts...), Usage: a.Usage,
	}
	if err := ctx.Err(); err != nil { // the phase is done again, or the session is cancelled
		return itEnds, err
	}
	if s.team.Help.Mode != team.HelpAsk || s.stopping() {
		s.endAtOnce(ctx, h)
		return itEnds, nil
	}
	h.Answers = answersForWork()
	r := s.newRequest(ctx, h)
	r.own = a.ownWork()
	answer, err := s.ask(ctx, a, r)
	if err != nil {
		return itEnds, unlessOver(err)
	}
	return s.follow(ctx, a, *answer), nil
}

// unlessOver leaves out the error that only says that the session ends.
func unlessOver(err error) error {
	if errors.Is(err, errNotBegun) {
		return nil
	}
	return err
}

// answersForWork is what a person may say about an assignment that does not get on.
func answersForWork() []team.Verb {
	return []team.Verb{team.Retrying, team.Skipping, team.Supplying, team.Aborting}
}

// endAtOnce fails the session, which does not wait for a person: because its team does
// not want it to, or because it ends already.
func (s *session) endAtOnce(ctx workflow.Context, h team.HelpRequest) {
	r := s.newRequest(ctx, h)
	r.Until = time.Time{} // nothing is left to answer
	s.listRequests()
	s.setPhase(h.Phase, team.Failed)
	s.failing = true
	if s.ended == nil {
		s.ended = r
	}
}

// follow does with an assignment what a person has said.
func (s *session) follow(ctx workflow.Context, a *assignment, answer team.Answer) next {
	a.supplied, a.suppliedBy = "", ""
	switch answer.Verb {
	case team.Supplying:
		a.supplied, a.suppliedBy = answer.Files, answer.By
		return itTriesAgain
	case team.Skipping:
		a.skip(s.nothing)
		s.note(ctx, a, a.Status)
		return itIsSettled
	default:
		a.again(answer.Note)
		s.notes[a.String()] = answer.Note // it stands if the work is sent back later
		return itTriesAgain
	}
}

// standBy tells everybody that an assignment parks, or goes on, at a person's
// answer if there is one.
func (s *session) standBy(ctx workflow.Context, a *assignment, state team.State, answer *team.Answer) error {
	s.note(ctx, a, state)
	s.standing()
	s.publish(ctx)
	s.remember(ctx)
	return s.keep(ctx, "", answer)
}

// keep has the store know of the open requests, that the session goes on after a
// phase if one is named, and the answer at which it goes on if there is one.
func (s *session) keep(ctx workflow.Context, phase string, answer *team.Answer) error {
	if err := s.boundary.Lock(ctx); err != nil {
		return err
	}
	defer s.boundary.Unlock()
	in := activities.MarkInput{
		Boundary:    s.step(ctx),
		Incarnation: s.status.Incarnation, Phase: phase, Help: s.status.Help, Reason: s.status.Reason, Answer: answer, Head: s.head,
	}
	var out activities.Marked
	err := s.atBoundary(ctx, activities.MarkName, in, &out)
	if err == nil && out.Head != "" {
		s.head, s.status.Checkpoint, s.nothing = out.Head, out.Head, out.Nothing
	}
	return err
}
