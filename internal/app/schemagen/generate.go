package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/models/agent"
)

// document is a schema to write.
type document struct {
	name, title string
	// of is what the loader reads such a file into.
	of any
	// resolved is such a value with every default filled in.
	resolved any
	// page is the Markdown page that has the reference of such files.
	page string
}

var documents = []document{
	{"team.json", "A Maestro team file", spec.Team{}, resolvedTeam(), "team-file.md"},
	{"worker.json", "A Maestro worker file", agent.Config{}, resolvedWorker(), "worker-file.md"},
}

// generate makes the schema. It fails where a tag names a shape that there is not.
func (d document) generate(w words) (*jsonschema.Schema, error) {
	r := &jsonschema.Reflector{
		Anonymous: true, ExpandedStruct: true, FieldNameTag: "yaml", LookupComment: w.of, Mapper: scalar,
	}
	s := r.Reflect(d.of)
	types := map[string]*jsonschema.Schema{reflect.TypeOf(d.of).Name(): s}
	maps.Copy(types, s.Definitions)
	for name, t := range structs(reflect.TypeOf(d.of), map[string]reflect.Type{}) {
		for i := range t.NumField() {
			key, _, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ",")
			if p, ok := types[name].Properties.Get(key); ok {
				if err := tagged(types[name], p, t.Field(i), key); err != nil {
					return nil, fmt.Errorf("%s: %w", name, err)
				}
			}
		}
		loosen(types[name])
		if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
			shorten(types[name])
		}
	}
	defaults(types, reflect.ValueOf(d.resolved))
	s.Title = d.title
	s.PatternProperties = map[string]*jsonschema.Schema{"^x-": {Description: "Fields that begin with x- are ignored. Anchors can " +
		"stand in them."}}
	maps.Copy(s.Definitions, used(s))
	return s, nil
}

// structs are a struct and those in it, by name.
func structs(t reflect.Type, found map[string]reflect.Type) map[string]reflect.Type {
	switch t.Kind() { //nolint:exhaustive // The others have no fields.
	case reflect.Pointer, reflect.Slice, reflect.Map:
		structs(t.Elem(), found)
	case reflect.Struct:
		found[t.Name()] = t
		for i := range t.NumField() {
			if tag := t.Field(i).Tag.Get("yaml"); tag != "" && tag != "-" {
				structs(t.Field(i).Type, found)
			}
		}
	}
	return found
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

// used picks the scalars and shapes that a schema refers to.
func used(s *jsonschema.Schema) jsonschema.Definitions {
	all, found := scalars(), jsonschema.Definitions{}
	for name, s := range shapes {
		all[name] = s.schema()
	}
	for more := true; more; { // a definition can refer to another
		data, _ := json.Marshal([]any{s, found}) // what cannot be encoded fails when it is written
		more = false
		for name, d := range all {
			if found[name] == nil && bytes.Contains(data, []byte(`"#/$defs/`+name+`"`)) {
				found[name], more = d, true
			}
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

// shorten lets true or false stand in the place of a mapping that reads itself.
func shorten(s *jsonschema.Schema) {
	s.Type, s.MinProperties = "", new(uint64)
	*s.MinProperties = 1
	extra(s, "type", []string{"boolean", "object"})
}

// words are the docstrings of the types that files are read into.
type words struct{ comments map[string]string }

// module is the path that the types' packages begin with.
const module = "github.com/maestro-hive/maestro"

func readWords(source string) (words, error) {
	w := words{map[string]string{}}
	for _, pkg := range []string{
		"internal/core/textfmt", "internal/core/cost", "internal/core/failures", "internal/core/spec",
		"internal/core/session", "internal/models/agent",
	} {
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
