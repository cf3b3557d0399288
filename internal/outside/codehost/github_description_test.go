//go:build system

package codehost_test

import (
	"bytes"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/delivery"
	"github.com/maestro-hive/maestro/internal/outside/codehost"
	"github.com/maestro-hive/maestro/internal/testkit/githubtest"
)

type object = map[string]any

// description is GitHub's description of its REST API.
type description struct {
	doc      object
	compiler *jsonschema.Compiler
}

const describedAt = "https://example.com/github.json"

func readDescription(t *testing.T) *description {
	t.Helper()
	text, err := os.ReadFile("testdata/openapi/node_modules/@octokit/openapi/generated/api.github.com.json")
	require.NoError(t, err, "run npm ci in internal/outside/codehost/testdata/openapi")
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(t, err)
	d := &description{doc: doc.(object), compiler: jsonschema.NewCompiler()}
	d.compiler.DefaultDraft(jsonschema.Draft7)
	translate(doc)
	require.NoError(t, d.compiler.AddResource(describedAt, doc))
	return d
}

// translate makes schemas of OpenAPI 3.0 those of JSON Schema, and lets documents leave out what is required: the stand-in
// answers with what the driver reads, and each of these has to have the right name and type.
func translate(node any) {
	switch node := node.(type) {
	case []any:
		for _, item := range node {
			translate(item)
		}
	case object:
		properties, _ := node["properties"].(object)
		for name, value := range node {
			if name != "properties" || properties == nil {
				translate(value)
			}
		}
		for _, value := range properties {
			translate(value)
		}
		if _, ok := node["required"].([]any); ok {
			delete(node, "required")
		}
		for _, name := range []string{"pattern", "example", "examples", "exclusiveMinimum", "format", "discriminator"} {
			delete(node, name)
		}
		if node["oneOf"] != nil {
			node["anyOf"] = node["oneOf"]
			delete(node, "oneOf")
		}
		if node["nullable"] == true {
			delete(node, "nullable")
			whole := object{}
			for name, value := range node {
				whole[name] = value
				delete(node, name)
			}
			node["anyOf"] = []any{whole, object{"type": "null"}}
		}
	}
}

// at returns what a pointer leads to, through references.
func (d *description) at(pointer string) any {
	var node any = d.doc
	for _, part := range strings.Split(strings.TrimPrefix(pointer, "#/"), "/") {
		part, _ = url.PathUnescape(strings.NewReplacer("~1", "/", "~0", "~").Replace(part))
		switch in := node.(type) {
		case object:
			node = in[part]
		case []any:
			i, _ := strconv.Atoi(part)
			node = in[i]
		}
	}
	return node
}

func (d *description) deref(node any) object {
	in, _ := node.(object)
	for in["$ref"] != nil {
		in, _ = d.at(in["$ref"].(string)).(object)
	}
	return in
}

// operation finds the operation of a request, and its path.
func (d *description) operation(r githubtest.Request) (path string, op object) {
	parts := strings.Split(r.Path, "/")
	literal := -1
	for template, methods := range d.doc["paths"].(object) {
		want := strings.Split(template, "/")
		same := 0
		fits := len(want) == len(parts)
		for i := 0; fits && i < len(want); i++ {
			if !strings.HasPrefix(want[i], "{") {
				fits = want[i] == parts[i]
				same++
			}
		}
		if found, ok := methods.(object)[strings.ToLower(r.Method)].(object); fits && ok && same > literal {
			path, op, literal = template, found, same
		}
	}
	return path, op
}

// escape makes names the parts of a pointer.
func escape(names ...string) string {
	out := "#"
	for _, n := range names {
		out += "/" + strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(n)
	}
	return out
}

// validate holds a document against the schema at a pointer.
func (d *description) validate(t *testing.T, what, pointer string, body []byte) {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	require.NoError(t, err, what)
	schema, err := d.compiler.Compile(describedAt + pointer)
	require.NoError(t, err, what)
	if err := schema.Validate(document); err != nil {
		t.Errorf("%s: %v", what, err)
	}
	for _, name := range d.unknown(d.at(pointer), document, "") {
		t.Errorf("%s: GitHub has no %s", what, name)
	}
}

// unknown lists the names in a document that no schema has.
func (d *description) unknown(schema, document any, at string) (out []string) {
	switch document := document.(type) {
	case []any:
		for _, item := range document {
			for _, items := range d.among(schema, "items") {
				out = append(out, d.unknown(items, item, at+"[]")...)
			}
		}
	case object:
		var known []object
		for _, p := range d.among(schema, "properties") {
			known = append(known, p.(object))
		}
		if len(d.among(schema, "additionalProperties")) > 0 || known == nil {
			return nil
		}
		for name, value := range document {
			var of []any
			for _, p := range known {
				if p[name] != nil {
					of = append(of, p[name])
				}
			}
			if of == nil {
				out = append(out, at+"."+name)
				continue
			}
			out = append(out, d.unknown(object{"anyOf": of}, value, at+"."+name)...)
		}
	}
	return out
}

