package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/models/agent"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/backup"
)

// tagged applies the tags that the library does not know, or not on such a field, to a
// field's schema and to that of the struct it is in.
//
//   - jsonschema: the library's own, here also on mappings and on types of ours, and
//     format, which is one of the shapes;
//   - keys: the shape of a mapping's keys; without it they are names;
//   - between: the bounds of a duration or size, which the loader holds it to;
//   - example: what a message on a missing field shows;
//   - only, needed: "kind=a b" restricts the field to those kinds, or requires it of
//     them. With or, another field does in its place.
func tagged(owner, s *jsonschema.Schema, f reflect.StructField, key string) error {
	shown := map[string]any{"x-example": f.Tag.Get("example"), "x-between": strings.ReplaceAll(f.Tag.Get("between"), " ", " to ")}
	for name, text := range shown {
		if text != "" {
			extra(s, name, text)
		}
	}
	t := f.Type
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	entries := s
	if t.Kind() == reflect.Map {
		if t.Elem().Kind() == reflect.Interface {
			s.AdditionalProperties = &jsonschema.Schema{Ref: "#/$defs/Plain"}
		}
		entries = s.AdditionalProperties
		s.PropertyNames = keysOfMap(t, f.Tag.Get("keys"))
	}
	if s.Ref != "" || t.Kind() == reflect.Map {
		unread(s, entries, strings.Split(f.Tag.Get("jsonschema"), ","))
	}
	for _, text := range []*jsonschema.Schema{s, s.Items, entries} {
		if text == nil || text.Format == "" {
			continue
		}
		if _, ok := shapes[text.Format]; !ok {
			return fmt.Errorf("%s names a format that there is not: %s", f.Name, text.Format)
		}
		text.Ref, text.Format = "#/$defs/"+text.Format, ""
	}
	conditions(owner, f, key)
	return nil
}

func extra(s *jsonschema.Schema, name string, value any) {
	if s.Extras == nil {
		s.Extras = map[string]any{}
	}
	s.Extras[name] = value
}

func keysOfMap(t reflect.Type, format string) *jsonschema.Schema {
	if _, ok := scalars()[t.Key().Name()]; ok {
		format = t.Key().Name()
	} else if format == "" {
		format = "name"
	}
	return &jsonschema.Schema{Ref: "#/$defs/" + format}
}

// unread applies those of the library's tags that it does not read on mappings and on
// types that are defined elsewhere.
func unread(s, entries *jsonschema.Schema, tags []string) {
	for _, tag := range tags {
		name, value, _ := strings.Cut(tag, "=")
		n, _ := strconv.ParseUint(value, 10, 64) // texts are not used
		switch name {
		case "minimum":
			s.Minimum = json.Number(value)
		case "maximum":
			s.Maximum = json.Number(value)
		case "exclusiveMinimum":
			s.ExclusiveMinimum = json.Number(value)
		case "minProperties":
			s.MinProperties = &n
		case "maxProperties":
			s.MaxProperties = &n
		case "maxLength":
			entries.MaxLength = &n
		case "format":
			entries.Format = value
		case "enum":
			s.Enum = append(s.Enum, value)
		}
	}
}

// conditions adds what the tags only and needed say to the schema of a field's struct.
func conditions(owner *jsonschema.Schema, f reflect.StructField, key string) {
	when := func(field string, values []any, then *jsonschema.Schema) {
		is := jsonschema.NewProperties()
		is.Set(field, &jsonschema.Schema{Enum: values})
		owner.AllOf = append(owner.AllOf, &jsonschema.Schema{
			If:   &jsonschema.Schema{Properties: is, Required: []string{field}},
			Then: then,
		})
	}
	if field, values, ok := strings.Cut(f.Tag.Get("only"), "="); ok {
		of, _ := owner.Properties.Get(field)
		named := strings.Fields(values)
		others := slices.DeleteFunc(slices.Clone(of.Enum), func(v any) bool { return slices.Contains(named, v.(string)) })
		nothing := jsonschema.NewProperties()
		nothing.Set(key, jsonschema.FalseSchema)
		when(field, others, &jsonschema.Schema{Properties: nothing, Extras: map[string]any{
			"errorMessage": fmt.Sprintf("belongs to %s %s; leave it out", field, strings.Join(named, " or ")),
		}})
	}
	if field, values, ok := strings.Cut(f.Tag.Get("needed"), "="); ok {
		var named []any
		for _, v := range strings.Fields(values) {
			named = append(named, v)
		}
		then := &jsonschema.Schema{Required: []string{key}}
		if other := f.Tag.Get("or"); other != "" {
			then = &jsonschema.Schema{AnyOf: []*jsonschema.Schema{then, {Required: []string{other}}}}
		}
		when(field, named, then)
	}
}

// defaults gives the fields of a struct, and of those in it, the values that the loader
// fills in: those of a value whose defaults are filled in.
func defaults(types map[string]*jsonschema.Schema, v reflect.Value) {
	switch v.Kind() { //nolint:exhaustive // The others have no fields.
	case reflect.Pointer:
		if !v.IsNil() {
			defaults(types, v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			defaults(types, v.Index(i))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			defaults(types, v.MapIndex(key))
		}
	case reflect.Struct:
		s := types[v.Type().Name()]
		for i := range v.NumField() {
			key, option, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
			if p, ok := s.Properties.Get(key); ok {
				field := reflect.Indirect(v.Field(i))
				plain := field.CanInt() || field.Kind() == reflect.String || field.Kind() == reflect.Bool
				if option == "omitempty" && plain && (field.Kind() == reflect.Bool || !field.IsZero()) {
					p.Default = field.Interface()
				}
				defaults(types, v.Field(i))
			}
		}
	}
}

// resolvedTeam and resolvedWorker have one of everything that has defaults.
func resolvedTeam() any {
	t := spec.Team{
		Phases: []spec.Phase{{SendsBack: &spec.SendsBack{}, Approve: spec.Approval{By: []string{""}}}, {Deliver: &spec.Deliver{}}},
		Help:   spec.Help{Jira: &spec.HelpJira{}}, Alerts: []spec.Alert{{FailureRate: 1}},
	}.Resolved().Written()
	t.Personas = map[string]spec.Persona{"": {}} // its attempts are those of the team
	return t
}

func resolvedWorker() any {
	c := agent.Config{
		Checks: map[string]agent.CheckDefinition{"": {}}, Jira: &agent.Jira{}, Webhook: &agent.Webhook{},
		Retention: agent.Retention{Keep: store.DefaultKeep, OlderThan: textfmt.Duration(store.DefaultOlderThan)},
		Backup:    &agent.Backup{Every: textfmt.Duration(backup.DefaultEvery), Keep: backup.DefaultKeep},
	}.WithDefaults()
	// Of an agent, only what holds for every kind.
	c.Agents = map[string]agent.Definition{"": {
		IdleTimeout: agent.DefaultIdleTimeout, Host: agent.HostGitHub, Breaker: spec.Breaker{}.For(""),
	}}
	return c
}
