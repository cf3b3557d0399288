package state

import (
	"context"
	"database/sql"

	"github.com/maestro-hive/maestro/internal/session"
)

// changed gives a session, or without one its team, the next number of a change.
func (t *Tx) changed(s session.Key, team string) error {
	if err := t.lock("changes"); err != nil {
		return err
	}
	now, err := t.Now()
	if err != nil {
		return err
	}
	topic, name := "session", s.Namespace+"/"+s.Session
	if s.Session == "" {
		topic, name = "team", team
	}
	_, err = t.exec(`insert into changes (topic, name, number, at) values ($1, $2, (select coalesce(max(number), 0) + 1 from changes), $3)
		on conflict (topic, name) do update set number = excluded.number, at = excluded.at`, topic, name, now)
	return err
}

// Changes are the numbers of the last change of each session of a namespace, by name.
func (d *DB) Changes(ctx context.Context, namespace string) (numbers map[string]int64, err error) {
	err = d.Read(ctx, func(t *Tx) error {
		numbers = map[string]int64{}
		return t.each(func(r *sql.Rows) error {
			var name string
			var number int64
			err := r.Scan(&name, &number)
			numbers[name[len(namespace)+1:]] = number
			return err
		}, `select name, number from changes where topic = 'session' and name >= $1 and name < $2`, namespace+"/", namespace+"0")
	})
	return numbers, err
}
