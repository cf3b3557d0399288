package main

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/models/agent"
)

// table is the reference of one type: a Markdown table of its keys.
type table struct{ of, text string }

// marker is where a page has the table of a type, up to the next end.
var marker = regexp.MustCompile(`(?s)<!-- keys of (\w+), by .*? -->\n.*?<!-- end of keys -->`)

// fill writes tables into a page, at their markers. It fails unless each has one.
func fill(page string, tables []table) (string, error) {
	var wrong []string
	filled := map[string]bool{}
	page = marker.ReplaceAllStringFunc(page, func(old string) string {
		of := marker.FindStringSubmatch(old)[1]
		i := slices.IndexFunc(tables, func(t table) bool { return t.of == of })
		if i < 0 || filled[of] {
			wrong = append(wrong, "there is no table of "+of+", or it is there already")
			return old
		}
		filled[of] = true
		return "<!-- keys of " + of + ", by `go generate ./docs/schema` from the type's docstrings -->\n\n" + tables[i].text +
			"\n<!-- end of keys -->"
	})
	for _, t := range tables {
		if !filled[t.of] {
			wrong = append(wrong, "it has no place for the keys of "+t.of)
		}
	}
	if len(wrong) > 0 {
		return "", fmt.Errorf("%s", strings.Join(wrong, "; "))
	}
	return page, nil
}

// tables are those of all types of a schema that have keys.
func (d document) tables(s *jsonschema.Schema) ([]table, error) {
	types := map[string]*jsonschema.Schema{reflect.TypeOf(d.of).Name(): s}
	for name, t := range s.Definitions {
		if t.Properties != nil {
			types[name] = t
		}
	}
	var all []table
	for name, t := range types {
		var b strings.Builder
		fmt.Fprintf(&b, "<a id=%q></a>\n\n", keysOf(name))
		b.WriteString("| key | value | default | meaning |\n|---|---|---|---|\n")
		for p := t.Properties.Oldest(); p != nil; p = p.Next() {
			fmt.Fprintf(&b, "| <a id=%q></a>`%s` | %s | %s | %s |\n", anchor(name, p.Key), p.Key, cell(value(p.Value)),
				cell(unset(name, t, p.Key, p.Value)), cell(meaning(p.Value.Description)))
		}
		all = append(all, table{name, b.String()})
	}
	slices.SortFunc(all, func(a, b table) int { return strings.Compare(a.of, b.of) })
	return all, nil
}

// called is what people call a type whose name in the code says something else.
func called(of string) string {
	switch of {
	case "Definition":
		return "Agent"
	case "CheckDefinition":
		return "Check"
	case "Config":
		return "Worker"
	}
	return of
}

// keysOf is where a link finds a type's table: `keys-of-persona`.
func keysOf(of string) string { return "keys-of-" + strings.ToLower(called(of)) }

// anchor is where a link finds a key: `persona-role`, `help-jira-project`.
func anchor(of, key string) string {
	words := regexp.MustCompile(`[a-z][A-Z]`).ReplaceAllStringFunc(called(of), func(s string) string { return s[:1] + "-" + s[1:] })
	return strings.ToLower(words) + "-" + strings.ReplaceAll(key, "_", "-")
}

// cell keeps text from ending its cell.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

var subject = regexp.MustCompile(`^(\w+) (?:(?:is|are) )?`)

// meaning is a docstring without its subject, which stands at the row's beginning.
func meaning(doc string) string {
	rest := doc[len(subject.FindString(doc)):]
	if rest == "" {
		return doc
	}
	return strings.ToUpper(rest[:1]) + rest[1:]
}

// value says what a key may be: its kind, its words and its bounds.
func value(s *jsonschema.Schema) string {
	if name, ok := strings.CutPrefix(s.Ref, "#/$defs/"); ok && len(s.Enum) == 0 && s.Type == "" {
		return reference(name) + bounds(s)
	}
	switch {
	case len(s.Enum) > 0:
		var words []string
		for _, w := range s.Enum {
			words = append(words, fmt.Sprintf("`%v`", w))
		}
		return strings.Join(words, ", ")
	case s.Type == "boolean":
		return "`true`, `false`"
	case s.Type == "integer" || s.Type == "number":
		return "number" + bounds(s)
	case s.Type == "array":
		return strings.TrimSpace("list of " + plural(s) + amount(s.MinItems, s.MaxItems))
	case s.Type == "object":
		return "mapping of " + named(s) + amount(s.MinProperties, s.MaxProperties)
	}
	return text(s)
}

// reference names a type, or links to its keys.
func reference(name string) string {
	switch name {
	case "Duration":
		return "duration"
	case "ByteSize":
		return "size"
	case "USD":
		return "US dollars"
	case "Category":
		return "[category](team-file.md#what-happens-to-a-failed-attempt)"
	case "Plain":
		return "plain data"
	case "Network":
		return "`host`, `none`, list of hosts"
	case "Approval":
		return fmt.Sprintf("`true`, `false`, [mapping](#%s)", keysOf(name))
	}
	return fmt.Sprintf("[mapping](#%s)", keysOf(name))
}

