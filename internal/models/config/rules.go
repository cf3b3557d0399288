package config

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/maestro-hive/maestro/docs/schema"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// schemaURL identifies a schema to the validator. The validator reads nothing from it.
const schemaURL = "https://maestro.invalid/schema.json"

// rules is a schema, compiled for validation and as data.
type rules struct {
	compiled *jsonschema.Schema
	raw      any
	// named are the paths of the entries of a file's mappings, by the mapping's own name and the
	// entry's: the validator does not report the position of a name that it rejects.
	named map[[2]string]string
}

var (
	teamRules   = sync.OnceValue(func() rules { return compile(schema.Team) })
	workerRules = sync.OnceValue(func() rules { return compile(schema.Worker) })
)

// compile prepares an embedded schema.
func compile(data []byte) rules {
	raw, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	c := jsonschema.NewCompiler()
	if err := errors.Join(err, c.AddResource(schemaURL, raw)); err != nil {
		panic("config: the schema: " + err.Error())
	}
	return rules{compiled: c.MustCompile(schemaURL), raw: raw}
}

// check reports what the schema rejects.
func (d *document) check(r rules) {
	var invalid *jsonschema.ValidationError
	if err := r.compiled.Validate(d.root); !errors.As(err, &invalid) {
		return
	}
	r.named = map[[2]string]string{}
	nameAll(d.root, "$", "", r.named)
	found := r.violations(d.root, invalid)
	// An unknown field comes before the field that it probably means.
	slices.SortStableFunc(found, func(a, b violation) int {
		if a.unknown != b.unknown {
			return len(b.unknown) - len(a.unknown)
		}
		return strings.Compare(a.path, b.path)
	})
	for _, v := range found {
		d.oversized = d.oversized || v.oversized
		if v.unknown != "" {
			d.unknown(v)
			continue
		}
		d.report(v.path, "%s", visible(v.message))
	}
}

// violation is a rule that a value violates.
type violation struct {
	path, message string
	// unknown is a field that the mapping at the path must not have; known are the permitted ones.
	unknown   string
	known     []string
	oversized bool
}

// unknown reports a field that a mapping must not have. The field that was probably meant is then
// not reported as missing.
func (d *document) unknown(v violation) {
	meant := textfmt.Nearest(v.unknown, v.known)
	for _, word := range synonyms[strings.ToLower(v.unknown)] {
		if slices.Contains(v.known, word) {
			meant = word
			break
		}
	}
	path := spec.FieldPath(v.path, v.unknown)
	at, ok := d.places[path+keyMark]
	if !ok {
		at = d.locate(path)
	}
	if meant != "" {
		d.add(at, path, "unknown field; did you mean %q?", meant)
		d.broken[spec.FieldPath(v.path, meant)] = true
		return
	}
	d.add(at, path, "unknown field; known here: %s", strings.Join(v.known, ", "))
}

// synonyms maps the field names of other tools' files to ours.
var synonyms = map[string][]string{
	"depends_on": {"needs"}, "dependencies": {"needs"}, "after": {"needs"}, "requires": {"needs"},
	"prompt": {"instructions"}, "system_prompt": {"instructions"}, "prompt_file": {"instructions_file"},
	"retries": {"attempts", "retry"}, "max_attempts": {"attempts"}, "stages": {"phases"}, "steps": {"phases"},
	"agents": {"personas"}, "roles": {"personas"}, "members": {"personas"},
	"outputs": {"produces", "keep"}, "artifacts": {"produces", "keep"}, "exclude": {"ignore"}, "tests": {"checks"},
	"command": {"argv"}, "cmd": {"argv"}, "args": {"argv"}, "run": {"argv"}, "type": {"kind"}, "environment": {"env"},
	"max_tokens": {"tokens", "max_output_tokens"}, "cost": {"usd"}, "id": {"name"},
	"api_key": {"key_env"}, "api_key_env": {"key_env"}, "endpoint": {"base_url"}, "url": {"base_url", "url_env"},
	"max_iterations": {"max_turns"},
	"token":          {"token_env"}, "email": {"email_env"}, "user": {"email_env"}, "secret": {"secret_env"},
	"custom_fields": {"fields"},
	"issue_type":    {"type"}, "project_key": {"project"}, "priority": {"priorities"}, "component": {"components"},
}

