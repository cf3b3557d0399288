package index

import (
	"context"
	"database/sql"
	"errors"
	"math"
)

// values are those of one row, read from the left. A value of another kind than expected is
// recorded as an error.
type values struct {
	of    []any
	next  int
	wrong bool
}

// integer is a whole number. A sum that is too large is not damage: it is the largest number.
func (v *values) integer() int64 {
	of := v.of[v.next]
	v.next++
	switch n := of.(type) {
	case int64:
		return n
	case float64:
		if n > 0 {
			return math.MaxInt64
		}
	}
	v.wrong = true
	return 0
}

func (v *values) text() string {
	s, ok := v.of[v.next].(string)
	v.next++
	v.wrong = v.wrong || !ok
	return s
}

// querier is a database, or a transaction in it.
type querier interface {
	QueryContext(ctx context.Context, query string, arguments ...any) (*sql.Rows, error)
}

// each runs a query and calls a function for each row.
func each(ctx context.Context, db querier, query string, arguments []any, row func(v *values) error) (err error) {
	rows, err := db.QueryContext(ctx, query, arguments...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	names, err := rows.Columns()
	if err != nil {
		return err
	}
	v := values{of: make([]any, len(names))}
	into := make([]any, len(names))
	for i := range into {
		into[i] = &v.of[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		v.next = 0
		if err := row(&v); err != nil {
			return err
		}
		if v.wrong {
			return errValue
		}
	}
	return rows.Err()
}
