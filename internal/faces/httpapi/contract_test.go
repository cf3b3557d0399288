package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
)

// contract calls the operations of an OpenAPI document with inputs made from their schemas.
type contract struct {
	*service
	schemas *schemas
	api     map[string]any
	r       *rand.Rand
}

// calls is how often each operation is called, with inputs that fit and that do not.
const calls = 25

// TestInputsAreAsDescribed calls every operation with random inputs. Whatever comes, no answer is
// an error of the server, answers have the schemas that are described, and what does not fit
// its schema is refused.
func TestInputsAreAsDescribed(t *testing.T) {
	t.Parallel()
	h := newService(t)
	h.session("one", "web", time.Now(), func(e *session.Execution) {
		e.Status.Status = session.HelpIsNeeded
		e.Help = []session.Request{{
			ID: "design.ann.1", Kind: session.ForHelp, Phase: "design", Persona: "ann", Category: "timeout", Message: "no end",
			Actions: []session.Action{session.AnswerRetry, session.AnswerSkip}, Since: time.Now(),
		}}
	})
	h.checkpoint("one", map[string]string{"a.txt": "one\n"})
	h.unsettled("two", 1)
	require.Equal(t, http.StatusOK, h.call("PUT", "/teams/web", webTeam).status)
	c := &contract{service: h, r: rand.New(rand.NewPCG(7, 15))}
	h.call("GET", "/openapi.json", nil).read(t, &c.api)
	c.schemas = compileSchemas(t, c.api)
	paths := c.api["paths"].(map[string]any)
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		var methods []string
		for _, method := range slices.Sorted(maps.Keys(paths[path].(map[string]any))) {
			methods = append(methods, strings.ToUpper(method))
			if !strings.HasSuffix(path, "/events") { // a stream does not end
				c.operation(strings.ToUpper(method), path, paths[path].(map[string]any)[method].(map[string]any))
			}
		}
		if !strings.HasSuffix(path, "/checkpoints/verify") { // the name of a checkpoint in another path
			c.otherMethods(path, methods)
		}
	}
}

// request is an input of an operation.
type request struct {
	path  map[string]string
	query url.Values
	head  http.Header
	body  any
}

func (c *contract) operation(method, path string, described map[string]any) {
	for range calls {
		in := c.fitting(described)
		c.holds(method, path, described, in, "")
		if wrong := c.breaks(described, &in); wrong != "" {
			c.holds(method, path, described, in, wrong)
		}
	}
}

// fitting makes an input that fits the schemas.
func (c *contract) fitting(described map[string]any) request {
	in := request{path: map[string]string{}, query: url.Values{}, head: http.Header{}}
	for _, p := range list(described["parameters"]) {
		name, schema := p["name"].(string), p["schema"].(map[string]any)
		value := text(c.value(schema, 0))
		known := map[string]string{
			"session": "one", "name": "web", "phase": "design", "persona": "ann", "checkpoint": "design", "path": "a.txt",
		}[name]
		if known != "" && (value == "" || c.r.IntN(2) == 0) {
			value = known
		}
		switch {
		case p["in"] == "path":
			in.path[name] = value
			if in.path[name] == "" || in.path[name] == "." || in.path[name] == ".." {
				in.path[name] = "x"
			}
		case p["required"] == true || c.r.IntN(3) == 0:
			if p["in"] == "query" {
				in.query.Set(name, value)
			} else if name != "Last-Event-ID" {
				in.head.Set(name, strings.Map(visible, value))
			}
		}
	}
	if schema := bodySchema(described); schema != nil {
		in.body = c.value(schema, 0)
	}
	return in
}

