package main

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/invopop/jsonschema"
)

// What names, variables and addresses look like.
const (
	namePattern     = `^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$`
	variablePattern = `^[A-Za-z_][A-Za-z0-9_]*$`
	addressPattern  = `^[hH][tT][tT][pP][sS]?://[^/?#@]+(/[^?#]*)?[?]?#?$`
	filled          = `[^ \t\r\n]`
)

// between bounds a number.
func between(least, most int64) rule {
	return func(s *jsonschema.Schema) {
		s.Minimum = json.Number(strconv.FormatInt(least, 10))
		s.Maximum = json.Number(strconv.FormatInt(most, 10))
	}
}

// money bounds an amount of dollars that may not be 0; most is 0 for no bound.
func money(most int64) rule {
	return func(s *jsonschema.Schema) {
		s.ExclusiveMinimum = "0"
		if most > 0 {
			s.Maximum = json.Number(strconv.FormatInt(most, 10))
		}
	}
}

// matching holds text to patterns, all of them.
func matching(patterns ...string) rule {
	return func(s *jsonschema.Schema) {
		for _, p := range patterns {
			if s.Pattern == "" {
				s.Pattern = p
				continue
			}
			s.AllOf = append(s.AllOf, &jsonschema.Schema{Pattern: p})
		}
	}
}

// unlike refuses text that matches any of the patterns.
func unlike(patterns ...string) rule {
	return func(s *jsonschema.Schema) {
		s.AllOf = append(s.AllOf, &jsonschema.Schema{Not: &jsonschema.Schema{Type: "string", Pattern: strings.Join(patterns, "|")}})
	}
}

// longest bounds text, in characters.
func longest(characters uint64) rule {
	return func(s *jsonschema.Schema) { s.MaxLength = &characters }
}

// one lists the words that text may be.
func one[T ~string](words ...T) rule {
	return func(s *jsonschema.Schema) {
		s.Enum = nil
		for _, w := range words {
			s.Enum = append(s.Enum, w)
		}
	}
}

// orZero lets a duration be nothing at all, too.
func orZero(s *jsonschema.Schema) {
	s.AnyOf = []*jsonschema.Schema{{Ref: s.Ref}, {Extras: map[string]any{"const": "0s"}}}
	s.Ref = ""
}

// always is the one value that there is.
func always(value any) rule { return func(s *jsonschema.Schema) { s.Const = value } }

// otherwise says what holds where the key is left out.
func otherwise(value any) rule { return func(s *jsonschema.Schema) { s.Default = value } }

// entries bounds how many entries a list or mapping has; most is 0 for no bound.
func entries(least, most uint64) rule {
	return func(s *jsonschema.Schema) {
		bounds := [2]**uint64{&s.MinItems, &s.MaxItems}
		if s.Type == "object" {
			bounds = [2]**uint64{&s.MinProperties, &s.MaxProperties}
		}
		for i, n := range []uint64{least, most} {
			if n > 0 {
				*bounds[i] = &n
			}
		}
	}
}

// once refuses lists that have an entry twice.
func once(s *jsonschema.Schema) { s.UniqueItems = true }

// each holds every entry of a list to rules.
func each(rules ...rule) rule {
	return func(s *jsonschema.Schema) {
		for _, r := range rules {
			r(s.Items)
		}
	}
}

// keys holds the keys of a mapping to rules.
func keys(rules ...rule) rule {
	return func(s *jsonschema.Schema) {
		s.PropertyNames = &jsonschema.Schema{}
		for _, r := range rules {
			r(s.PropertyNames)
		}
	}
}

// values holds the values of a mapping to rules.
func values(rules ...rule) rule {
	return func(s *jsonschema.Schema) {
		if s.AdditionalProperties == nil {
			s.AdditionalProperties = &jsonschema.Schema{}
		}
		for _, r := range rules {
			r(s.AdditionalProperties)
		}
	}
}

// referring makes a schema one that is defined elsewhere.
func referring(name string) rule {
	return func(s *jsonschema.Schema) { s.Ref = "#/$defs/" + name }
}

// together joins rules into one.
func together(rules ...rule) rule {
	return func(s *jsonschema.Schema) {
		for _, r := range rules {
			r(s)
		}
	}
}

// optional takes keys out of those that are required.
func optional(s *jsonschema.Schema) { s.Required = nil }

// either requires one of two keys; with both refuses having both.
func either(a, b string, both bool) rule {
	return func(s *jsonschema.Schema) {
		choice := []*jsonschema.Schema{{Required: []string{a}}, {Required: []string{b}}}
		if both {
			s.AnyOf = choice
		} else {
			s.OneOf = choice
		}
	}
}

// field is a key of a mapping and what it is held to.
type field struct {
	key string
	is  *jsonschema.Schema
}

// having is a mapping whose keys, where they are there, are as the fields say.
func having(fields ...field) *jsonschema.Schema {
	s := &jsonschema.Schema{Properties: jsonschema.NewProperties()}
	for _, f := range fields {
		s.Properties.Set(f.key, f.is)
	}
	return s
}

// without is a mapping that has none of the keys.
func without(keys ...string) *jsonschema.Schema {
	var fields []field
	for _, k := range keys {
		fields = append(fields, field{k, jsonschema.FalseSchema})
	}
	return having(fields...)
}

// when holds a mapping in which a key has a value to something.
func when(key string, value any, then ...*jsonschema.Schema) rule {
	return given(field{key, &jsonschema.Schema{Const: value}}, then...)
}

// given holds a mapping in which a key is there, and is as it says, to something.
func given(f field, then ...*jsonschema.Schema) rule {
	return func(s *jsonschema.Schema) {
		condition := having(f)
		condition.Required = []string{f.key}
		s.AllOf = append(s.AllOf, &jsonschema.Schema{If: condition, Then: &jsonschema.Schema{AllOf: then}})
	}
}

func requiring(keys ...string) *jsonschema.Schema { return &jsonschema.Schema{Required: keys} }
