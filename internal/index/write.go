package index

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"strings"
)

// writing is a transaction that changes sessions.
type writing struct {
	ctx context.Context
	tx  *sql.Tx
	// sequence is the last used number.
	sequence int64
	// prepared are the statements so far.
	prepared map[string]*sql.Stmt
}

// write runs a transaction that changes sessions.
func (x *Index) write(ctx context.Context, change func(w *writing) error) error {
	_, err := x.try(func(db *sql.DB) error {
		return transact(ctx, db, func(tx *sql.Tx) error {
			w := &writing{ctx: ctx, tx: tx, prepared: map[string]*sql.Stmt{}}
			if err := tx.QueryRowContext(ctx, "SELECT sequence FROM state").Scan(&w.sequence); err != nil {
				return err
			}
			before := w.sequence
			if err := change(w); err != nil || w.sequence == before {
				return err
			}
			return w.run("UPDATE state SET sequence = ?", w.sequence)
		})
	})
	return err
}

// statement prepares a statement once. It is not cancelled by its caller's context: the transaction
// ends with the context.
func (w *writing) statement(query string) (*sql.Stmt, error) {
	if s, ok := w.prepared[query]; ok {
		return s, nil
	}
	s, err := w.tx.PrepareContext(w.ctx, query)
	w.prepared[query] = s
	return s, err
}

func (w *writing) run(query string, arguments ...any) error {
	s, err := w.statement(query)
	if err == nil {
		_, err = s.Exec(arguments...)
	}
	return err
}

// get reads one row; there may be none.
func (w *writing) get(query string, arguments []any, into ...any) (found bool, err error) {
	s, err := w.statement(query)
	if err == nil {
		err = s.QueryRow(arguments...).Scan(into...)
	}
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// put writes sessions to the index, and returns how many have changed. known is their state in the
// index when this process began to read. Later data that another process has written stays.
func (x *Index) put(ctx context.Context, entries []*entry, known map[string]seen) (changed int, err error) {
	err = x.write(ctx, func(w *writing) error {
		changed = 0
		for _, e := range entries {
			before, ok := known[e.Session.Session]
			has, err := w.put(e, before, ok)
			if err != nil {
				return err
			}
			if has {
				changed++
			}
		}
		return nil
	})
	return changed, err
}

func (w *writing) put(e *entry, known seen, wasKnown bool) (changed bool, err error) {
	var modified, records int64
	var digest string
	name := []any{e.Namespace, e.Session.Session}
	there, err := w.get("SELECT modified, records, digest FROM seen WHERE namespace = ? AND session = ?", name, &modified, &records, &digest)
	if err != nil {
		return false, err
	}
	if there && modified > e.seen.modified && (!wasKnown || modified != known.modified) {
		return false, nil
	}
	is, err := e.digest()
	if err != nil {
		return false, err
	}
	// The displayed state of a session at work has more than the index.
	stirred := e.Listed && !e.Status.Closed() && (modified != e.seen.modified || records != unwatched && records != e.seen.records)
	again := 0
	if e.seen.again {
		again = 1
	}
	if err := w.run("INSERT OR REPLACE INTO seen VALUES (?, ?, ?, ?, ?, ?, ?)", append(name, e.seen.modified, e.seen.records, e.seen.change, again, is)...); err != nil {
		return false, err
	}
	if there && digest == is {
		if !stirred {
			return false, nil
		}
		w.sequence++
		return true, w.run("UPDATE sessions SET sequence = ? WHERE namespace = ? AND session = ?", append([]any{w.sequence}, name...)...)
	}
	if there {
		if err := w.removeFacts(name); err != nil {
			return false, err
		}
	}
	w.sequence++
	id, err := w.putSession(e)
	if err != nil {
		return false, err
	}
	return true, w.putFacts(id, e)
}

var sessionColumns = strings.Fields(`namespace session sequence
	listed store team status phases started closed day updated incarnation run first_run origin
	requests waiting answers waited approvals approving alerted tokens cost labels reason requirement search`)

var putSession = "INSERT INTO sessions (" + columns(sessionColumns, "", "") + ") VALUES (?" + strings.Repeat(", ?", len(sessionColumns)-1) +
	") ON CONFLICT (namespace, session) DO UPDATE SET " + assignments(sessionColumns[2:], "%s = excluded.%s") + " RETURNING id"

// assignments lists names in a form that has them twice.
func assignments(names []string, form string) string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = strings.ReplaceAll(form, "%s", name)
	}
	return strings.Join(out, ", ")
}

// putSession replaces the row of a session and returns its id.
func (w *writing) putSession(e *entry) (id int64, err error) {
	if err := w.run("DELETE FROM removed WHERE namespace = ? AND session = ?", e.Namespace, e.Session.Session); err != nil {
		return 0, err
	}
	labels := ""
	if len(e.Labels) > 0 {
		data, err := json.Marshal(e.Labels)
		if err != nil {
			return 0, err
		}
		labels = string(data)
	}
	_, err = w.get(putSession, []any{
		e.Namespace, e.Session.Session, w.sequence,
		e.Listed, e.Store, e.Team, string(e.Status), strings.Join(e.Phases, " "), nanosecondsOf(e.StartedAt), nanosecondsOf(e.ClosedAt), e.day(), nanoseconds(e.UpdatedAt),
		e.Incarnation, e.Run, e.FirstRun, e.Origin,
		e.Requests, nanosecondsOf(e.WaitingSince), e.Answers, int64(e.Waited), e.Approvals, int64(e.Approving), nanosecondsOf(e.AlertedAt), e.Tokens, int64(e.CostUSD), labels, e.Reason, e.Requirement, e.search(),
	}, &id)
	return id, err
}

var addFact = "INSERT INTO facts VALUES (?, ?, ?, ?, ?, ?, ?, ?" + strings.Repeat(", ?", len(figures)) + ")"

// putFacts adds the facts of a session.
func (w *writing) putFacts(id int64, e *entry) error {
	for i, f := range e.Facts {
		row := []any{f.Kind, id, i, f.Phase, f.Persona, f.Agent, f.Model, f.Date}
		for _, n := range f.Numbers {
			row = append(row, n)
		}
		if err := w.run(addFact, row...); err != nil {
			return err
		}
	}
	return nil
}

// removeFacts removes the facts of a session.
func (w *writing) removeFacts(name []any) error {
	return w.run("DELETE FROM facts WHERE kind IN (0, 1, 2, 3) AND session = (SELECT id FROM sessions WHERE namespace = ? AND session = ?)", name...)
}

// remove removes sessions that the store does not have any more, unless another process has read
// them since.
func (x *Index) remove(ctx context.Context, namespace string, gone map[string]seen) (removed int, err error) {
	err = x.write(ctx, func(w *writing) error {
		removed = 0
		for name, known := range gone {
			key := []any{namespace, name}
			there, err := w.get("DELETE FROM seen WHERE namespace = ? AND session = ? AND modified = ? RETURNING 1", append(key, known.modified), new(int64))
			if err != nil {
				return err
			}
			if !there {
				continue
			}
			w.sequence++
			removed++
			if err := errors.Join(w.removeFacts(key), w.run("DELETE FROM sessions WHERE namespace = ? AND session = ?", key...),
				w.run("INSERT OR REPLACE INTO removed VALUES (?, ?, ?)", append(key, w.sequence)...)); err != nil {
				return err
			}
		}
		return nil
	})
	return removed, err
}
