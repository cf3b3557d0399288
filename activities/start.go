package activities

import (
	"context"
	"slices"
	"time"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// tried is a failed attempt and its round.
type tried struct {
	key    state.AttemptKey
	report session.AttemptReport
	// basis is what it was based on.
	basis session.Basis
	// run is the run that ordered its pass, and answersFrom the first pass whose answers it could use.
	run, answersFrom int
}

// startFacts are the facts that decide the start of an attempt.
type startFacts struct {
	in RoundInput
	// basis is what the attempt is based on.
	basis session.Basis
	// of is the assignment. round is the round as it is now, and rounds are those before it.
	of     state.Assignment
	round  session.RoundRecord
	rounds []session.RoundRecord
	// firstRun is the first of the session's runs that continue each other as new.
	firstRun int
	// agent is the agent of the round, and conversation the place of its conversation.
	// continuable: the assignment's directory has one that can continue; otherwise stored
	// is one in the store that can.
	agent        string
	conversation spec.Conversation
	continuable  bool
	stored       *session.Conversation
	// outage is the outage of the agent; nil: there is none.
	outage *session.Outage
	// former is the manifest of the assignment's work that was sent back; empty: none was.
	former spec.Digest
	// intact reports whether the store has every file of a manifest.
	intact func(spec.Digest) bool
}

// findConversation looks for the conversation of the agent. The one in the assignment's directory
// is newer if it has continued from the stored one.
func (f *startFacts) findConversation(a *attempt) {
	dir, err := a.exec.dir.make()
	if err != nil {
		return
	}
	stored := a.rows.storedConversation()
	here, ok := a.exec.agents.Conversation(f.agent, dir)
	switch {
	case ok && here.Home == session.HomeOf(stored):
		f.continuable = true
	case session.HomeOf(stored) == "" || len(a.exec.agents.ConversationFiles(f.agent, stored.Preset)) == 0:
	default:
		if f.continuable = f.intact(stored.Home) && f.intact(stored.Files); f.continuable {
			f.stored = stored
		}
	}
}

// inherits reports whether this round can begin with an attempt that was interrupted in an
// earlier run of the session, and when that attempt was begun.
func (f startFacts) inherits() (begun time.Time, ok bool) {
	if len(f.round.Attempts) > 0 || f.round.ContinuableAttempt > 0 || f.in.Feedback != "" || len(f.rounds) == 0 {
		return begun, false
	}
	last := f.rounds[len(f.rounds)-1]
	if last.Run >= f.firstRun || last.Pass < f.round.AnswersFrom {
		return begun, false // a round of this run has already continued it, or the work begins anew
	}
	same := last.Basis != nil && last.Basis.SameWork(f.basis) // its files are changes to this input
	return last.AttemptAt, same && last.Result == nil && !last.GaveUp && last.ContinuableAttempt == len(last.Attempts)+1
}

// continuesConversation reports whether the conversation of a failed attempt continues: one of
// stored calls, which the agent repeats from its beginning with the stored answers. It also
// continues in a later pass of the same run, because the answers were not the cause of the failure. A new note
// of a person changes the requests, which makes it another conversation.
func (f startFacts) continuesConversation(last tried) bool {
	return f.conversation == spec.InCalls && last.report.Agent == f.agent &&
		last.run >= f.firstRun && failures.RuleFor(last.report.Failure.Category).Start == failures.FromConversation
}

// keeps reports whether the attempt continues from the files of a failed one, which are changes to
// the same input. From unfinished work only an agent with its conversation can continue.
func (f startFacts) keeps(last tried) bool {
	left, from := last.report.Files, failures.RuleFor(last.report.Failure.Category).Start
	may := from == failures.FromFiles || from == failures.FromConversation && f.continuable && last.basis.SameWork(f.basis)
	return may && last.basis.Input == f.in.Input && left != "" && f.intact(left)
}

// tried lists the failed attempts since the assignment last succeeded: those of
// this round, of the failed rounds before it in this run, and of passes whose answers it may not use.
// The list begins anew after a failure of a merge. Supplied files are not an
// attempt. Rounds of earlier runs whose answers this round may use are not included: it repeats them.
func (f startFacts) tried() []tried {
	var before []session.RoundRecord
search:
	for _, round := range slices.Backward(f.rounds) {
		switch {
		case round.Run < f.firstRun && round.Pass >= f.round.AnswersFrom:
			continue
		case round.Result != nil || f.in.Feedback != "":
			break search
		case !round.Supplied:
			before = append(before, round)
		}
	}
	var out []tried
	add := func(r session.RoundRecord, basis session.Basis) {
		for _, a := range r.Attempts {
			out = append(out, tried{f.key(r, a.Attempt), a, basis, r.Run, r.AnswersFrom})
		}
	}
	for _, round := range slices.Backward(before) {
		if round.Basis != nil { // otherwise none was started
			add(round, *round.Basis)
		}
	}
	add(f.round, f.basis)
	return out
}

// key names an attempt of a round.
func (f startFacts) key(r session.RoundRecord, attempt int) state.AttemptKey {
	return state.AttemptKey{Assignment: f.of, Pass: int64(r.Pass), Round: int64(r.Round), Attempt: int64(attempt)}
}

// ownAgent describes the persona's own agent. The work's basis names it even if a fallback
// has worked. The worker of the fallback may not have it, so offers of workers are used.
func (a *attempt) ownAgent(ctx context.Context, name string) (own spec.OfferedAgent, err error) {
	if own = a.exec.agents.Offered(name); own.Kind != "" {
		return own, nil
	}
	err = a.exec.retryStore(ctx, func() error {
		offers, err := a.exec.state.Offers(ctx)
		slices.SortFunc(offers, func(a, b spec.Offer) int { return a.RenewedAt.Compare(b.RenewedAt) })
		for _, o := range offers { // the newest wins
			if offered, ok := o.Agents[name]; ok {
				own = offered
			}
		}
		return err
	})
	return own, err
}
