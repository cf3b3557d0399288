//go:build system

package prometheus_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"
)

// promtool runs the program of Debian's package prometheus. A test that needs it fails where it is missing.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	program, err := exec.LookPath("promtool")
	require.NoError(t, err, "this test needs promtool: install Debian's package prometheus (apt-get install prometheus)")
	out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
	require.NoError(t, err, "promtool %s\n%s", strings.Join(args, " "), out)
}

func TestPromtoolAcceptsRulesAndConfiguration(t *testing.T) {
	t.Parallel()
	promtool(t, "check", "rules", "maestro.rules.yml")
	promtool(t, "check", "config", "prometheus.yml")
	promtool(t, "test", "rules", "maestro.rules.test.yml")
}

// TestPromtoolUnderstandsTheDashboard has promtool read the queries of the dashboard's panels as recording rules.
// That a worker serves the metrics which they name is shown by the tests of worker/service.
func TestPromtoolUnderstandsTheDashboard(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../grafana/maestro.json")
	require.NoError(t, err)
	var dashboard struct {
		Panels []struct {
			Targets []struct{ Expr string }
		}
	}
	require.NoError(t, json.Unmarshal(data, &dashboard))
	type rule struct{ Record, Expr string }
	var rules []rule
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			rules = append(rules, rule{fmt.Sprint("query:", len(rules)), strings.ReplaceAll(target.Expr, "$job", ".+")})
		}
	}
	require.Greater(t, len(rules), 20)
	file, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}})
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "rules.yml")
	require.NoError(t, os.WriteFile(path, file, 0o600))
	promtool(t, "check", "rules", path)
}
