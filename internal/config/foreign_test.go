package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFilesOfOtherProgramsAreNamed(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		"services: {web: {image: nginx}}\n":                              "is a Compose file, not a team file",
		"on: [push]\njobs: {build: {runs-on: ubuntu-latest}}\n":          "is a workflow of GitHub Actions",
		"apiVersion: v1\nkind: Pod\n":                                    "is a manifest of Kubernetes",
		"apiVersion: v1\nkind: Pod\n---\napiVersion: v1\nkind: Secret\n": "is a manifest of Kubernetes",
	} {
		_, err := ParseTeam("team.yaml", []byte(text))
		require.ErrorContains(t, err, says)
		require.NotContains(t, err.Error(), "unknown field")
	}
	_, err := ParseTeam("team.yaml", []byte("version: 1\n---\nversion: 1\n"))
	require.ErrorContains(t, err, "a second document starts here")
	require.NotContains(t, err.Error(), "is missing", "one cause is one problem")
}
