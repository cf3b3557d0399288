// Package prometheus_test holds the alert rules against what a person needs of
// them and, where Debian's Prometheus is at hand, against Prometheus itself.
package prometheus_test

import (
	"os"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"
)

type alert struct {
	Alert       string            `yaml:"alert"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

func alerts(t *testing.T) []alert {
	t.Helper()
	var file struct {
		Groups []struct {
			Rules []alert `yaml:"rules"`
		} `yaml:"groups"`
	}
	load(t, "maestro.rules.yml", &file)
	var all []alert
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	require.NotEmpty(t, all)
	return all
}

func load(t *testing.T, path string, into any) {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(data, into))
}

func TestEveryAlertSaysWhatToDo(t *testing.T) {
	t.Parallel()
	for _, a := range alerts(t) {
		for _, annotation := range []string{"summary", "description", "action"} {
			require.NotEmpty(t, a.Annotations[annotation], "%s has no %s", a.Alert, annotation)
		}
		require.Regexp(t, `^(page|ticket)$`, a.Labels["severity"], a.Alert)
	}
}

func TestEveryAlertIsTestedFiringAndQuiet(t *testing.T) {
	t.Parallel()
	var file struct {
		Tests []struct {
			Rules []struct {
				Name     string `yaml:"alertname"`
				Expected []any  `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		} `yaml:"tests"`
	}
	load(t, "maestro.rules.test.yml", &file)
	fires, quiet := map[string]bool{}, map[string]bool{}
	for _, test := range file.Tests {
		for _, r := range test.Rules {
			if len(r.Expected) > 0 {
				fires[r.Name] = true
			} else {
				quiet[r.Name] = true
			}
		}
	}
	for _, a := range alerts(t) {
		require.True(t, fires[a.Alert], "no test has %s fire", a.Alert)
		require.True(t, quiet[a.Alert], "no test has %s stay quiet", a.Alert)
	}
}

func TestEveryAlertIsDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	for _, a := range alerts(t) {
		require.Contains(t, string(page), a.Alert)
	}
}