// text says what text may be.
func text(s *jsonschema.Schema) string {
	kind := "text"
	if s.Ref != "" {
		kind = shapes[strings.TrimPrefix(s.Ref, "#/$defs/")].called
	}
	if s.MaxLength != nil {
		return fmt.Sprintf("%s, up to %s characters", kind, thousands(int64(*s.MaxLength))) //nolint:gosec // small
	}
	return kind
}

// plural says what a list has.
func plural(s *jsonschema.Schema) string {
	name := strings.TrimPrefix(s.Items.Ref, "#/$defs/")
	shape, ok := shapes[name]
	switch {
	case name == "Category":
		return "[categories](team-file.md#what-happens-to-a-failed-attempt)"
	case ok:
		return shape.called + "s"
	case name != "":
		return fmt.Sprintf("[mappings](#%s)", keysOf(name))
	}
	return "numbers" + bounds(s.Items)
}

// named says what a mapping has.
func named(s *jsonschema.Schema) string {
	key := shapes[strings.TrimPrefix(s.PropertyNames.Ref, "#/$defs/")].called + "s"
	if key == "s" {
		key = "[categories](team-file.md#what-happens-to-a-failed-attempt)"
	}
	of := value(s.AdditionalProperties)
	if name, ok := strings.CutPrefix(s.AdditionalProperties.Ref, "#/$defs/"); ok && strings.HasPrefix(of, "[mapping]") {
		of = fmt.Sprintf("[mappings](#%s)", keysOf(name))
	}
	return key + " to " + of
}

// bounds says how small and how large a number may be.
func bounds(s *jsonschema.Schema) string {
	least, most := string(s.Minimum), string(s.Maximum)
	switch {
	case s.Extras["x-between"] != nil:
		return ", " + s.Extras["x-between"].(string)
	case s.ExclusiveMinimum != "" && s.ExclusiveMaximum != "":
		return " between " + string(s.ExclusiveMinimum) + " and " + string(s.ExclusiveMaximum)
	case s.ExclusiveMinimum != "" && most != "":
		return " above " + string(s.ExclusiveMinimum) + ", up to " + digits(most)
	case s.ExclusiveMinimum != "":
		return " above " + string(s.ExclusiveMinimum)
	case least != "" && most != "":
		return ", " + digits(least) + " to " + digits(most)
	case least != "":
		return ", from " + digits(least)
	}
	return ""
}

// amount says how many entries there may be.
func amount(least, most *uint64) string {
	switch {
	case most != nil && least != nil && *least > 0:
		return fmt.Sprintf(", %d to %s", *least, thousands(int64(*most))) //nolint:gosec // small
	case most != nil:
		return fmt.Sprintf(", up to %s", thousands(int64(*most))) //nolint:gosec // small
	case least != nil && *least > 0:
		return fmt.Sprintf(", at least %d", *least)
	}
	return ""
}

// digits groups a number's digits.
func digits(number string) string {
	var n int64
	if _, err := fmt.Sscan(number, &n); err != nil {
		return number
	}
	return thousands(n)
}

func thousands(n int64) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return thousands(n/1000) + fmt.Sprintf(",%03d", n%1000)
}

// unset says what holds where a key is left out: that it may not be, what the schema
// says, or what the worker fills in for each kind of agent.
func unset(of string, t *jsonschema.Schema, key string, s *jsonschema.Schema) string {
	switch {
	case slices.Contains(t.Required, key):
		return "required"
	case s.Default != nil:
		return fmt.Sprintf("`%v`", s.Default)
	case of == "Definition":
		return byKind(key)
	case of == "Breaker" && key == "counts":
		var counted []string
		for _, c := range failures.Categories() {
			if (spec.Breaker{}).Weigh(c) == failures.CountsAsFailure {
				counted = append(counted, fmt.Sprintf("`%s`", c))
			}
		}
		return strings.Join(counted, ", ")
	}
	return ""
}

// byKind is the number that the worker fills in for each kind of agent.
func byKind(key string) string {
	kinds := map[string]agent.Definition{
		agent.KindCommand: {Kind: agent.KindCommand}, agent.KindModel: {Kind: agent.KindModel},
		"preset claude": {Kind: agent.KindCommand, Preset: "claude"}, agent.KindDelivery: {Kind: agent.KindDelivery},
	}
	filled := agent.Config{Agents: kinds}.WithDefaults().Agents
	var values []string
	of := map[string][]string{}
	for _, kind := range []string{agent.KindCommand, "preset claude", agent.KindModel, agent.KindDelivery} {
		v := reflect.ValueOf(filled[kind])
		for i := range v.NumField() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
			if name != key || !v.Field(i).CanInt() || v.Field(i).IsZero() {
				continue
			}
			value := fmt.Sprintf("`%v`", v.Field(i).Interface())
			if kind == "preset claude" && slices.Contains(of[value], agent.KindCommand) {
				continue
			}
			if of[value] == nil {
				values = append(values, value)
			}
			of[value] = append(of[value], kind)
		}
	}
	var all []string
	for _, value := range values {
		all = append(all, value+" for "+strings.Join(of[value], ", "))
	}
	return strings.Join(all, "; ")
}
