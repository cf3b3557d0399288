package hiveimport_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/hiveimport"
)

// crew is a team with these phases, in a row.
func crew(phases ...string) spec.Team {
	t := spec.Team{Version: 1, Name: "web", Personas: map[string]spec.Persona{"dev": {Role: "Developer", Agent: "coder"}}}
	for _, p := range phases {
		t.Phases = append(t.Phases, spec.Phase{Name: p, Personas: []string{"dev"}})
	}
	return t.Resolved()
}

func sample(t testing.TB) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/checkpoint_design.json")
	require.NoError(t, err)
	return data
}

func TestACheckpointIsConverted(t *testing.T) {
	t.Parallel()
	data := sample(t)
	require.True(t, hiveimport.Recognise(data))
	c, err := hiveimport.Parse(data)
	require.NoError(t, err)
	w, err := c.Convert(crew("requirements", "design", "implementation"))
	require.NoError(t, err)
	require.Equal(t, "hive_link_shortener", w.Session)
	require.Contains(t, w.Requirement, "A link shortener")
	require.Empty(t, w.Notes)
	require.Len(t, w.Phases, 2)
	require.Equal(t, "maestro-hive/requirements.json", w.Phases[0].Path)
	require.Equal(t, map[string]string{"database": "SQLite", "code": "base62 of a counter"}, w.Phases[1].Decisions)
	require.Contains(t, string(w.Phases[1].Content), "  \"design_summary\": \"One Go service")
	require.Equal(t, time.Date(2026, 11, 20, 23, 19, 11, 868145000, time.UTC), w.Phases[1].CompletedAt)
}

// document is a checkpoint with these phase_results.
func document(id, results string) string {
	return `{"checkpoint_metadata": {"version": "1.0"}, "workflow_context": {"workflow_id": "` + id + `",
"phase_results": {` + results + `}, "metadata": {"initial_requirement": "Do it."}}}`
}

func TestNamesAreMappedAndSaid(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", session.MaxDecisionValue+1)
	c, err := hiveimport.Parse([]byte(document("hive:link/1", `
"Analysis": {"status": "completed", "outputs": {"decisions": {"data base": "SQLite", "ports": [80, 443], "essay": "`+long+`"}}},
"coding": {"status": "completed", "outputs": {"decisions": "none"}},
"qa": {"status": "running"}`)))
	require.NoError(t, err)
	w, err := c.Convert(crew("requirements", "implementation"))
	require.NoError(t, err)
	require.Equal(t, "hive-link-1", w.Session)
	require.Equal(t, map[string]string{"data-base": "SQLite", "ports": "[80,443]"}, w.Phases[0].Decisions)
	require.Equal(t, "implementation", w.Phases[1].Name)
	notes := strings.Join(w.Notes, "\n")
	for _, want := range []string{
		`session "hive:link/1" is imported as hive-link-1`, `phase "Analysis" is imported as requirements`,
		`phase "coding" is imported as implementation`,
		`decision "data base" is imported as data-base`,
		`decision "essay" of phase requirements cannot be imported as a decision; it is only in maestro-hive/requirements.json`,
		`the decisions of phase implementation are not a JSON object`, `phase "qa" is not imported: its status is "running"`,
	} {
		require.Contains(t, notes, want)
	}
	// A team that has a phase of the very name gets the work there.
	w, err = c.Convert(crew("analysis", "requirements", "coding"))
	require.NoError(t, err)
	require.Equal(t, "analysis", w.Phases[0].Name)
	require.Equal(t, "coding", w.Phases[1].Name)
}

func TestWhatCannotBeImportedIsNamed(t *testing.T) {
	t.Parallel()
	done := `{"status": "completed", "outputs": {}}`
	for name, c := range map[string]struct {
		data  string
		wants []string
	}{
		"cut":     {string(sample(t)[:500]), []string{"line ", "unexpected end"}},
		"no JSON": {"{\n\"checkpoint_metadata\": x}", []string{"line 2"}},
		"more":    {document("x", `"design": `+done) + "{}", []string{"after top-level value"}},
		"another version": {
			strings.Replace(document("x", `"design": `+done), `"1.0"`, `"2.0"`, 1),
			[]string{`checkpoint_metadata.version: is "2.0"`, `"1.0"`},
		},
		"no phase": {document("x", `"design": {"status": "failed"}`), []string{
			`workflow_context.phase_results: has no phase whose status is "completed"`,
		}},
		"a list": {document("x", `"design": []`), []string{"workflow_context.phase_results", "is a array", "JSON object"}},
		"outputs": {
			document("x", `"design": {"status": "completed", "outputs": [1]}`),
			[]string{"phase_results.design.outputs: must be a JSON object"},
		},
		"no requirement": {
			strings.Replace(document("x", `"design": `+done), "Do it.", "", 1),
			[]string{"initial_requirement: is missing"},
		},
		"unknown phases": {document("x", `"marketing": `+done+`, "desing": `+done+`, "deploy": `+done), []string{
			`phase_results.marketing: team web has no phase "marketing"`, `did you mean "design"?`, `"deploy" (or deployment)`,
			"it has requirements, design",
		}},
		"one phase twice": {document("x", `"analysis": `+done+`, "specification": `+done), []string{
			`phase_results.specification: is phase requirements of team web, and so is "analysis"`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			parsed, err := hiveimport.Parse([]byte(c.data))
			if err == nil {
				_, err = parsed.Convert(crew("requirements", "design"))
			}
			var faults hiveimport.Faults
			require.ErrorAs(t, err, &faults)
			for _, want := range c.wants {
				require.ErrorContains(t, err, want)
			}
		})
	}
}
