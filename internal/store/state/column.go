package state

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/maestro-hive/maestro/internal/core/spec"
)

// column is a column of a table with a pointer to the field that it is read into and written from: a text, a number, a
// flag, a [moment], a [document], or a [database/sql.Null].
type column struct {
	name  string
	field any
}

// value is what is stored.
func (c column) value() any {
	if v, ok := c.field.(driver.Valuer); ok {
		value, _ := v.Value() // those of Null do not fail
		return value
	}
	switch v := reflect.ValueOf(c.field).Elem(); v.Kind() {
	case reflect.Bool:
		if v.Bool() {
			return int64(1)
		}
		return int64(0)
	case reflect.String:
		return v.String()
	default:
		return v.Int()
	}
}

// moment is a time in a column: microseconds, and null for the zero time.
type moment struct{ at *time.Time }

// Scan implements [database/sql.Scanner].
func (m moment) Scan(value any) error {
	var micros sql.Null[int64]
	err := micros.Scan(value)
	*m.at = time.Time{}
	if micros.Valid {
		*m.at = timeOf(micros.V)
	}
	return err
}

// Value implements [driver.Valuer].
func (m moment) Value() (driver.Value, error) {
	if m.at.IsZero() {
		return nil, nil //nolint:nilnil // null
	}
	return m.at.UnixMicro(), nil
}

// optional is a moment that may be nil.
type optional struct{ at **time.Time }

// Scan implements [database/sql.Scanner].
func (o optional) Scan(value any) error {
	var at time.Time
	err := moment{&at}.Scan(value)
	if *o.at = nil; !at.IsZero() {
		*o.at = &at
	}
	return err
}

// Value implements [driver.Valuer].
func (o optional) Value() (driver.Value, error) {
	if *o.at == nil {
		return nil, nil //nolint:nilnil // null
	}
	return moment{*o.at}.Value()
}

func timeOf(micros int64) time.Time { return time.UnixMicro(micros).UTC() }

// document is what no statement looks into, as JSON in a column.
type document struct{ of any }

// Scan implements [database/sql.Scanner].
func (d document) Scan(value any) error {
	var text sql.Null[string]
	if err := text.Scan(value); err != nil {
		return err
	}
	return json.Unmarshal([]byte(text.V), d.of)
}

// Value implements [driver.Valuer].
func (d document) Value() (driver.Value, error) {
	data, err := json.Marshal(d.of)
	return string(data), err
}

// columns are those of one row, in the order of its statements.
type columns []column

// columnsOf are the columns of the struct that row points to, in the order of its fields. A column has the name of its field in
// snake case, unless the tag sql names another one. The tag - leaves a field out. The tag * takes the columns of a struct in
// place of one JSON text, and x_* takes them with the prefix x_. Those of an embedded struct are always taken.
func columnsOf(row any) columns { return columnsIn(reflect.ValueOf(row).Elem(), "") }

func columnsIn(row reflect.Value, prefix string) (all columns) {
	for i := range row.NumField() {
		field := row.Type().Field(i)
		name := field.Tag.Get("sql")
		switch inner, ok := strings.CutSuffix(name, "*"); {
		case name == "-":
		case ok || field.Anonymous:
			all = append(all, columnsIn(row.Field(i), prefix+inner)...)
		default:
			all = append(all, column{prefix + cmp.Or(name, snakeCase(field.Name)), stored(row.Field(i))})
		}
	}
	return all
}

// stored is a pointer to a field, or what converts the field for the database.
func stored(field reflect.Value) any {
	pointer := field.Addr().Interface()
	switch at := pointer.(type) {
	case sql.Scanner:
		return at
	case *time.Time:
		return moment{at}
	case **time.Time:
		return optional{at}
	}
	switch field.Kind() {
	case reflect.Struct, reflect.Map, reflect.Slice, reflect.Pointer:
		return document{pointer}
	default:
		return pointer
	}
}

