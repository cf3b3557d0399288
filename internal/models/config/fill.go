package config

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/spec"
)

// fill copies plain data into a Go value whose struct fields have yaml tags. It reports only values
// that types with their own text format reject. It skips values of a wrong type: the schema reports
// those.
func (d *document) fill(v any, into reflect.Value, path string) {
	if v == nil {
		return
	}
	if into.Kind() == reflect.Pointer {
		into.Set(reflect.New(into.Type().Elem()))
		d.fill(v, into.Elem(), path)
		return
	}
	if d.own(v, into, path) {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		d.fillMapping(v, into, path)
	case []any:
		d.fillList(v, into, path)
	case string:
		if into.Kind() == reflect.String {
			into.SetString(v)
		}
	case bool:
		if into.Kind() == reflect.Bool {
			into.SetBool(v)
		}
	case json.Number:
		f, _ := v.Float64() // it was made of one
		switch {
		case into.CanInt():
			into.SetInt(int64(f))
		case into.CanFloat():
			into.SetFloat(f)
		}
	}
}

// own fills in types that read their own text, and plain data. It returns false for other types.
func (d *document) own(v any, into reflect.Value, path string) bool {
	if into.Kind() == reflect.Interface {
		data, _ := json.Marshal(v) // plain data, in the types that JSON's reader would use
		_ = json.Unmarshal(data, into.Addr().Interface())
		return true
	}
	target, ok := into.Addr().Interface().(encoding.TextUnmarshaler)
	text, scalar := d.texts[path]
	if !ok || !scalar {
		return false
	}
	if number, ok := v.(json.Number); ok {
		text = string(number)
	}
	if err := target.UnmarshalText([]byte(text)); err != nil {
		d.report(path, "%s", visible(err.Error()))
	}
	return true
}

func (d *document) fillMapping(values map[string]any, into reflect.Value, path string) {
	switch into.Kind() { //nolint:exhaustive // Nothing else is a mapping.
	case reflect.Struct:
		for i := range into.NumField() {
			field := into.Type().Field(i)
			name, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
			v, ok := values[name]
			if !ok || name == "-" {
				continue
			}
			below := spec.FieldPath(path, name)
			d.fill(v, into.Field(i), below)
			if bounds := field.Tag.Get("between"); bounds != "" && d.texts[below] != "" {
				d.between(into.Field(i), bounds, below)
			}
		}
	case reflect.Map:
		into.Set(reflect.MakeMap(into.Type()))
		for name, v := range values {
			entry := reflect.New(into.Type().Elem()).Elem()
			d.fill(v, entry, spec.FieldPath(path, name))
			into.SetMapIndex(reflect.ValueOf(name).Convert(into.Type().Key()), entry)
		}
	}
}

// between checks that a duration or size is within the bounds in its field's tag, like "1s 168h". A
// schema cannot check this.
func (d *document) between(v reflect.Value, bounds, path string) {
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	least, most := reflect.New(v.Type()), reflect.New(v.Type())
	low, high, _ := strings.Cut(bounds, " ")
	for text, bound := range map[string]reflect.Value{low: least, high: most} {
		if err := bound.Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(text)); err != nil {
			panic(fmt.Sprintf("config: the bounds of %s: %v", path, err))
		}
	}
	if v.Int() < least.Elem().Int() || v.Int() > most.Elem().Int() {
		d.report(path, "is %v; it must be between %v and %v", v, least.Elem(), most.Elem())
	}
}

// fillList fills a list. In a list of texts, numbers and true and false are taken as they are
// written, because arguments of programs need that.
func (d *document) fillList(list []any, into reflect.Value, path string) {
	if into.Kind() != reflect.Slice {
		return
	}
	into.Set(reflect.MakeSlice(into.Type(), len(list), len(list)))
	for i, v := range list {
		below := spec.ItemPath(path, i)
		if text, ok := d.texts[below]; ok && into.Type().Elem().Kind() == reflect.String && v != nil {
			list[i] = text
			into.Index(i).SetString(text)
			continue
		}
		d.fill(v, into.Index(i), below)
	}
}
