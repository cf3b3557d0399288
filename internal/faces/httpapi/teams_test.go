package httpapi_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/ops/control"
)

func TestTeamsAreRegisteredByTheirText(t *testing.T) {
	t.Parallel()
	h := newService(t)
	var made control.TeamChange
	h.call("PUT", "/teams/web", webTeam).read(t, &made)
	require.True(t, made.Changed)
	h.call("PUT", "/teams/web", webTeam).read(t, &made)
	require.False(t, made.Changed)
	var list control.TeamList
	h.call("GET", "/teams", nil).read(t, &list)
	require.Len(t, list.Teams, 1)
	var team control.RegisteredTeam
	h.call("GET", "/teams/web?version="+string(made.Digest[:6]), nil).read(t, &team)
	require.Equal(t, "Write it.", team.Team.Personas["ann"].Instructions)
	require.Contains(t, team.File, `"Write it."`)

	require.Equal(t, http.StatusUnprocessableEntity, h.call("PUT", "/teams/api", webTeam).status)
	wrong := h.call("PUT", "/teams/web", map[string]any{"version": 1, "name": "web"})
	require.Equal(t, http.StatusUnprocessableEntity, wrong.status)
	require.Contains(t, string(wrong.body), "personas")
	require.Equal(t, http.StatusUnprocessableEntity, h.call("PUT", "/teams/web", strings.Repeat("x", 3<<19)).status)
	require.Equal(t, http.StatusRequestEntityTooLarge, h.call("PUT", "/teams/web", strings.Repeat("x", 3<<20)).status)

	require.Equal(t, http.StatusOK, h.call("DELETE", "/teams/web", nil).status)
	require.Equal(t, http.StatusNotFound, h.call("GET", "/teams/web", nil).status)
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

func TestSessionsAreFoundByTheirLabels(t *testing.T) {
	t.Parallel()
	h := newService(t)
	for id, labels := range map[string]map[string]string{
		"one": {"area": "web", "for": "a, b"}, "two": {"area": "web"},
		"three": nil,
	} {
		h.session(id, "web", time.Now(), func(e *session.Execution) { e.Labels = labels })
	}
	for query, want := range map[string]int{
		"": 3, "?label=area%3Dweb": 2, "?label=area%3Dweb&label=for%3Da%2C%20b": 1,
		"?label=area%3Dapi": 0,
	} {
		var page control.SessionList
		h.call("GET", "/sessions"+query, nil).read(t, &page)
		require.Len(t, page.Sessions, want, query)
	}
	require.Equal(t, http.StatusUnprocessableEntity, h.call("GET", "/sessions?label=area", nil).status)
}
