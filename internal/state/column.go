package state

import (
	"crypto/sha256"
	"database/sql/driver"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
)

// column is a column of a table with a pointer to the field that it is read into and written from: a text, a number, a
// flag, or a [database/sql.Null].
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

// columns are those of one row, in the order of its statements.
type columns []column

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
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
