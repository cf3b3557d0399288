package state

import (
	"context"

	"github.com/maestro-hive/maestro/internal/core/session"
)

// changed gives a session the next number of a change. A team's day, which has no session, has none.
func (t *Tx) changed(s session.Key) error {
	if s.Session == "" {
		return nil
	}
	if err := t.lock("changes"); err != nil {
		return err
	}
	_, err := t.exec(`insert into changes (name, number) values ($1, (select coalesce(max(number), 0) + 1 from changes))
		on conflict (name) do update set number = excluded.number`, s.Namespace+"/"+s.Session)
	return err
}

// Position is the last change that a reader has seen. The zero Position is before all changes.
type Position struct {
	// Installation identifies the database: numbers of another one mean nothing.
	Installation string
	Number       int64
}

// Change is the last change of a session.
type Change struct {
	Session string
	Number  int64
}

// Changes lists the sessions of a namespace that have changed since a position, in the order of their last changes, and the
// new position of the reader. reset: the position is of another database, so that all may have changed.
func (d *DB) Changes(ctx context.Context, namespace string, after Position) (changes []Change, now Position, reset bool,
	err error,
) {
	err = d.Read(ctx, func(t *Tx) error {
		if now, err = t.position(); err != nil {
			return err
		}
		if reset = after != (Position{}) && (after.Installation != now.Installation || after.Number > now.Number ||
			after.Number < 0); reset {
			return nil
		}
		changes, err = query[Change](t, `select substr(name, length($2) + 1), number from changes
			where number > $1 and name >= $2 and name < $3 order by number`,
			after.Number, namespace+"/", namespace+"0")
		return err
	})
	return changes, now, reset, err
}

func (t *Tx) position() (p Position, err error) {
	err = t.row(`select id, (select coalesce(max(number), 0) from changes) from installation`).Scan(&p.Installation, &p.Number)
	return p, err
}