// breaks makes an input not fit, and returns how; empty: nothing can be wrong.
func (c *contract) breaks(described map[string]any, in *request) string {
	var ways []func() string
	ways = append(ways, func() string { in.query.Set("no-such-parameter", "1"); return "an unknown parameter" })
	for _, p := range list(described["parameters"]) {
		schema, name := c.resolve(p["schema"].(map[string]any)), p["name"].(string)
		if p["in"] != "query" {
			continue
		}
		switch {
		case schema["type"] == "integer":
			ways = append(ways, func() string { in.query.Set(name, "many"); return name })
		case schema["enum"] != nil:
			ways = append(ways, func() string { in.query.Set(name, "none-of-them"); return name })
		case schema["maxLength"] != nil && schema["type"] == "string":
			ways = append(ways, func() string {
				in.query.Set(name, strings.Repeat("x", int(schema["maxLength"].(float64))+1))
				return name
			})
		}
	}
	if schema := bodySchema(described); schema != nil {
		fields, _ := in.body.(map[string]any)
		ways = append(ways, func() string { in.body = []any{1}; return "the body's type" })
		if fields != nil {
			ways = append(ways, func() string { fields["no_such_field"] = true; return "an unknown field" })
		}
		all := properties(c.resolve(schema))
		for _, name := range slices.Sorted(maps.Keys(all)) {
			s := all[name]
			if fields != nil && c.resolve(s)["type"] == "string" {
				ways = append(ways, func() string { fields[name] = 7; return name })
			}
		}
	}
	return ways[c.r.IntN(len(ways))]()
}

// holds calls an operation, and holds the answer against its description.
func (c *contract) holds(method, path string, described map[string]any, in request, wrong string) {
	c.t.Helper()
	for name, value := range in.path {
		path = strings.ReplaceAll(path, "{"+name+"}", url.PathEscape(value))
	}
	got, sent := c.send(method, path, in)
	where := method + " " + path + "?" + in.query.Encode() + " " + sent + " " + wrong + ": " + string(got.body)
	if wrong != "" {
		require.Contains(c.t, []int{http.StatusBadRequest, http.StatusUnprocessableEntity}, got.status, where)
	}
	require.True(c.t, got.status < 500 || got.status == http.StatusServiceUnavailable, where)
	responses := described["responses"].(map[string]any)
	response, ok := responses[text(float64(got.status))].(map[string]any)
	if !ok {
		response, ok = responses["default"].(map[string]any)
		require.True(c.t, ok && got.status >= 300, "status %d is not described: %s", got.status, where)
	}
	kind, _, _ := strings.Cut(got.header.Get("Content-Type"), ";")
	content, _ := response["content"].(map[string]any)
	if len(got.body) == 0 {
		return
	}
	require.Contains(c.t, content, kind, where)
	if schema := content[kind].(map[string]any)["schema"]; strings.HasSuffix(kind, "json") && schema != nil {
		var value any
		require.NoError(c.t, json.Unmarshal(got.body, &value), where)
		require.NoError(c.t, c.schemas.validate(schema, value), where)
	}
}

func (c *contract) send(method, path string, in request) (answer, string) {
	c.t.Helper()
	var body io.Reader
	var data []byte
	if in.body != nil {
		var err error
		data, err = json.Marshal(in.body)
		require.NoError(c.t, err)
		body = bytes.NewReader(data)
		in.head.Set("Content-Type", "application/json")
	}
	r, err := http.NewRequestWithContext(context.Background(), method, c.url+path+"?"+in.query.Encode(), body)
	require.NoError(c.t, err)
	r.Header = in.head
	got, err := http.DefaultClient.Do(r)
	require.NoError(c.t, err)
	defer got.Body.Close()
	read, err := io.ReadAll(got.Body)
	require.NoError(c.t, err)
	return answer{got.StatusCode, got.Header, read}, string(data)
}

// otherMethods calls a path with the methods that it does not have.
func (c *contract) otherMethods(path string, has []string) {
	c.t.Helper()
	path = placeholder.ReplaceAllString(path, "1")
	for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
		if slices.Contains(has, method) {
			continue
		}
		got := c.call(method, path, nil)
		require.Equal(c.t, http.StatusMethodNotAllowed, got.status, "%s %s", method, path)
		for _, m := range has {
			require.Contains(c.t, got.header.Get("Allow"), m, "%s %s", method, path)
		}
	}
}

