package state

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// sessionTables are those whose rows belong to a session. Rows name only rows of tables before theirs.
var sessionTables = []string{
	"sessions", "session_labels", "runs", "phases", "assignments", "rounds", "attempts", "outcomes", "conversations", "deliveries",
	"merges",
	"checkpoints", "calls", "caps", "raises", "requests", "answers", "alerts",
}

// Rows are the rows of one session by table, each with its values by column: texts, numbers and nulls. The columns namespace
// and session are left out, and the digests of rows.
type Rows map[string][]map[string]any

// Records is the number of assignments that have been at work.
func (r Rows) Records() int {
	of := map[[2]any]bool{}
	for _, row := range r["rounds"] {
		of[[2]any{row["phase"], row["persona"]}] = true
	}
	return len(of)
}

// ErrSessionExists means that there is such a session already.
var ErrSessionExists = errors.New("there is a session of this name already")

// isLeftOut reports whether a column is not in [Rows].
func isLeftOut(table, column string) bool {
	return column == "namespace" || column == "session" || column == "digest" && hasDigest(table)
}

// hasDigest reports whether the rows of a table have random ids and digests of their own.
func hasDigest(table string) bool { return table == "calls" || table == "raises" }

// Dump reads the rows of a session, in a fixed order, and what they name. Without transcripts, it leaves out the names of
// what agents have said.
func (d *DB) Dump(ctx context.Context, s session.Key, transcripts bool) (rows Rows, roots []Root, err error) {
	err = d.Read(ctx, func(t *Tx) error {
		rows = Rows{}
		for _, table := range sessionTables {
			if rows[table], err = t.dump(s, table); err != nil {
				return err
			}
		}
		roots, err = t.roots(s)
		return err
	})
	if err != nil || transcripts {
		return rows, roots, err
	}
	for _, c := range rootColumns {
		if c.transcript {
			for _, row := range rows[c.table] {
				row[c.column] = ""
			}
		}
	}
	return rows, slices.DeleteFunc(roots, func(r Root) bool { return r.transcript }), nil
}

func (t *Tx) dump(s session.Key, table string) (all []map[string]any, err error) {
	type line struct {
		row  map[string]any
		text string
	}
	var lines []line
	err = t.each(func(r *sql.Rows) error {
		names, err := r.Columns()
		if err != nil {
			return err
		}
		values, row := make([]any, len(names)), map[string]any{}
		fields := make([]any, len(names))
		for i := range values {
			fields[i] = &values[i]
		}
		if err := r.Scan(fields...); err != nil {
			return err
		}
		for i, name := range names {
			if !isLeftOut(table, name) {
				row[name] = values[i]
			}
		}
		text, err := json.Marshal(row)
		lines = append(lines, line{row, string(text)})
		return err
	}, "select * from "+table+" where namespace = $1 and session = $2", s.Namespace, s.Session)
	slices.SortFunc(lines, func(a, b line) int { return strings.Compare(a.text, b.text) })
	all = make([]map[string]any, len(lines))
	for i, l := range lines {
		all[i] = l.row
	}
	return all, err
}

// errChecked ends a transaction that has only checked rows.
var errChecked = errors.New("the rows were checked")

// Load inserts the rows of a session that was dumped elsewhere, and returns what they name. The session is closed: nobody runs
// it. Calls in progress become unsettled. With check, nothing is changed. The error is [ErrSessionExists] if there is such a
// session; any other one that is not of the database itself says what is wrong with the rows.
func (d *DB) Load(ctx context.Context, s session.Key, rows Rows, check bool) (roots []Root, err error) {
	err = d.writeAt(ctx, func(t *Tx, now int64) error {
		var run int64
		err := t.row(`select run from sessions where namespace = $1 and session = $2`, s.Namespace, s.Session).Scan(&run)
		if err == nil {
			return fmt.Errorf("session %s: %w", s.Session, ErrSessionExists)
		}
		if !isNoRows(err) {
			return err
		}
		if err := t.load(s, rows); err != nil {
			return err
		}
		if err := t.adopt(s, now); err != nil {
			return err
		}
		if roots, err = t.roots(s); err == nil && check {
			return errChecked
		}
		return err
	})
	if errors.Is(err, errChecked) {
		err = nil
	}
	return roots, err
}

func (t *Tx) load(s session.Key, rows Rows) error {
	for table := range rows {
		if !slices.Contains(sessionTables, table) {
			return fmt.Errorf("%.80q is no table of a session", table)
		}
	}
	if len(rows["sessions"]) != 1 {
		return fmt.Errorf("sessions: it has %d rows instead of one", len(rows["sessions"]))
	}
	for _, table := range sessionTables {
		known, err := t.columnsOf(table)
		if err != nil {
			return err
		}
		for i, row := range rows[table] {
			if err := t.loadRow(s, table, known, row); err != nil {
				return fmt.Errorf("%s[%d]: %w", table, i, err)
			}
		}
	}
	return nil
}

// tableColumn is a column of a table.
type tableColumn struct {
	name   string
	isText bool
}

