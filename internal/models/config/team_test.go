package config

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/spec"
)

// The text of a team that a page shows is read as the same team.
func TestATeamIsWrittenAsItIsRead(t *testing.T) {
	t.Parallel()
	for _, file := range []string{
		filepath.Join("testdata", "good", "full.yaml"),
		filepath.Join("..", "..", "..", "examples", "shortener", "team.yaml"),
	} {
		team, err := LoadTeam(file)
		require.NoError(t, err)
		text, err := TeamText(team)
		require.NoError(t, err)
		again, err := ParseTeam("team", []byte(text))
		require.NoError(t, err, text)
		require.Equal(t, team, again)
		require.Regexp(t, `(?m)^- name: `, text, "in block style")
		require.NotContains(t, text, spec.DeliveryPersona+":", "no file has the persona that delivers")
	}
}

func TestFilesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	large := filepath.Join(dir, "large.yaml")
	require.NoError(t, os.WriteFile(large, []byte(strings.Repeat("# much\n", maxFile/7+1)), 0o600))
	device := filepath.Join(dir, "socket")
	for path, want := range map[string]string{
		"":                                `"": is not a file name`,
		dir:                               dir + ": is a directory; name the file in it",
		filepath.Join(dir, "absent.yaml"): "absent.yaml: does not exist; check the path",
		large:                             "large.yaml: is larger than 1024 KiB",
		"/dev/null":                       "/dev/null: is not a regular file",
		filepath.Join(device, "x.yaml"):   "x.yaml: does not exist",
	} {
		for _, load := range []func(string) error{
			func(p string) error { _, err := LoadTeam(p); return err },
			func(p string) error { _, err := LoadWorker(p); return err },
		} {
			err := load(path)
			var problems *Problems
			require.ErrorAs(t, err, &problems)
			require.ErrorContains(t, err, want)
		}
	}
}

func TestInstructionsStayInTheTeamFilesDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "secret.md")
	require.NoError(t, os.WriteFile(outside, []byte("secret"), 0o600))
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "link.md")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "large.md"), []byte(strings.Repeat("x", spec.MaxInstructions+1)), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "real.md"), []byte("work"), 0o600))
	require.NoError(t, os.Symlink("real.md", filepath.Join(dir, "inside.md")))
	load := func(name string) (spec.Team, error) {
		file := filepath.Join(dir, filepath.Base(name)+".yaml")
		text := strings.Replace(smallTeam, "instructions: Work.", "instructions_file: "+name, 1)
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return LoadTeam(file)
	}
	_, err := load("link.md")
	require.ErrorContains(t, err, `"link.md" leads out of this file's directory`)
	_, err = load("large.md")
	require.ErrorContains(t, err, "is larger than 256 KiB")
	got, err := load("inside.md")
	require.NoError(t, err)
	require.Equal(t, "work", got.Personas["dev"].Instructions)
}

const smallTeam = `version: 1
name: small
personas:
  dev: {role: Developer, agent: coder, instructions: Work.}
phases:
  - {name: build, personas: [dev]}
`

// noFiles is a directory in which nothing lies.
func noFiles(string) (string, error) { return "", fs.ErrNotExist }

func TestManyFaultsAreCutShort(t *testing.T) {
	t.Parallel()
	text := smallTeam
	for i := range 100 {
		text += "unknown" + strings.Repeat("x", i) + ": 1\n"
	}
	src, _ := newSource("t.yaml", []byte(text))
	_, err := parseTeam(src, noFiles)
	require.ErrorContains(t, err, "t.yaml: and 70 more")
}

func TestTerminalIsNotWrittenTo(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"version: 1\nname: \"\\e[2J\"\n", "\"\\e]0;x\\a\": 1\n", "name: \u202ex\n", "personas: {\"\\e[2J\": {agent: \"\\e\"}}\n",
	} {
		src, problem := newSource("t.yaml", []byte(text))
		require.Nil(t, problem)
		_, err := parseTeam(src, noFiles)
		require.Error(t, err)
		require.NotContains(t, err.Error(), "\x1b")
		require.NotContains(t, err.Error(), "\a")
		require.NotContains(t, err.Error(), "\u202e")
	}
}

