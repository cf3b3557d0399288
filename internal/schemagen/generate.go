package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/maestro-hive/maestro/internal/agent"
	"github.com/maestro-hive/maestro/internal/team"
)

// document is a schema to write.
type document struct {
	name, title string
	// of is what the loader reads such a file into.
	of    any
	rules rules
	// page is the Markdown page that has the reference of such files.
	page string
}

var documents = []document{
	{"team.json", "A Maestro team file", team.Team{}, teamRules, "team-file.md"},
	{"worker.json", "A Maestro worker file", agent.Config{}, workerRules, "worker-file.md"},
}

// rules say by type (`Phase`) and by field (`Phase.name`) what Go's types do not.
type rules map[string][]rule

// rule makes a schema stricter.
type rule func(*jsonschema.Schema)

// generate makes the schema. It fails where a rule is for a field that there is not.
func (d document) generate(w words) (*jsonschema.Schema, error) {
	r := &jsonschema.Reflector{
		Anonymous: true, ExpandedStruct: true, FieldNameTag: "yaml", LookupComment: w.of, Mapper: scalar,
	}
	s := r.Reflect(d.of)
	types := map[string]*jsonschema.Schema{reflect.TypeOf(d.of).Name(): s}
	maps.Copy(types, s.Definitions)
	for _, name := range slices.Sorted(maps.Keys(types)) {
		loosen(types[name])
	}
	for _, path := range slices.Sorted(maps.Keys(d.rules)) {
		name, field, isField := strings.Cut(path, ".")
		target, ok := types[name]
		if ok && isField {
			target, ok = target.Properties.Get(field)
		}
		if !ok {
			return nil, fmt.Errorf("%s: a rule is for %s, which there is not", d.name, path)
		}
		for _, rule := range d.rules[path] {
			rule(target)
		}
	}
	s.Title = d.title
	maps.Copy(s.Definitions, used(s))
	return s, nil
}

// encode is the schema as its file has it.
func encode(s *jsonschema.Schema) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return nil, err
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, b.Bytes(), "", "  "); err != nil {
		return nil, err
	}
	return indented.Bytes(), nil
}

// used picks the scalars that a schema refers to.
func used(s *jsonschema.Schema) jsonschema.Definitions {
	data, _ := json.Marshal(s) // what cannot be encoded fails when it is written
	found := jsonschema.Definitions{}
	for name, definition := range scalars() {
		if bytes.Contains(data, []byte(`"#/$defs/`+name+`"`)) {
			found[name] = definition
		}
	}
	return found
}

// loosen lets entries of lists of text be numbers and true and false, which the
// loader takes there as they are written: arguments of programs want it so.
func loosen(s *jsonschema.Schema) {
	for p := s.Properties.Oldest(); p != nil; p = p.Next() {
		if items := p.Value.Items; items != nil && items.Type == "string" {
			items.Type = ""
			items.Extras = map[string]any{"type": []string{"string", "number", "boolean"}}
		}
	}
}

// words are the docstrings of the types that files are read into.
type words struct{ comments map[string]string }

// module is the path that the types' packages begin with.
const module = "github.com/maestro-hive/maestro"

func readWords(source string) (words, error) {
	w := words{map[string]string{}}
	for _, pkg := range []string{"internal/team", "internal/agent"} {
		var found jsonschema.Reflector
		dir := filepath.Join(source, filepath.FromSlash(pkg))
		if err := found.AddGoComments(module, dir, jsonschema.WithFullComment()); err != nil {
			return words{}, fmt.Errorf("read the docstrings of %s: %w", pkg, err)
		}
		for name, text := range found.CommentMap {
			// It is filed under the directory as it was walked to.
			_, symbol, _ := strings.Cut(name[strings.LastIndex(name, "/")+1:], ".")
			w.comments[module+"/"+pkg+"."+symbol] = text
		}
	}
	return w, nil
}

// of is the description of a type, or of one of its fields. Fields that stand
// together under one docstring share it.
func (w words) of(t reflect.Type, field string) string {
	name := t.PkgPath() + "." + t.Name()
	if field == "" {
		return plain(w.comments[name])
	}
	f, _ := t.FieldByName(field)
	for i := f.Index[0]; i >= 0; i-- {
		if text := w.comments[name+"."+t.Field(i).Name]; text != "" {
			return keyed(t, plain(text))
		}
	}
	return ""
}

// keyed has a docstring name the fields of its type as a file does.
func keyed(t reflect.Type, text string) string {
	for i := range t.NumField() {
		name := t.Field(i).Name
		key, _, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ",")
		if name[1:] != key[min(1, len(key)):] { // else it is a word that begins a sentence
			text = regexp.MustCompile(`\b`+name+`\b`).ReplaceAllString(text, key)
		}
	}
	return text
}

var (
	docLink = regexp.MustCompile(`\[([A-Za-z.]+)\]`)
	ofGo    = regexp.MustCompile(` \((?:as opposed to )?nil[^)]*\)`)
)

// plain is a docstring as one paragraph without links, and without what it says in
// brackets of nil, which no file has.
func plain(doc string) string {
	return ofGo.ReplaceAllString(docLink.ReplaceAllString(strings.Join(strings.Fields(doc), " "), "$1"), "")
}

// scalar refers to the definition of what is written as one word or number and is
// none of Go's own types.
func scalar(t reflect.Type) *jsonschema.Schema {
	if _, ok := scalars()[t.Name()]; ok && t.PkgPath() != "" {
		return &jsonschema.Schema{Ref: "#/$defs/" + t.Name()}
	}
	return nil
}

// The patterns keep to what Go, JavaScript and Java read alike.
func scalars() jsonschema.Definitions {
	var categories []any
	for _, c := range team.Categories() {
		categories = append(categories, c)
	}
	return jsonschema.Definitions{
		"Duration": {
			Type: "string", Description: "A time with its unit, like 90s, 30m or 1h30m.",
			Pattern:  `^\+?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`,
			AllOf:    []*jsonschema.Schema{{Pattern: `[1-9]`}},
			Examples: []any{"90s", "30m", "1h30m"},
		},
		"ByteSize": {
			Description: "A number of bytes, like 500kB, 100MB or 2GiB.",
			AnyOf: []*jsonschema.Schema{
				{Type: "integer", Minimum: "1"},
				{Type: "string", Pattern: `^ *\+?[0-9]+ *([kKmMgG][iI]?)?[bB]? *$`, AllOf: []*jsonschema.Schema{{Pattern: `[1-9]`}}},
			},
			Examples: []any{"500kB", "100MB", "2GiB"},
		},
		"USD":      {Type: "number", Description: "US dollars, like 20 or 0.5.", Minimum: "0"},
		"Category": {Type: "string", Description: "A category of failures.", Enum: categories},
		"Plain": {
			Description: "Plain data.",
			AnyOf: []*jsonschema.Schema{
				{Extras: map[string]any{"type": []string{"string", "boolean"}}},
				{Type: "number", Minimum: exact("-"), Maximum: exact("")},
				{Type: "array", Items: &jsonschema.Schema{Ref: "#/$defs/Plain"}},
				{Type: "object", AdditionalProperties: &jsonschema.Schema{Ref: "#/$defs/Plain"}},
			},
		},
	}
}

// exact is the largest number that every reader takes for the same.
func exact(sign string) json.Number { return json.Number(sign + "9007199254740992") }