// columnsOf are the columns of a table, in their order.
func (t *Tx) columnsOf(table string) (all []tableColumn, err error) {
	rows, err := t.tx.QueryContext(t.ctx, "select * from "+table+" limit 0") //nolint:gosec // one of sessionTables
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // Err has it
	types, err := rows.ColumnTypes()
	if err != nil {
		return nil, err
	}
	for _, c := range types {
		all = append(all, tableColumn{c.Name(), strings.EqualFold(c.DatabaseTypeName(), "text")})
	}
	return all, rows.Err()
}

// loadRow inserts a row, with an id and a digest of its own.
func (t *Tx) loadRow(s session.Key, table string, known []tableColumn, row map[string]any) error {
	row["namespace"], row["session"] = s.Namespace, s.Session
	if hasDigest(table) {
		row["id"] = strings.ToLower(rand.Text())
	}
	var all columns
	for _, c := range known {
		if c.name == "digest" && hasDigest(table) {
			continue
		}
		value, ok := row[c.name]
		if !ok {
			return fmt.Errorf("%s is missing", c.name)
		}
		field, err := c.field(value)
		if err != nil {
			return err
		}
		all = append(all, column{c.name, field})
	}
	if len(row) != len(all) {
		return fmt.Errorf("it has a column that the table has not: %.200q", slices.Sorted(maps.Keys(row)))
	}
	if err := checkTexts(table, row); err != nil {
		return err
	}
	if hasDigest(table) {
		all = all.withDigest()
	}
	return t.insert(table, all)
}

// field is a value of an archive as that of a column.
func (c tableColumn) field(value any) (any, error) {
	text, isText := value.(string)
	switch number, isNumber := value.(json.Number); {
	case isText && c.isText:
		return &text, nil
	case isNumber && !c.isText:
		if n, err := strconv.ParseInt(number.String(), 10, 64); err == nil && n >= 0 {
			return &n, nil
		}
	case value == nil && !c.isText:
		return &sql.Null[int64]{}, nil
	}
	return nil, fmt.Errorf("%s: it is %.80v", c.name, value)
}

// checkTexts refuses names that are not safe in the names of files, and digests that are none.
func checkTexts(table string, row map[string]any) error {
	for _, name := range []string{"phase", "persona"} {
		if text, _ := row[name].(string); text != "" && text != spec.ReservedPhase && spec.CheckName(text) != nil {
			return fmt.Errorf("%s: %w", name, spec.CheckName(text))
		}
	}
	for _, c := range rootColumns {
		if text, _ := row[c.column].(string); c.table == table && c.kind != RootText && text != "" && !spec.Digest(text).Valid() {
			return fmt.Errorf("%s: %.80q is no digest", c.column, text)
		}
	}
	return nil
}

// adopt makes the loaded rows of a session those of one that nobody runs.
func (t *Tx) adopt(s session.Key, now int64) error {
	if _, err := t.exec(`update sessions set status = 'failed', ended_at = $3, reason = $4
		where namespace = $1 and session = $2 and status not in (`+closedStates+`)`,
		s.Namespace, s.Session, now, "imported; go on with `maestro resume "+s.Session+"`"); err != nil {
		return err
	}
	for _, change := range []string{
		`sessions set updated_at = $3, revision = revision + 1, restart_at = null`,
		`requests set closed_at = coalesce(closed_at, $3)`,
	} {
		if _, err := t.exec(`update `+change+` where namespace = $1 and session = $2`, s.Namespace, s.Session, now); err != nil {
			return err
		}
	}
	const pending = ` set state = case when state in ('running', 'waiting', 'help_needed', 'awaiting_approval') then 'pending' else state end`
	for _, change := range []string{
		`checkpoints set mirrored_at = null`, `attempts set directory = ''`, `rounds set at_work = 0`,
		`phases` + pending, `outcomes` + pending,
	} {
		if _, err := t.exec(`update `+change+` where namespace = $1 and session = $2`, s.Namespace, s.Session); err != nil {
			return err
		}
	}
	calls, err := t.storedCalls(`true`, s) // they have the digests of other rows
	if err != nil {
		return err
	}
	for i := range calls {
		c := calls[i].Call
		if err := c.check(); err != nil {
			return fmt.Errorf("calls[%d]: %w", i, err)
		}
		if c.State == CallBegun {
			c.State, c.Reserved, c.EndedAt = CallUnsettled, cost.Amount{}, sql.Null[int64]{V: now, Valid: true}
		}
		if err := t.writeCall(c); err != nil {
			return err
		}
	}
	return t.changed(s)
}

// check refuses a call that this program would not have written.
func (c *Call) check() error {
	switch {
	case c.Usage.Validate() != nil:
		return c.Usage.Validate()
	case c.Estimated.Tokens < 0 || c.Estimated.USD < 0 || c.Reserved.Tokens < 0 || c.Reserved.USD < 0:
		return errors.New("its estimate is negative")
	case c.AssignmentID.Check() != nil:
		return c.AssignmentID.Check()
	case spec.CheckName(c.Team) != nil:
		return spec.CheckName(c.Team)
	case budget.NextDay(c.Day).IsZero():
		return fmt.Errorf("its day is %.20q", c.Day)
	}
	return nil
}