// TestHugeFilesAreRefusedSoon: what costs the parser time that grows faster than
// the file does not reach it.
func TestHugeFilesAreRefusedSoon(t *testing.T) {
	t.Parallel()
	for name, unit := range map[string]string{
		"lists": "[", "mappings": "{a: ", "entries": "- ", "keys": "? ", "anchors": "&a ", "tags": "!a ", "quotes": "'",
		"aliases": "*a ",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src, problem := newSource("t.yaml", []byte(strings.Repeat(unit, 500_000/len(unit))))
			require.Nil(t, problem)
			_, err := parseTeam(src, noFiles)
			require.Error(t, err)
			require.Less(t, len(err.Error()), 2000)
		})
	}
}

// FuzzTeam: no text brings the loader down, every refusal names the file, and
// every team that is accepted is without problems, also once resolved.
func FuzzTeam(f *testing.F) {
	seed(f, "team")
	f.Fuzz(func(t *testing.T, data []byte) {
		src, problem := newSource("t.yaml", data)
		if problem != nil {
			require.NotEmpty(t, problem.Message)
			return
		}
		got, err := parseTeam(src, func(string) (string, error) { return "instructions", nil })
		if err != nil {
			require.True(t, strings.HasPrefix(err.Error(), "t.yaml"), err.Error())
			return
		}
		require.Empty(t, got.Problems())
		require.Equal(t, got, got.Resolved())
		require.Len(t, got.Topological(), len(got.Phases))
	})
}

func seed(f *testing.F, dir string) {
	for _, pattern := range []string{filepath.Join("testdata", dir, "*.yaml"), "testdata/good/*.yaml"} {
		files, err := filepath.Glob(pattern)
		require.NoError(f, err)
		for _, file := range files {
			data, err := os.ReadFile(file)
			require.NoError(f, err)
			f.Add(data)
		}
	}
}

// TestAFileOfAnotherSystemIsNamed: not by its first unknown field.
func TestAFileOfAnotherSystemIsNamed(t *testing.T) {
	t.Parallel()
	for want, text := range map[string]string{
		"is a workflow of Archon": "name: fix\ndescription: Fix it\nnodes:\n- {id: plan, command: plan}\n- {id: do, prompt: " +
			"do it, depends_on: [plan]}\n",
		"is an agent file of docker-agent": "version: 10\nagents:\n  root: {model: openai/gpt-5, description: d, instruction: help}\n",
		"has agents of CrewAI":             "researcher:\n  role: r\n  goal: g\n  backstory: b\n",
		"has tasks of CrewAI":              "research:\n  description: d\n  expected_output: e\n  agent: researcher\n",
		"is a workflow of Symphony":        symphonys,
		"is a workflow of Symphony; ":      "\uFEFF---\r\n" + symphonys + "---\r\nYou work on {{ issue.identifier }}: `a: b: c`\n",
	} {
		_, err := ParseTeam("team.yaml", []byte(text))
		require.ErrorContains(t, err, "team.yaml: "+want)
		require.Len(t, strings.Split(err.Error(), "\n"), 1)
	}
}

const symphonys = "tracker: {kind: linear}\nworkspace: {root: /w}\ncodex: {command: codex}\n"

func TestARequirementMayHaveFrontMatter(t *testing.T) {
	t.Parallel()
	require.Contains(t, ForeignDocument("---\n"+symphonys+"---\n"),
		"is a workflow of Symphony; its text is the instructions of a persona")
	for _, text := range []string{
		"", "---", "---\n", "# " + symphonys, "---\ntitle: Shout\ntracker: LIN-7\n---\nAdd a flag.\n", "---\n" + symphonys,
		"---\n\x00\n---\n", "---\n[: {\n---\n",
	} {
		require.Empty(t, ForeignDocument(text), "%q", text)
	}
}