// among returns the values of a keyword in a schema and its parts.
func (d *description) among(schema any, keyword string) (out []any) {
	node := d.deref(schema)
	if value := node[keyword]; value != nil && value != false {
		out = append(out, value)
	}
	for _, list := range []string{"anyOf", "allOf", "oneOf"} {
		parts, _ := node[list].([]any)
		for _, part := range parts {
			out = append(out, d.among(part, keyword)...)
		}
	}
	return out
}

// hold holds a request and its answer against the description.
func (d *description) hold(t *testing.T, r githubtest.Request) {
	t.Helper()
	path, op := d.operation(r)
	what := r.Method + " " + r.Path
	require.NotNil(t, op, "%s is no request of GitHub", what)
	var names []string
	for _, p := range op["parameters"].([]any) {
		names = append(names, d.deref(p)["name"].(string))
	}
	for name := range r.Query {
		require.Contains(t, names, name, what)
	}
	at := []string{"paths", path, strings.ToLower(r.Method)}
	if strings.HasSuffix(path, "/labels") { // its text permits a list of labels, and its schema does not
		r.Body = []byte(`{"labels": ` + string(r.Body) + `}`)
	}
	if len(r.Body) > 0 {
		d.validate(t, "the request "+what, escape(append(at, "requestBody", "content", "application/json", "schema")...), r.Body)
	}
	status := strconv.Itoa(r.Status)
	responses := op["responses"].(object)
	require.Contains(t, responses, status, what)
	answer := d.deref(responses[status])
	if content, ok := answer["content"].(object); ok && content["application/json"] != nil && r.Status < 300 {
		pointer := escape(append(at, "responses", status, "content", "application/json", "schema")...)
		if ref, ok := responses[status].(object)["$ref"].(string); ok {
			pointer = ref + "/content/application~1json/schema"
		}
		d.validate(t, "the answer to "+what, pointer, r.Answer)
	}
}

// TestRequestsAndAnswersAreGitHubs holds what the driver asks, and what the stand-in answers, against what GitHub publishes.
func TestRequestsAndAnswersAreGitHubs(t *testing.T) {
	t.Parallel()
	d := readDescription(t)
	k, text := key(t)
	s := newSite(t, githubtest.Options{App: &githubtest.App{ID: 7, Slug: "maestro-app", Key: &k.PublicKey, Installation: 70}})
	o := s.options()
	o.Token, o.App = "", &codehost.GitHubApp{ID: 7, Key: text}
	g := s.driverOf(o)
	ctx := t.Context()
	with := work
	with.Draft, with.Labels = true, []string{"maestro"}
	number, err := g.Open(ctx, shop, with)
	require.NoError(t, err)
	head := s.repo.Head("work")
	root := s.repo.LineComment(number, "ben", "OWNER", "shout.go", 3, "why?", 0)
	s.repo.LineComment(number, "ben", "OWNER", "shout.go", 0, "the file", 0)
	s.repo.Review(number, "ben", "MEMBER", "CHANGES_REQUESTED", "no")
	s.repo.SetRun(githubtest.Run{
		SHA: head, Name: "test", Workflow: "CI", App: "github-actions", Conclusion: "failure", Log: "x",
		Annotations: []string{"a.go:1:failure:x"},
	})
	s.repo.SetCheck(head, "race", "", "")
	s.repo.SetRun(githubtest.Run{SHA: head, Name: "cover", App: "coverage", Conclusion: "failure", Log: "fell"})
	s.repo.SetStatus(head, "ci/build", "failure", "no agent")
	require.NoError(t, g.Comment(ctx, shop, number, "", "progress"))
	require.NoError(t, g.Comment(ctx, shop, number, fmt.Sprint(root), "because"))
	require.NoError(t, g.Edit(ctx, shop, number, delivery.Edit{
		Body: "More.", Ready: true, Reviewers: []string{"ben", "acme/owners"},
	}))
	p := s.look(g, number)
	for _, c := range p.Checks {
		if c.State == delivery.CheckFailed {
			s.log(g, c)
		}
		if c.State == delivery.CheckFailed && c.Rerunnable {
			require.NoError(t, g.Rerun(ctx, shop, c))
		}
	}
	s.find(g)
	s.repo.Close(number, "ben")
	s.look(g, number)
	s.repo.Reopen(number, "ben")
	s.merge(g, number, s.repo.Head("main"), "merge")
	require.Empty(t, s.merge(g, number, head, "merge"))
	s.look(g, number)

	var held []string
	for _, r := range s.Requests() {
		if !strings.HasPrefix(r.Path, githubtest.GraphQL) {
			d.hold(t, r)
			path, _ := d.operation(r)
			held = append(held, r.Method+" "+path)
		}
	}
	slices.Sort(held)
	require.Len(t, slices.Compact(held), 26, "all requests of the driver but GET /user")
}
