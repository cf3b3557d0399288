package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/maestro-hive/maestro/internal/ops/control"
)

// forAgents makes an operation a tool for agents. fixed are the inputs that agents do not choose, as a query.
func forAgents(fixed string) mark { return func(r *Route) { r.agents = &fixed } }

// Tool is an operation that agents use. Its inputs are one JSON object, with the fields of the body beside those of the
// path and the query.
type Tool struct {
	// Name is the operation's, with underscores.
	Name, Doc string
	// OnlyReads reports whether the operation changes nothing.
	OnlyReads bool
	// Schema is the JSON Schema of the object.
	Schema map[string]any

	route      Route
	parameters map[string]*huma.Param
	fixed      url.Values
	api        http.Handler
}

// Tools lists the operations of the table that agents may use.
func Tools(base *control.Base, version string) []Tool {
	mux, api := newAPI(base, version)
	var tools []Tool
	for _, entry := range table {
		r := entry.where()
		if r.agents == nil {
			continue
		}
		tools = append(tools, newTool(r, *r.agents, mux, api))
	}
	return tools
}

// newTool returns an operation as a tool. fixed are the inputs that agents do not choose, as a query.
func newTool(r Route, fixed string, mux http.Handler, api *huma.OpenAPI) Tool {
	values, err := url.ParseQuery(fixed)
	if err != nil {
		panic(err) // the table is constant
	}
	t := Tool{
		Name: strings.ReplaceAll(r.Name, "-", "_"), Doc: r.Doc, OnlyReads: r.Method == http.MethodGet,
		route: r, fixed: values, parameters: map[string]*huma.Param{}, api: mux,
	}
	at := api.Paths[r.Path]
	of := map[string]*huma.Operation{
		http.MethodGet: at.Get, http.MethodPost: at.Post, http.MethodPut: at.Put,
		http.MethodDelete: at.Delete,
	}
	t.describe(of[r.Method], api.Components.Schemas)
	return t
}

// describe makes the schema of the inputs.
func (t *Tool) describe(op *huma.Operation, schemas huma.Registry) {
	fields, required := map[string]any{}, []any{}
	for _, p := range op.Parameters {
		if p.In == "header" || t.fixed.Has(p.Name) {
			continue
		}
		t.parameters[p.Name] = p
		fields[p.Name] = inlined(p.Schema, schemas)
		if p.Required {
			required = append(required, p.Name)
		}
	}
	if op.RequestBody != nil {
		body := inlined(op.RequestBody.Content["application/json"].Schema, schemas)
		more, _ := body["properties"].(map[string]any)
		needed, _ := body["required"].([]any)
		maps.Copy(fields, more)
		required = append(required, needed...)
	}
	t.Schema = map[string]any{"type": "object", "properties": fields, "required": required, "additionalProperties": false}
}

// inlined is a schema without references: those of the API's description lead nowhere outside of it.
func inlined(schema any, schemas huma.Registry) map[string]any {
	data, err := json.Marshal(schema)
	var value map[string]any
	if err != nil || json.Unmarshal(data, &value) != nil {
		panic(err) // schemas are JSON
	}
	if ref, ok := value["$ref"].(string); ok {
		return inlined(schemas.Map()[strings.TrimPrefix(ref, schemasPath)], schemas)
	}
	for name, part := range value {
		if part, ok := part.(map[string]any); ok {
			value[name] = inlined(part, schemas)
		}
	}
	return value
}

// Call runs the operation with inputs, and returns its document.
func (t Tool) Call(ctx context.Context, inputs json.RawMessage) (json.RawMessage, error) {
	r, err := t.request(ctx, inputs)
	if err != nil {
		return nil, err
	}
	answer := &recorder{header: http.Header{}}
	t.api.ServeHTTP(answer, r)
	if answer.status < http.StatusMultipleChoices {
		return answer.Bytes(), nil
	}
	var p Problem
	if err := json.Unmarshal(answer.Bytes(), &p); err != nil {
		return nil, err
	}
	return nil, errors.New(p.Text(answer.status))
}

// request is the request of the API with inputs.
func (t Tool) request(ctx context.Context, inputs json.RawMessage) (*http.Request, error) {
	values := map[string]any{}
	decoder := json.NewDecoder(bytes.NewReader(inputs))
	decoder.UseNumber()
	if err := decoder.Decode(&values); err != nil && len(inputs) > 0 {
		return nil, fmt.Errorf("the inputs are not a JSON object: %w", err)
	}
	fields, _ := t.Schema["properties"].(map[string]any)
	query, path, body := maps.Clone(t.fixed), Prefix+t.route.Path, map[string]any{}
	for name, value := range values {
		list, isList := value.([]any)
		switch p := t.parameters[name]; {
		case fields[name] == nil:
			known := slices.Sorted(maps.Keys(fields))
			return nil, fmt.Errorf("unknown input %q; %s takes: %s", name, t.Name, strings.Join(known, ", "))
		case p == nil:
			body[name] = value
		case p.In == "path":
			path = strings.ReplaceAll(path, "{"+name+"}", Segment(fmt.Sprint(value)))
		case isList:
			for _, one := range list {
				query.Add(name, fmt.Sprint(one))
			}
		default:
			query.Set(name, fmt.Sprint(value))
		}
	}
	if _, missing, ok := strings.Cut(path, "{"); ok {
		name, _, _ := strings.Cut(missing, "}")
		return nil, fmt.Errorf("the input %q is missing", name)
	}
	var content bytes.Buffer
	if len(body) > 0 {
		if err := json.NewEncoder(&content).Encode(body); err != nil {
			return nil, err
		}
	}
	r, err := http.NewRequestWithContext(ctx, t.route.Method, path+"?"+query.Encode(), &content)
	if err == nil {
		r.Header.Set("Content-Type", "application/json")
	}
	return r, err
}

// Segment is a name as a segment of a path. Characters that a path cannot have are escaped.
func Segment(name string) string {
	if strings.Trim(name, ".") == "" { // it would name another path
		name = "-" + name
	}
	return url.PathEscape(name)
}
