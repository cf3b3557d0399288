package httpapi_test

import (
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
)

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
