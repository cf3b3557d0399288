package state

import (
	"context"
	"strconv"
	"time"
)

// Via is how somebody was authenticated.
type Via string

// Outcome is how a change ended; empty: its end is not recorded.
type Outcome string

// AuditEntry is a row of the audit log: who did what, when and from where.
type AuditEntry struct {
	ID int64     `json:"id"`
	At time.Time `json:"at"`
	// Actor is who did it; empty: nobody was signed in. Owner made the actor, if that is a
	// token or a one-time link.
	Actor string `json:"actor"`
	Owner string `json:"owner,omitempty"`
	// PersonID identifies the person also under another name.
	PersonID string `json:"person_id,omitempty"`
	Via      Via    `json:"via,omitempty"`
	// Program is mcp, or mcp/ with its name, if a program, like an agent, did it over MCP with the actor's rights.
	Program string `json:"program,omitempty"`
	// From is the address that the request came from; empty: the program ran on a host of the
	// store.
	From string `json:"from,omitempty" sql:"address"`
	// Action is what was done, like session.cancel.
	Action  string `json:"action"`
	Session string `json:"session,omitempty"`
	Team    string `json:"team,omitempty"`
	// Subject is what it was done to, besides the session: a phase, a breaker, a token.
	Subject string  `json:"subject,omitempty"`
	Detail  string  `json:"detail,omitempty"`
	Outcome Outcome `json:"outcome"`
	// Error says why it failed or was denied.
	Error   string    `json:"error,omitempty" sql:"failure"`
	EndedAt time.Time `json:"ended_at,omitzero"`
}

// AddAudit adds an entry, and returns it with its id and its time. Entries become visible in the order of their ids, so
// that readers of pages miss none.
func (d *DB) AddAudit(ctx context.Context, e AuditEntry) (AuditEntry, error) {
	err := d.writeAt(ctx, func(t *Tx, now int64) error {
		if err := t.lock("audit"); err != nil {
			return err
		}
		var last, at int64
		if err := t.row(`select id, at from audit order by id desc limit 1`).Scan(&last, &at); err != nil && !isNoRows(err) {
			return err
		}
		e.ID, e.At = last+1, timeOf(max(now, at))
		return t.insert("audit", columnsOf(&e))
	})
	return e, err
}

// EndAudit completes an entry that has no outcome.
func (d *DB) EndAudit(ctx context.Context, id int64, outcome Outcome, failure string) error {
	return d.writeAt(ctx, func(t *Tx, now int64) error {
		_, err := t.exec(`update audit set outcome = $2, failure = $3, ended_at = $4 where id = $1 and outcome = ''`, id,
			string(outcome), failure, now)
		return err
	})
}

// AuditFilter selects entries; what is zero selects all.
type AuditFilter struct {
	// Since and Until are times of entries, with Since and without Until.
	Since, Until time.Time
	// Actor is the actor or the owner.
	Actor         string
	Session, Team string
	// Action is an action, or its noun.
	Action string
	// Before selects entries with a lower id.
	Before int64
	// Limit is the greatest number of entries.
	Limit int
}

// firstAt is the id of the first entry at or after a time.
const firstAt = `coalesce((select id from audit where at >= ? order by at, id limit 1), 9223372036854775807)`

// Audit lists the entries that a filter selects, the newest first.
func (d *DB) Audit(ctx context.Context, f AuditFilter) ([]AuditEntry, error) {
	w := &where{conditions: []string{"true"}}
	if f.Before != 0 {
		w.add("id < ?", f.Before)
	}
	if !f.Since.IsZero() {
		w.add("id >= "+firstAt, f.Since.UnixMicro())
	}
	if !f.Until.IsZero() {
		w.add("id < "+firstAt, f.Until.UnixMicro())
	}
	if f.Actor != "" {
		w.add("(actor = ? or owner = ?)", f.Actor, f.Actor)
	}
	if f.Session != "" {
		w.add("session = ?", f.Session)
	}
	if f.Team != "" {
		w.add("team = ?", f.Team)
	}
	if f.Action != "" {
		w.add("(action = ? or substr(action, 1, length(?) + 1) = ? || '.')", f.Action, f.Action, f.Action)
	}
	return list[AuditEntry](ctx, d, "audit", "where "+w.String()+" order by id desc limit "+strconv.Itoa(f.Limit), w.args...)
}
