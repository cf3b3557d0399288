package state

import (
	"context"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// Record reads what the activities of an assignment have done. It has no rounds if there were none.
func (d *DB) Record(ctx context.Context, a Assignment) (session.Record, error) {
	return read(ctx, d, func(t *Tx) (session.Record, error) { return t.record(a) })
}

func (t *Tx) record(a Assignment) (session.Record, error) {
	all, err := t.records(a)
	if err != nil || len(all) == 0 {
		return session.Record{Assignment: a.AssignmentID}, err
	}
	return all[0], nil
}

// Records reads what the activities of all assignments of a session have done, sorted by phase and persona.
func (d *DB) Records(ctx context.Context, s session.Key) ([]session.Record, error) {
	return read(ctx, d, func(t *Tx) ([]session.Record, error) { return t.records(Assignment{Key: s}) })
}

// roundPlace is the place of a round in a session; of a pass, if round is zero.
type roundPlace struct {
	spec.AssignmentID
	pass, round int
}

// ofAssignment selects the rows of a session, or of one of its assignments.
const ofAssignment = ` where namespace = $1 and session = $2 and ($3 = '' or phase = $3) and ($4 = '' or persona = $4)`

// rowsOf reads the rows that a table has of a session, or of one of its assignments.
func rowsOf[R any](t *Tx, table string, of Assignment, order string) ([]R, error) {
	statement := "select " + columnsOf(new(R)).names() + " from " + table + ofAssignment + order
	return query[R](t, statement, of.Namespace, of.Session, of.Phase, of.Persona)
}

// records puts the rows of records together. An assignment whose calls alone are left, because a database was restored, has no
// record.
func (t *Tx) records(of Assignment) (all []session.Record, err error) {
	costs, err := t.attemptCosts(of)
	if err != nil {
		return nil, err
	}
	passes, err := rowsOf[assignmentRow](t, "assignments", of, "")
	if err != nil {
		return nil, err
	}
	orders := map[roundPlace]session.Order{}
	for _, row := range passes {
		orders[roundPlace{row.AssignmentID, row.Pass, 0}] = row.Order
	}
	attempts, err := rowsOf[attemptRow](t, "attempts", of, " order by phase, persona, pass, round, attempt")
	if err != nil {
		return nil, err
	}
	tried := map[roundPlace][]attemptRow{}
	for _, row := range attempts {
		row.Usage = costs[AttemptKey{row.Assignment, int64(row.Pass), int64(row.Round), int64(row.Attempt)}]
		at := roundPlace{row.AssignmentID, row.Pass, row.Round}
		tried[at] = append(tried[at], row)
	}
	rounds, err := rowsOf[roundRow](t, "rounds", of, " order by phase, persona, pass, round")
	if err != nil {
		return nil, err
	}
	for _, row := range rounds {
		round := row.round(orders[roundPlace{row.AssignmentID, row.Pass, 0}])
		for _, attempt := range tried[roundPlace{row.AssignmentID, row.Pass, row.Round}] {
			attempt.addTo(&round)
		}
		if round.Result == nil {
			running := int64(len(round.Attempts) + 1)
			round.Spent = costs[AttemptKey{row.Assignment, int64(row.Pass), int64(row.Round), running}]
		}
		if n := len(all); n == 0 || all[n-1].Assignment != row.AssignmentID {
			all = append(all, session.Record{Assignment: row.AssignmentID})
		}
		last := &all[len(all)-1]
		last.Rounds = append(last.Rounds, round)
	}
	return all, t.completeRecords(of, all, costs)
}

// completeRecords adds what records have besides rounds.
func (t *Tx) completeRecords(of Assignment, all []session.Record, costs map[AttemptKey]cost.Usage) error {
	conversations, err := rowsOf[conversationRow](t, "conversations", of, "")
	for i := range all {
		record := &all[i]
		for k, used := range costs {
			if k.AssignmentID == record.Assignment {
				record.Total = record.Total.Add(used)
			}
		}
		for _, c := range conversations {
			if c.AssignmentID == record.Assignment {
				record.Conversation = &c.Conversation
			}
		}
	}
	return err
}

// attemptCosts are the costs of attempts.
func (t *Tx) attemptCosts(of Assignment) (map[AttemptKey]cost.Usage, error) {
	usage := columnsOf(new(cost.Usage))
	sums := usage.list(func(i int) string { return "sum(" + usage[i].name + ")" })
	attempt := columnsOf(new(AttemptKey)).names()
	rows, err := query[struct {
		AttemptKey
		cost.Usage
	}](t, `select `+attempt+`, `+sums+` from calls`+ofAssignment+` group by `+attempt,
		of.Namespace, of.Session, of.Phase, of.Persona)
	costs := make(map[AttemptKey]cost.Usage, len(rows))
	for _, row := range rows {
		costs[row.AttemptKey] = row.Usage
	}
	return costs, err
}

// conversationRow is a row of conversations.
type conversationRow struct {
	Assignment
	session.Conversation
}

// The outcomes of rounds.
const (
	roundSucceeded     = "succeeded"
	roundFailed        = "failed"
	roundFailedForGood = "failed_for_good"
)

// roundRow is a row of rounds.
type roundRow struct {
	Assignment
	Pass int
	session.RoundRecord
	Outcome string
	Basis   session.Basis       `sql:"basis_*"`
	Result  session.RoundResult `sql:"*"`
}

// roundRowOf is the row of a round.
func roundRowOf(a Assignment, r session.RoundRecord) roundRow {
	row := roundRow{Assignment: a, Pass: r.Pass, RoundRecord: r}
	switch {
	case r.Result != nil:
		row.Outcome, row.Result = roundSucceeded, *r.Result
	case r.Last:
		row.Outcome = roundFailedForGood
	case r.GaveUp:
		row.Outcome = roundFailed
	}
	if r.Basis != nil {
		row.Basis = *r.Basis
	}
	return row
}

// round is the round of a row.
func (r *roundRow) round(order session.Order) session.RoundRecord {
	round := r.RoundRecord
	round.Order = order
	if r.Basis != (session.Basis{}) {
		round.Basis = &r.Basis
	}
	round.GaveUp, round.Last = r.Outcome == roundFailed || r.Outcome == roundFailedForGood, r.Outcome == roundFailedForGood
	if r.Outcome == roundSucceeded {
		result := r.Result
		if !r.Supplied {
			result.Basis = round.Basis
		}
		result.Lost = r.Lost
		round.Result = &result
	}
	return round
}

// AttemptState is the last durable step of an attempt.
type AttemptState string

// The states of an attempt.
const (
	AttemptStarted    AttemptState = "started"
	AttemptAgentEnded AttemptState = "agent_ended"
	AttemptCollected  AttemptState = "collected"
	AttemptRecorded   AttemptState = "recorded"
	AttemptFailed     AttemptState = "failed"
)

// attemptRow is a row of attempts.
type attemptRow struct {
	Assignment
	Pass, Round int
	State       AttemptState
	session.AttemptReport
	Continuable bool
	Directory   string
	Result      session.Outcome
}

// attemptsOf are the rows of a round's attempts: those that failed, and the one in progress or recorded.
func attemptsOf(a Assignment, r session.RoundRecord) []attemptRow {
	rows := make([]attemptRow, 0, len(r.Attempts)+1)
	add := func(state AttemptState, report session.AttemptReport) *attemptRow {
		n := len(rows) + 1
		report.Attempt = n
		rows = append(rows, attemptRow{
			Assignment: a, Pass: r.Pass, Round: r.Round, State: state, AttemptReport: report, Continuable: r.ContinuableAttempt == n,
		})
		return &rows[n-1]
	}
	for _, report := range r.Attempts {
		add(AttemptFailed, report)
	}
	current := session.AttemptReport{Agent: r.Agent, StartedAt: r.AttemptAt}
	switch {
	case r.Result != nil:
		current.From, current.Log, current.LeftOut = r.Result.From, r.Result.Log, r.Result.LeftOut
		current.StartedAt, current.EndedAt, current.Files, current.Agent = r.Result.StartedAt, r.Result.EndedAt, r.Result.Output,
			r.Result.Agent
		add(AttemptRecorded, current)
	case r.Ended != nil:
		current.From, current.Log, current.Files = r.Ended.From, r.Ended.Transcript, r.Ended.Files
		row := add(AttemptAgentEnded, current)
		if r.Ended.Files != "" {
			row.State = AttemptCollected
		}
		row.Directory, row.Result = r.Ended.Directory, r.Ended.Outcome
		row.Result.Log = nil
	case r.AtWork || !r.AttemptAt.IsZero():
		add(AttemptStarted, current)
	}
	return rows
}

// addTo adds the attempt to its round.
func (a *attemptRow) addTo(r *session.RoundRecord) {
	if a.Continuable {
		r.ContinuableAttempt = a.Attempt
	}
	if a.State == AttemptFailed {
		r.Attempts = append(r.Attempts, a.AttemptReport)
		return
	}
	r.AttemptAt = a.StartedAt
	switch {
	case a.State == AttemptRecorded && r.Result != nil:
		r.Result.Agent, r.Result.From, r.Result.Log, r.Result.StartedAt, r.Result.EndedAt = a.Agent, a.From, a.Log, a.StartedAt,
			a.EndedAt
		r.Result.Usage, r.Result.Attempts, r.Result.Failures = r.RoundLog.Usage().Add(a.Usage), a.Attempt, r.Failures()
		if r.Supplied {
			r.Result.Usage, r.Result.Attempts = cost.Usage{}, 0
		}
	case a.State == AttemptAgentEnded, a.State == AttemptCollected:
		r.Ended = &session.AgentEnded{Directory: a.Directory, Outcome: a.Result, Transcript: a.Log, From: a.From, Files: a.Files}
	}
}