// resolve follows a reference.
func (c *contract) resolve(schema map[string]any) map[string]any {
	ref, ok := schema["$ref"].(string)
	if !ok {
		return schema
	}
	all := c.api["components"].(map[string]any)["schemas"].(map[string]any)
	return all[strings.TrimPrefix(ref, "#/components/schemas/")].(map[string]any)
}

// value makes a value that fits a schema.
func (c *contract) value(schema map[string]any, depth int) any {
	schema = c.resolve(schema)
	if enum, ok := schema["enum"].([]any); ok {
		return enum[c.r.IntN(len(enum))]
	}
	kind, _ := schema["type"].(string)
	if kinds, ok := schema["type"].([]any); ok {
		kind, _ = kinds[0].(string)
	}
	switch kind {
	case "integer", "number":
		low, high := number(schema["minimum"], -5), number(schema["maximum"], 1e6)
		return low + float64(c.r.Int64N(int64(high-low)+1))
	case "boolean":
		return c.r.IntN(2) == 0
	case "array":
		values := []any{}
		for range c.r.IntN(3) {
			values = append(values, c.value(schema["items"].(map[string]any), depth+1))
		}
		return values
	case "object":
		fields := map[string]any{}
		must, _ := schema["required"].([]any)
		all := properties(schema)
		for _, name := range slices.Sorted(maps.Keys(all)) {
			s := all[name]
			if slices.Contains(must, any(name)) || depth < 4 && c.r.IntN(2) == 0 {
				fields[name] = c.value(s, depth+1)
			}
		}
		return fields
	}
	return c.text(schema)
}

// hostile are texts that have been trouble elsewhere.
var hostile = []string{
	"", "x", "..", "../../etc/passwd", "a/b", "%2e%2e", "<script>alert(1)</script>",
	"'; drop table sessions; --", "\u202e", "\u0000", "é\n\t", strings.Repeat("a", 3000), "-1", "0", "null", "one@", "two words",
}

func (c *contract) text(schema map[string]any) string {
	if schema["format"] == "date-time" {
		return time.Unix(c.r.Int64N(4e9), 0).UTC().Format(time.RFC3339)
	}
	value := hostile[c.r.IntN(len(hostile))]
	if most := int(number(schema["maxLength"], 1e6)); len([]rune(value)) > most {
		value = string([]rune(value)[:most])
	}
	for len([]rune(value)) < int(number(schema["minLength"], 0)) {
		value += "x"
	}
	return value
}

func number(v any, otherwise float64) float64 {
	if n, ok := v.(float64); ok {
		return n
	}
	return otherwise
}

// visible leaves out what no header can have.
func visible(r rune) rune {
	if r < ' ' || r > '~' {
		return -1
	}
	return r
}

func text(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	data, _ := json.Marshal(v)
	return string(data)
}

func list(v any) (all []map[string]any) {
	entries, _ := v.([]any)
	for _, e := range entries {
		all = append(all, e.(map[string]any))
	}
	return all
}

func properties(schema map[string]any) map[string]map[string]any {
	all := map[string]map[string]any{}
	fields, _ := schema["properties"].(map[string]any)
	for name, s := range fields {
		all[name] = s.(map[string]any)
	}
	return all
}

func bodySchema(described map[string]any) map[string]any {
	body, _ := described["requestBody"].(map[string]any)
	content, _ := body["content"].(map[string]any)
	kind, _ := content["application/json"].(map[string]any)
	schema, _ := kind["schema"].(map[string]any)
	return schema
}

// schemas are those of an OpenAPI document.
type schemas struct{ compiler *jsonschema.Compiler }

const documentURL = "mem:///openapi.json"

func compileSchemas(t *testing.T, api map[string]any) *schemas {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	require.NoError(t, c.AddResource(documentURL, api))
	return &schemas{c}
}

// validate holds a value against the schema of an answer, which is a reference.
func (s *schemas) validate(schema, value any) error {
	ref, _ := schema.(map[string]any)["$ref"].(string)
	compiled, err := s.compiler.Compile(documentURL + ref)
	if err != nil {
		return err
	}
	return compiled.Validate(value)
}