// violations converts the validator's errors.
func (r rules) violations(root any, e *jsonschema.ValidationError) []violation {
	value, path := follow(root, e.InstanceLocation)
	trail := r.trail(e.SchemaURL)
	var found []violation
	say := func(path, format string, args ...any) {
		found = append(found, violation{path: path, message: fmt.Sprintf(format, args...)})
	}
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		for _, name := range k.Missing {
			say(spec.FieldPath(path, name), "is missing%s", example(trail, name))
		}
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			found = append(found, violation{path: path, unknown: name, known: slices.Sorted(maps.Keys(properties(trail[0])))})
		}
	case *kind.PropertyNames:
		steps := strings.Split(e.SchemaURL, "/") // .../the mapping's name/propertyNames
		at := r.named[[2]string{steps[len(steps)-2], k.Property}]
		for _, cause := range leaves(e) {
			say(at, "%s", message(cause.ErrorKind, k.Property, r.trail(cause.SchemaURL)))
		}
	case *kind.UniqueItems:
		list, _ := value.([]any)
		seen := map[any]bool{}
		for i, v := range list {
			if text, ok := v.(string); ok && seen[text] {
				say(spec.ItemPath(path, i), "lists %q a second time; leave it out", clip(text))
			} else if ok {
				seen[text] = true
			}
		}
	case *kind.OneOf, *kind.AnyOf:
		return choices(value, path, trail)
	case *kind.MaxItems, *kind.MaxProperties:
		found = append(found, violation{path: path, message: message(k, value, trail), oversized: true})
	default:
		if len(e.Causes) == 0 {
			say(path, "%s", message(k, value, trail))
		}
		for _, cause := range e.Causes {
			found = append(found, r.violations(root, cause)...)
		}
	}
	return found
}

// nameAll fills in the paths of the entries of a value that is called name, and of all values in
// it.
func nameAll(v any, path, name string, into map[[2]string]string) {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			below := spec.FieldPath(path, key)
			into[[2]string{name, key}] = below
			nameAll(value, below, key, into)
		}
	case []any:
		for i, value := range v {
			nameAll(value, spec.ItemPath(path, i), "", into)
		}
	}
}

// leaves are the innermost errors of an error.
func leaves(e *jsonschema.ValidationError) []*jsonschema.ValidationError {
	if len(e.Causes) == 0 {
		return []*jsonschema.ValidationError{e}
	}
	var all []*jsonschema.ValidationError
	for _, cause := range e.Causes {
		all = append(all, leaves(cause)...)
	}
	return all
}

// choices describes the problem of a mapping that needs one of several fields.
func choices(value any, path string, trail []map[string]any) []violation {
	s := trail[0]
	var names, present []string
	for _, keyword := range []string{"oneOf", "anyOf"} {
		branches, _ := s[keyword].([]any)
		for _, branch := range branches {
			required, _ := branch.(map[string]any)["required"].([]any)
			if len(required) != 1 {
				return []violation{{path: path, message: "must be " + wanted(s)}}
			}
			names = append(names, required[0].(string))
		}
	}
	fields, _ := value.(map[string]any)
	for _, name := range names {
		if _, ok := fields[name]; ok {
			present = append(present, name)
		}
	}
	if len(present) > 1 {
		return []violation{{path: spec.FieldPath(path, present[1]), message: "conflicts with " + present[0] + "; keep one of them"}}
	}
	return []violation{{path: spec.FieldPath(path, names[0]), message: "is missing" + example(trail, names[0]) + "; or give " +
		strings.Join(names[1:], " or ") + " instead"}}
}

// follow finds the value at a location and its YAMLPath.
func follow(v any, location []string) (value any, path string) {
	path = "$"
	for _, step := range location {
		switch at := v.(type) {
		case map[string]any:
			v, path = at[step], spec.FieldPath(path, step)
		case []any:
			i, _ := strconv.Atoi(step) // the validator's own index
			v, path = at[i], spec.ItemPath(path, i)
		}
	}
	return v, path
}

var pointerEscapes = strings.NewReplacer("~1", "/", "~0", "~", "%25", "%")

// trail is the schema at an address, and the schemas that contain it, innermost first.
func (r rules) trail(address string) []map[string]any {
	_, pointer, _ := strings.Cut(address, "#")
	var trail []map[string]any
	at := r.raw
	for i, step := range strings.Split(pointer, "/") {
		if i > 0 {
			step = pointerEscapes.Replace(step)
			switch here := at.(type) {
			case map[string]any:
				at = here[step]
			case []any:
				n, _ := strconv.Atoi(step) // the validator's own index
				at = here[n]
			}
		}
		if s, ok := at.(map[string]any); ok {
			trail = slices.Insert(trail, 0, s)
		}
	}
	return trail
}

func properties(s map[string]any) map[string]any {
	p, _ := s["properties"].(map[string]any)
	return p
}

// example shows how a missing field is written, and describes it.
func example(trail []map[string]any, name string) string {
	for _, s := range trail {
		field, ok := properties(s)[name].(map[string]any)
		if !ok || field["description"] == nil {
			continue
		}
		if always, ok := field["const"]; ok {
			return fmt.Sprintf("; write `%s: %v`", name, always)
		}
		hint := ""
		if like, ok := field["x-example"]; ok {
			hint = fmt.Sprintf("; write it like `%s: %v`", name, like)
		}
		sentence, _, _ := strings.Cut(field["description"].(string), ". ")
		if _, rest, ok := strings.Cut(sentence, " "); ok {
			pronoun := "it "
			if strings.HasPrefix(rest, "are ") {
				pronoun = "they "
			}
			hint += "; " + pronoun + strings.TrimSuffix(rest, ".")
		}
		return hint
	}
	return ""
}
