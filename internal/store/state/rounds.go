package state

import (
	"cmp"
	"context"
	"fmt"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// RoundOrder is what one activity has to do for an assignment.
type RoundOrder struct {
	Assignment
	// TemporalRun is the session's Temporal run. Ordered is how often the work was ordered again, counted from 0 over the runs
	// that continue each other as new; Because is why the last one was made, and Forced that the whole phase is.
	TemporalRun string
	Ordered     int
	Because     session.Because
	Forced      bool
	// Round counts from 1 in the order. Activity is the activity's id, and Seq its number among those of the assignment.
	Round    int
	Activity string
	Seq      int
	// Agent works in place of the persona's own. Integrating and Supplied are those of [session.RoundRecord].
	Agent                 string
	Integrating, Supplied bool
	// Holder identifies this execution of the activity.
	Holder string
}

// OpenedRound is a round that an execution may work on.
type OpenedRound struct {
	// Fence names the execution in its statements, and First is the first of the runs that continue each other as new.
	Fence Fence
	First int
	// Order is the order that the round belongs to.
	Order session.Order
	// Record has all that the assignment's activities have done. The round itself may not be among it.
	Record session.Record
}

// OpenRound makes an execution of an activity the only one that may write an assignment's work. It finds the order, or makes
// the next pass for a new one. The caller holds the assignment's local lock: the last holder has ended. The error
// is [ErrFenced] if a later run or activity has taken over, and [ErrNotFound] if the session was not admitted.
func (d *DB) OpenRound(ctx context.Context, o RoundOrder) (opened OpenedRound, err error) {
	err = d.writeAt(ctx, func(t *Tx, now int64) error {
		opened = OpenedRound{}
		run, err := t.enter(o.Key, o.TemporalRun, now)
		if err != nil {
			return err
		}
		opened.First = int(run.first)
		opened.Fence = Fence{Run: run.run, Holder: o.Holder}
		if opened.Record, err = t.record(o.Assignment); err != nil {
			return err
		}
		if opened.Order, err = t.order(o, run, opened.Record); err != nil {
			return err
		}
		for _, r := range opened.Record.Rounds {
			if r.Run >= opened.First && r.Seq > o.Seq {
				return fmt.Errorf("activity %s of %s; activity %s is later: %w", o.Activity, o.AssignmentID, r.Activity, ErrFenced)
			}
		}
		_, err = t.exec(`update assignments set holder = case when pass = $5 then $6 else '' end
			where namespace = $1 and session = $2 and phase = $3 and persona = $4`,
			o.Namespace, o.Session, o.Phase, o.Persona, opened.Order.Pass, o.Holder)
		return err
	})
	return opened, err
}

// order finds the pass of an order, or makes it.
func (t *Tx) order(o RoundOrder, in runNumbers, record session.Record) (session.Order, error) {
	orders, err := rowsOf[assignmentRow](t, "assignments", o.Assignment, " order by pass")
	if err != nil {
		return session.Order{}, err
	}
	var before, repeated session.Order
	for _, one := range orders {
		before = one.Order
		switch {
		case one.Ordered != o.Ordered:
		case one.Run >= int(in.first):
			return one.Order, nil
		case in.reset:
			repeated = one.Order
		}
	}
	next := session.Order{Pass: before.Pass + 1, Run: int(in.first), Because: cmp.Or(o.Because, because(o, before))}
	switch next.AnswersFrom = next.Pass; {
	case repeated.Pass > 0: // a reset repeats this order, with what its work has paid for
		next.Because, next.AnswersFrom = session.BecauseResumed, repeated.AnswersFrom
	case before.Pass > 0 && reusesAnswers(next.Because, before, record):
		next.AnswersFrom = before.AnswersFrom
	}
	return next, t.insert("assignments", columnsOf(&assignmentRow{Assignment: o.Assignment, Order: next, Ordered: o.Ordered}))
}

// assignmentRow is a row of assignments.
type assignmentRow struct {
	Assignment
	session.Order
	Ordered int
	Holder  string
}

// because is why the first order in a run was made.
func because(o RoundOrder, before session.Order) session.Because {
	switch {
	case o.Forced:
		return session.BecauseForced
	case before.Pass == 0:
		return session.BecauseStart
	}
	return session.BecauseResumed
}

// reusesAnswers reports whether a new pass may use the stored answers that the one before it may use. It must not if a person
// wants the work anew, or if these answers have led to the failure.
func reusesAnswers(why session.Because, before session.Order, record session.Record) bool {
	switch {
	case why == session.BecauseForced || why == session.BecauseSentBack || before.Undone == session.UndoneSentBack:
		return false
	case len(record.Rounds) == 0:
		return true
	}
	last := record.Rounds[len(record.Rounds)-1]
	if last.Pass != before.Pass || !last.Last || len(last.Attempts) == 0 {
		return true
	}
	return failures.RuleFor(last.Attempts[len(last.Attempts)-1].Failure.Category).Start == failures.FromConversation
}

// PutRound writes a round with its attempts, and the conversation of the assignment's agent. The error is [ErrFenced] if
// another execution has taken over.
func (d *DB) PutRound(ctx context.Context, f Fence, a Assignment, r session.RoundRecord, c *session.Conversation) error {
	return d.Write(ctx, func(t *Tx) error {
		if err := t.fence(a, f); err != nil {
			return err
		}
		if err := t.putRound(a, r); err != nil {
			return err
		}
		if err := t.putConversation(a, c); err != nil {
			return err
		}
		return t.changed(a.Key)
	})
}

func (t *Tx) putRound(a Assignment, r session.RoundRecord) error {
	row := roundRowOf(a, r)
	if err := t.put("rounds", "namespace, session, phase, persona, pass, round", columnsOf(&row), "true"); err != nil {
		return err
	}
	attempts := attemptsOf(a, r)
	for i := range attempts {
		row := columnsOf(&attempts[i])
		if err := t.put("attempts", "namespace, session, phase, persona, pass, round, attempt", row, "true"); err != nil {
			return err
		}
	}
	_, err := t.exec(`delete from attempts where namespace = $1 and session = $2 and phase = $3 and persona = $4 and pass = $5 and round = $6 and attempt > $7`,
		a.Namespace, a.Session, a.Phase, a.Persona, r.Pass, r.Round, len(attempts))
	return err
}

func (t *Tx) putConversation(a Assignment, c *session.Conversation) error {
	if c == nil {
		_, err := t.exec(`delete from conversations where namespace = $1 and session = $2 and phase = $3 and persona = $4`,
			a.Namespace, a.Session, a.Phase, a.Persona)
		return err
	}
	return t.put("conversations", "namespace, session, phase, persona", columnsOf(&conversationRow{a, *c}), "true")
}

// DropRound removes a round that has not begun. The error is [ErrFenced] if another execution has taken over.
func (d *DB) DropRound(ctx context.Context, f Fence, a Assignment, pass, round int) error {
	return d.Write(ctx, func(t *Tx) error {
		if err := t.fence(a, f); err != nil {
			return err
		}
		_, err := t.exec(`delete from rounds where namespace = $1 and session = $2 and phase = $3 and persona = $4 and pass = $5 and round = $6`,
			a.Namespace, a.Session, a.Phase, a.Persona, pass, round)
		return err
	})
}

// EndWork notes that the execution that holds an assignment has ended its agent, although a later run of the session may have
// begun: it says nothing about the work. It changes no row once another execution holds the assignment.
func (d *DB) EndWork(ctx context.Context, holder string, a Assignment, pass, round int) error {
	return d.Write(ctx, func(t *Tx) error {
		_, err := t.exec(`update rounds set at_work = 0 where namespace = $1 and session = $2 and phase = $3 and persona = $4 and pass = $5 and round = $6
			and exists (select 1 from assignments where namespace = $1 and session = $2 and phase = $3 and persona = $4 and holder = $7)`,
			a.Namespace, a.Session, a.Phase, a.Persona, pass, round, holder)
		return err
	})
}

// Undo marks the work of assignments as one that counts no more: a resume has decided that it runs again.
func (d *DB) Undo(ctx context.Context, s session.Key, temporalRun string, ids []spec.AssignmentID) error {
	return d.writeAt(ctx, func(t *Tx, now int64) error {
		if _, err := t.enter(s, temporalRun, now); err != nil {
			return err
		}
		for _, id := range ids {
			if err := t.undo(s, id.Phase, id.Persona, session.UndoneResumed); err != nil {
				return err
			}
		}
		return nil
	})
}

// undo marks all passes of a phase, or of one persona in it. Of a resume it marks only those with work.
func (t *Tx) undo(s session.Key, phase, persona string, why session.Undone) error {
	which := ""
	if why == session.UndoneResumed {
		which = ` and exists (select 1 from rounds r where r.namespace = assignments.namespace and r.session = assignments.session
			and r.phase = assignments.phase and r.persona = assignments.persona and r.pass = assignments.pass and r.outcome = 'succeeded')`
	}
	_, err := t.exec(`update assignments set undone = $5 where namespace = $1 and session = $2 and phase = $3 and ($4 = '' or persona = $4) and undone = ''`+which,
		s.Namespace, s.Session, phase, persona, string(why))
	return err
}

// mergeRow is a row of merges.
type mergeRow struct {
	session.Key
	Phase    string
	Run      int64
	Activity string
	session.MergeLog
}

// Merge changes the state of a phase's merge, which belongs to one activity: another one begins anew.
func (d *DB) Merge(ctx context.Context, s session.Key, phase, temporalRun, activity string,
	change func(*session.MergeLog),
) error {
	return d.writeAt(ctx, func(t *Tx, now int64) error {
		run, err := t.enter(s, temporalRun, now)
		if err != nil {
			return err
		}
		m := mergeRow{Key: s, Phase: phase, Run: run.run, Activity: activity}
		err = t.get(&m, "merges", "where namespace = $1 and session = $2 and phase = $3 and run = $4 and activity = $5",
			s.Namespace, s.Session, phase, run.run, activity)
		if err != nil && !isNoRows(err) {
			return err
		}
		change(&m.MergeLog)
		return t.put("merges", "namespace, session, phase", columnsOf(&m), "true")
	})
}