// snakeCase makes closed_at of ClosedAt, and person_id of PersonID.
func snakeCase(name string) string {
	var out strings.Builder
	for i, r := range name {
		if i > 0 && unicode.IsUpper(r) && !unicode.IsUpper(rune(name[i-1])) {
			out.WriteByte('_')
		}
		out.WriteRune(unicode.ToLower(r))
	}
	return out.String()
}

func (c columns) fields() []any {
	fields := make([]any, len(c))
	for i := range c {
		fields[i] = c[i].field
	}
	return fields
}

func (c columns) values() []any {
	values := make([]any, len(c))
	for i := range c {
		values[i] = c[i].value()
	}
	return values
}

// names is a list like "id, name".
func (c columns) names() string { return c.list(func(i int) string { return c[i].name }) }

// places is a list like "$1, $2".
func (c columns) places() string {
	return c.list(func(i int) string { return "$" + strconv.Itoa(i+1) })
}

// assignments is a list like "id = $1, name = $2".
func (c columns) assignments() string {
	return c.list(func(i int) string { return c[i].name + " = $" + strconv.Itoa(i+1) })
}

func (c columns) list(item func(i int) string) string {
	items := make([]string, len(c))
	for i := range c {
		items[i] = item(i)
	}
	return strings.Join(items, ", ")
}

// withDigest adds the digest of the others as the last column.
func (c columns) withDigest() columns {
	digest := c.digest()
	return append(c, column{"digest", &digest})
}

// digest is the SHA-256 of the values: a row whose digest differs is damaged.
func (c columns) digest() string {
	data, _ := json.Marshal(cleaned(c.values())) // texts, numbers and nulls
	return string(spec.DigestOf(data))
}

// insert inserts a row.
func (t *Tx) insert(table string, row columns) error {
	_, err := t.exec("insert into "+table+" ("+row.names()+") values ("+row.places()+")", row.values()...)
	return err
}

// insertNew inserts a row, unless there is one with the same key or name.
func (t *Tx) insertNew(table string, row columns) (added bool, err error) {
	n, err := t.exec("insert into "+table+" ("+row.names()+") values ("+row.places()+") on conflict do nothing", row.values()...)
	return n > 0, err
}

// put inserts a row, or replaces the one with the same key if a condition holds. The condition calls the new row excluded.
func (t *Tx) put(table, key string, row columns, condition string) error {
	replaced := row.list(func(i int) string { return row[i].name + " = excluded." + row[i].name })
	_, err := t.exec("insert into "+table+" ("+row.names()+") values ("+row.places()+") on conflict ("+key+") do update set "+
		replaced+" where "+condition, row.values()...)
	return err
}

// get reads the row of a table that what selects, which begins with a condition or an order.
func (t *Tx) get(row any, table, what string, args ...any) error {
	all := columnsOf(row)
	return t.row("select "+all.names()+" from "+table+" "+what, args...).Scan(all.fields()...)
}

// one reads the row of a table that what selects. The error is [ErrNotFound] if there is none.
func one[R any](ctx context.Context, d *DB, table, what string, args ...any) (row R, err error) {
	err = d.Read(ctx, func(t *Tx) error { return t.get(&row, table, what, args...) })
	return row, err
}

// list reads the rows of a table that what selects.
func list[R any](ctx context.Context, d *DB, table, what string, args ...any) ([]R, error) {
	return read(ctx, d, func(t *Tx) ([]R, error) {
		return query[R](t, "select "+columnsOf(new(R)).names()+" from "+table+" "+what, args...)
	})
}

// query reads rows with the values of the columns of R, in their order.
func query[R any](t *Tx, statement string, args ...any) (rows []R, err error) {
	err = t.each(func(r *sql.Rows) error {
		rows = append(rows, *new(R))
		return r.Scan(columnsOf(&rows[len(rows)-1]).fields()...)
	}, statement, args...)
	return rows, err
}
