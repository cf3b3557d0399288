package cli_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/models/config"
	"github.com/maestro-hive/maestro/internal/testkit/proctest"
)

// TestInitRuns writes each template and does with it what the command says.
func TestInitRuns(t *testing.T) {
	t.Parallel()
	for template, result := range map[string][]string{
		"software": {"docs/requirements.md", "greet.sh", "test.sh"},
		"audit":    {"audit/report.md", "audit/report.json"},
		"blank":    {"page.md"},
	} {
		t.Run(template, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t).withServer()
			dir := filepath.Join(d.dir, "my project")
			c := d.run("init", dir, "--template", template)
			require.Zero(t, c.code, c.stderr.String())
			written := strings.Fields(strings.ReplaceAll(c.stdout.String(), dir, ""))
			require.Contains(t, written, "/team.yaml")
			team, agents := filepath.Join(dir, "team.yaml"), filepath.Join(dir, "agents.yaml")
			require.Contains(t, c.stderr.String(), "maestro dev --agents '"+agents+"'")
			require.NotContains(t, c.stdout.String(), "_test.go")

			require.Contains(t, d.must(0, "validate", team, "--agents", agents), "my-project")
			for _, file := range []string{team, agents} {
				text, err := os.ReadFile(file)
				require.NoError(t, err)
				require.NotContains(t, string(text), "$schema=", "the schema is in this repository")
			}

			d.begin("worker", "--agents", agents, "--drain", "1s")
			until(t, func() bool { return d.run("agents", "--team", team).code == 0 }, "the worker did not come up")
			proctest.ShareGoCache(t, d.state)
			module := filepath.Dir(d.file("module/go.mod", "module example.com/greet\n\ngo 1.24\n"))
			d.file("module/greet.go", "package greet\n")
			d.must(0, "run", team, `Greet people "by name"`, "--workspace", module, "--session", "s", "--watch")
			out := filepath.Join(d.dir, "out")
			d.must(0, "artifacts", "get", "s", "--out", out)
			for _, file := range result {
				require.FileExists(t, filepath.Join(out, file))
			}
			page, err := os.ReadFile(filepath.Join(out, result[0]))
			require.NoError(t, err)
			require.Contains(t, string(page), `Greet people "by name"`)
		})
	}
}

func TestInitOverwritesNothing(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	mine := d.file("web/agents/tester.sh", "mine\n")
	dir := filepath.Join(d.dir, "web")
	c := d.run("init", dir)
	require.Equal(t, 2, c.code)
	require.Contains(t, c.stderr.String(), "agents/tester.sh, which is not overwritten")
	text, err := os.ReadFile(mine)
	require.NoError(t, err)
	require.Equal(t, "mine\n", string(text))
	require.NoFileExists(t, filepath.Join(dir, "team.yaml"), "and nothing is written beside it")

	d.must(0, "init", dir, "--template", "blank")
	require.Equal(t, 2, d.run("init", dir, "--template", "blank").code)
	require.Equal(t, 2, d.run("init", filepath.Join(mine, "below")).code)
}

func TestInitHere(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	var doc struct {
		Dir, Template, Team string
		Files               []string
	}
	d.json(&doc, "init")
	require.Equal(t, "software", doc.Template)
	require.Contains(t, doc.Files, "agents/developer.sh")
	for _, file := range doc.Files {
		require.FileExists(t, filepath.Join(d.dir, file))
	}
	c := d.run("init", filepath.Join(d.dir, "x"), "--template", "blnk")
	require.Equal(t, 2, c.code)
	require.Contains(t, c.stderr.String(), `did you mean "blank"?`)
	offered := d.must(0, "__complete", "init", "--template", "")
	require.Contains(t, offered, "blank\tone persona, one phase\n")
	require.Contains(t, offered, "audit\tthe Go toolchain checks a Go module and writes a report\n")
}

// TestInitsSuggestionsLoad loads what the worker file suggests in its comments.
func TestInitsSuggestionsLoad(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("scaffold/software/agents.yaml")
	require.NoError(t, err)
	suggested := regexp.MustCompile(`(?m)^#   developer:\n(#     .*\n)+`).FindAllString(string(text), -1)
	require.Len(t, suggested, 2)
	providers := regexp.MustCompile(`(?m)^# providers:\n(#   .*\n)+`).FindString(string(text))
	for _, s := range suggested {
		file := filepath.Join(t.TempDir(), "agents.yaml")
		require.NoError(t, os.WriteFile(file, []byte("version: 1\n"+regexp.MustCompile(`(?m)^# `).ReplaceAllString(providers, "")+"agents:\n"+strings.ReplaceAll(s, "#   ", "  ")), 0o600))
		_, err := config.LoadWorker(file)
		require.NoError(t, err)
	}
}
