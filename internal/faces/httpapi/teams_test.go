package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/ops/control"
)

func TestTheTextOfATeamIsBounded(t *testing.T) {
	t.Parallel()
	h := newService(t)
	wrong := h.call("PUT", "/teams/web", map[string]any{"version": 1, "name": "web"})
	require.Equal(t, http.StatusUnprocessableEntity, wrong.status)
	require.Contains(t, string(wrong.body), "personas")
	require.Equal(t, http.StatusUnprocessableEntity, h.call("PUT", "/teams/web", strings.Repeat("x", 3<<19)).status)
	require.Equal(t, http.StatusRequestEntityTooLarge, h.call("PUT", "/teams/web", strings.Repeat("x", 3<<20)).status)
}

// TestAFormSaysWhatAStartTakes holds inputs of starts against the schema of a team's form.
func TestAFormSaysWhatAStartTakes(t *testing.T) {
	t.Parallel()
	h := newService(t)
	require.Equal(t, http.StatusOK, h.call("PUT", "/teams/web", webTeam).status)
	var form struct {
		control.TeamForm
		Schema any `json:"schema"`
	}
	h.call("GET", "/teams/web/form", nil).read(t, &form)
	require.Equal(t, []string{"design"}, form.Phases[1].Needs)
	compiler := jsonschema.NewCompiler()
	require.NoError(t, compiler.AddResource("mem:///form.json", form.Schema))
	schema, err := compiler.Compile("mem:///form.json")
	require.NoError(t, err)
	for fits, inputs := range map[bool][]map[string]any{
		true: {
			{"requirement": "A page."},
			{
				"requirement": "A page.", "from": "build", "decisions": map[string]any{"db": "sqlite"},
				"labels": map[string]any{"area": "web"},
			},
			{"requirement": "A page.", "only": []any{"design", "build"}, "pause_after": []any{"design"}},
		},
		false: {
			{},
			{"requirement": ""},
			{"requirement": "A page.", "from": "test"},
			{"requirement": "A page.", "only": []any{"test"}},
			{"requirement": "A page.", "labels": map[string]any{"-": "web"}},
			{"requirement": "A page.", "labels": map[string]any{"area": ""}},
			{"requirement": "A page.", "team": "web"},
		},
	} {
		for _, in := range inputs {
			require.Equal(t, fits, schema.Validate(in) == nil, in)
		}
	}
}
