package state

import (
	"context"
	"database/sql"
	"errors"

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

// recordReader puts the rows of records together.
type recordReader struct {
	*Tx
	of  Assignment
	all []session.Record
	at  map[roundPlace]*session.RoundRecord
	// costs are those of attempts.
	costs map[AttemptKey]cost.Usage
}

// roundPlace is the place of a round in a session.
type roundPlace struct {
	spec.AssignmentID
	pass, round int
}

// ofAssignment selects the rows of a session, or of one of its assignments.
const ofAssignment = ` where namespace = $1 and session = $2 and ($3 = '' or phase = $3) and ($4 = '' or persona = $4)`

func (t *Tx) records(of Assignment) ([]session.Record, error) {
	r := &recordReader{Tx: t, of: of, at: map[roundPlace]*session.RoundRecord{}, costs: map[AttemptKey]cost.Usage{}}
	for _, read := range []func() error{r.readCosts, r.readRounds, r.readAttempts, r.readConversations} {
		if err := read(); err != nil {
			return nil, err
		}
	}
	return r.all, nil
}

func (r *recordReader) rows(scan func(*sql.Rows) error, query, order string) error {
	return r.each(scan, query+ofAssignment+order, r.of.Namespace, r.of.Session, r.of.Phase, r.of.Persona)
}

func (r *recordReader) readCosts() error {
	return r.rows(func(row *sql.Rows) error {
		k := AttemptKey{Assignment: Assignment{Key: r.of.Key}}
		var u cost.Usage
		err := row.Scan(&k.Phase, &k.Persona, &k.Pass, &k.Round, &k.Attempt, &u.InputTokens, &u.OutputTokens, &u.ReasoningTokens, &u.CacheReadTokens,
			&u.CacheWriteTokens, &u.CacheWrite1hTokens, &u.WebSearches, &u.CostUSD)
		r.costs[k] = u
		return err
	}, `select phase, persona, pass, round, attempt, sum(input_tokens), sum(output_tokens), sum(reasoning_tokens),
			sum(cache_read_tokens),
			sum(cache_write_tokens), sum(cache_write_1h_tokens), sum(web_searches), sum(nano_usd) from calls`,
		` group by phase, persona, pass, round, attempt`)
}

// readRounds reads the rounds of passes. An assignment whose calls alone are left, because a database was restored, has its
// cost only.
func (r *recordReader) readRounds() error {
	orders := map[roundPlace]session.Order{}
	if err := r.rows(func(row *sql.Rows) error {
		var id spec.AssignmentID
		var o session.Order
		err := row.Scan(&id.Phase, &id.Persona, &o.Pass, &o.Run, &o.Because, &o.AnswersFrom, &o.Undone)
		orders[roundPlace{id, o.Pass, 0}] = o
		return err
	}, `select phase, persona, pass, run, ordered_because, answers_from, undone from assignments`, ""); err != nil {
		return err
	}
	if err := r.rows(func(row *sql.Rows) error {
		var one roundRow
		if err := row.Scan(one.columns().fields()...); err != nil {
			return err
		}
		one.take()
		one.Order = orders[roundPlace{one.of.AssignmentID, one.Pass, 0}]
		if n := len(r.all); n == 0 || r.all[n-1].Assignment != one.of.AssignmentID {
			r.all = append(r.all, session.Record{Assignment: one.of.AssignmentID})
		}
		last := &r.all[len(r.all)-1]
		last.Rounds = append(last.Rounds, one.RoundRecord)
		return nil
	}, "select "+(&roundRow{}).columns().names()+" from rounds", ` order by phase, persona, pass, round`); err != nil {
		return err
	}
	for i := range r.all {
		record := &r.all[i]
		for j := range record.Rounds {
			round := &record.Rounds[j]
			r.at[roundPlace{record.Assignment, round.Pass, round.Round}] = round
		}
		for k, used := range r.costs {
			if k.AssignmentID == record.Assignment {
				record.Total = record.Total.Add(used)
			}
		}
	}
	return nil
}

func (r *recordReader) readAttempts() error {
	return r.rows(func(row *sql.Rows) error {
		var one attemptRow
		if err := row.Scan(one.columns().fields()...); err != nil {
			return err
		}
		round := r.at[roundPlace{one.of.AssignmentID, one.pass, one.round}]
		if round == nil {
			return errors.New("an attempt has no round")
		}
		one.Usage = r.costs[AttemptKey{one.of, int64(one.pass), int64(one.round), int64(one.Attempt)}]
		one.addTo(round)
		return nil
	}, "select "+(&attemptRow{}).columns().names()+" from attempts", ` order by phase, persona, pass, round, attempt`)
}

func (r *recordReader) readConversations() error {
	return r.rows(func(row *sql.Rows) error {
		var a Assignment
		var c session.Conversation
		err := row.Scan(conversationColumns(&a, &c).fields()...)
		for i := range r.all {
			if r.all[i].Assignment == a.AssignmentID {
				r.all[i].Conversation = &c
			}
		}
		return err
	}, `select `+conversationColumns(new(Assignment), new(session.Conversation)).names()+` from conversations`, "")
}

func conversationColumns(a *Assignment, c *session.Conversation) columns {
	return append(assignmentColumns(a), columns{
		{"preset", &c.Preset}, {"conversation", &c.ID}, {"booked", document{&c.Booked}}, {"home", &c.Home}, {"files", &c.Files},
	}...)
}

// assignmentColumns are those that name an assignment.
func assignmentColumns(a *Assignment) columns {
	return columns{{"namespace", &a.Namespace}, {"session", &a.Session}, {"phase", &a.Phase}, {"persona", &a.Persona}}
}

// The outcomes of rounds.
const (
	roundSucceeded     = "succeeded"
	roundFailed        = "failed"
	roundFailedForGood = "failed_for_good"
)

// roundRow is a row of rounds.
type roundRow struct {
	session.RoundRecord
	of      Assignment
	outcome string
	basis   session.Basis
	result  session.RoundResult
}

func (r *roundRow) columns() columns {
	return append(assignmentColumns(&r.of), columns{
		{"pass", &r.Pass},
		{"round", &r.Round},
		{"activity", &r.Activity},
		{"sequence", &r.Seq},
		{"agent", &r.Agent},
		{"integrating", &r.Integrating},
		{"supplied", &r.Supplied},
		{"outcome", &r.outcome},
		{"revision", &r.Revision},
		{"at_work", &r.Started},
		{"lost", &r.Lost},
		{"lost_at_progress", &r.LostAtProgress},
		{"calls", &r.Calls},
		{"permit", document{&r.Permit}},
		{"outage", document{&r.Outage}},
		{"pauses", document{&r.Pauses}},
		{"basis_persona", &r.basis.Persona},
		{"basis_agent", &r.basis.Agent},
		{"basis_instructions", &r.basis.Instructions},
		{"basis_requirement", &r.basis.Requirement},
		{"basis_input", &r.basis.Input},
		{"basis_decisions", &r.basis.Decisions},
		{"input", &r.result.Input},
		{"delta", &r.result.Delta},
		{"output", &r.result.Output},
		{"files", &r.result.Files},
		{"decisions", document{&r.result.Decisions}},
		{"kept", document{&r.result.Kept}},
		{"summary", &r.result.Summary},
		{"left_out", document{&r.result.LeftOut}},
		{"dropped", document{&r.result.Dropped}},
		{"sends_back", document{&r.result.SendsBack}},
	}...)
}

// fill sets the columns from the round.
func (r *roundRow) fill() {
	switch {
	case r.Result != nil:
		r.outcome, r.result = roundSucceeded, *r.Result
	case r.Last:
		r.outcome = roundFailedForGood
	case r.GaveUp:
		r.outcome = roundFailed
	}
	if r.Basis != nil {
		r.basis = *r.Basis
	}
}

// take sets the round from the columns.
func (r *roundRow) take() {
	if r.basis != (session.Basis{}) {
		r.Basis = &r.basis
	}
	r.GaveUp, r.Last = r.outcome == roundFailed || r.outcome == roundFailedForGood, r.outcome == roundFailedForGood
	if r.outcome == roundSucceeded {
		result := r.result
		if !r.Supplied {
			result.Basis = r.Basis
		}
		result.Lost = r.Lost
		r.Result = &result
	}
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
	session.AttemptReport
	of          Assignment
	pass, round int
	state       AttemptState
	continuable bool
	directory   string
	ended       session.Outcome
}

func (a *attemptRow) columns() columns {
	return append(assignmentColumns(&a.of), columns{
		{"pass", &a.pass},
		{"round", &a.round},
		{"attempt", &a.Attempt},
		{"state", &a.state},
		{"agent", &a.Agent},
		{"starts_from", &a.From},
		{"continuable", &a.continuable},
		{"directory", &a.directory},
		{"result", document{&a.ended}},
		{"files", &a.Left},
		{"diff", &a.Diff},
		{"transcript", &a.Log},
		{"category", &a.Failure.Category},
		{"message", &a.Failure.Message},
		{"output", &a.Failure.Output},
		{"final", &a.Failure.Final},
		{"retry_after", &a.Failure.RetryAfter},
		{"left_out", document{&a.LeftOut}},
		{"started_at", moment{&a.StartedAt}},
		{"ended_at", moment{&a.EndedAt}},
	}...)
}

// attemptsOf are the rows of a round's attempts: those that failed, and the one in progress or recorded.
func attemptsOf(r session.RoundRecord) []attemptRow {
	rows := make([]attemptRow, 0, len(r.Attempts)+1)
	add := func(state AttemptState, report session.AttemptReport) *attemptRow {
		n := len(rows) + 1
		report.Attempt = n
		rows = append(rows, attemptRow{AttemptReport: report, pass: r.Pass, round: r.Round, state: state, continuable: r.Begun == n})
		return &rows[n-1]
	}
	for _, report := range r.Attempts {
		add(AttemptFailed, report)
	}
	current := session.AttemptReport{Agent: r.Agent, StartedAt: r.AttemptAt}
	switch {
	case r.Result != nil:
		current.From, current.Log, current.LeftOut = r.Result.From, r.Result.Log, r.Result.LeftOut
		current.StartedAt, current.EndedAt, current.Left, current.Agent = r.Result.StartedAt, r.Result.EndedAt, r.Result.Output, r.Result.Agent
		add(AttemptRecorded, current)
	case r.Ended != nil:
		current.From, current.Log, current.Left = r.Ended.From, r.Ended.Transcript, r.Ended.Files
		row := add(AttemptAgentEnded, current)
		if r.Ended.Files != "" {
			row.state = AttemptCollected
		}
		row.directory, row.ended = r.Ended.Directory, r.Ended.Outcome
		row.ended.Log = nil
	case r.Started || !r.AttemptAt.IsZero():
		add(AttemptStarted, current)
	}
	return rows
}

// addTo adds the attempt to its round.
func (a *attemptRow) addTo(r *session.RoundRecord) {
	if a.continuable {
		r.Begun = a.Attempt
	}
	if a.state == AttemptFailed {
		r.Attempts = append(r.Attempts, a.AttemptReport)
		return
	}
	r.AttemptAt = a.StartedAt
	switch {
	case a.state == AttemptRecorded && r.Result != nil:
		r.Result.Agent, r.Result.From, r.Result.Log, r.Result.StartedAt, r.Result.EndedAt = a.Agent, a.From, a.Log, a.StartedAt, a.EndedAt
		r.Result.Usage, r.Result.Attempts, r.Result.Failures = r.RoundLog.Usage().Add(a.Usage), a.Attempt, r.Failures()
		if r.Supplied {
			r.Result.Usage, r.Result.Attempts = cost.Usage{}, 0
		}
	case a.state == AttemptAgentEnded, a.state == AttemptCollected:
		r.Ended = &session.AgentEnded{Directory: a.directory, Outcome: a.ended, Transcript: a.Log, From: a.From, Files: a.Left}
	}
}
