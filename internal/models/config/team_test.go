package config

import (
	"encoding/json"
	"fmt"
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

// aTeam is a team file with further fields of its persona, its phase and the file.
func aTeam(persona, phase, top string) string {
	return fmt.Sprintf(`version: 1
name: web
personas:
  dev: {role: Developer, agent: coder, instructions: Work., %s}
phases:
  - {name: build, personas: [dev], %s}
%s
`, persona, phase, top)
}

// said are the messages on a team file's fields.
func said(t *testing.T, text string) map[string][]string {
	t.Helper()
	src, problem := newSource("f.yaml", []byte(text))
	require.Nil(t, problem)
	_, err := parseTeam(src, noFiles)
	found := map[string][]string{}
	if err != nil {
		var problems *Problems
		require.ErrorAs(t, err, &problems)
		for _, f := range problems.List {
			found[f.Field] = append(found[f.Field], f.Message)
		}
	}
	return found
}

func TestTeamFaults(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 300)
	jira := func(fields string) string { return "help: {jira: {project: MD, " + fields + "}}" }
	for _, c := range []struct{ persona, phase, top, path, message string }{
		{"", "", "description: " + strings.Repeat("x", 5000), "description", "has 5000 characters; at most 4096 are allowed"},
		{"attempts: -1", "", "", "personas.dev.attempts", "is -1"},
		{"budget: {usd: 1000001}", "", "", "personas.dev.budget.usd", "above 0 and at most 1000000"},
		{"produces: [" + strings.Repeat("x, ", 201) + "]", "", "", "personas.dev.produces", "has 201 entries; at most 200"},
		{"", "order: paralle", "", "phases[0].order", `is "paralle"; did you mean "parallel"?; it must be parallel or sequence`},
		{"", "needs: [a, a]", "", "phases[0].needs[1]", `lists "a" a second time`},
		{"", "", "retry: {on_outage: wiat}", "retry.on_outage", `did you mean "wait"?`},
		{"", "", "budget: {tokens: 5, warn_at: [.nan]}", "budget.warn_at[0]", "must be a number"},
		{"", "", "budget: {on_exceeded: explode}", "budget.on_exceeded", "it must be stop, ask or degrade"},
		{"", "", "help: {jira: {}}", "help.jira.project", "is missing; write it like `project: MD`"},
		{"", "", jira(`type: "Bug\nfix"`), "help.jira.type", "no name in Jira has"},
		{"", "", jira("components: [' ']"), "help.jira.components[0]", "is empty"},
		{"", "", jira("components: [" + long + "]"), "help.jira.components[0]", "has 300 characters"},
		{"", "", jira("priorities: {auth: ''}"), "help.jira.priorities.auth", "is empty"},
		{"", "", jira("fields: {summary: x}"), "help.jira.fields.summary", "Maestro writes itself"},
		{"", "", jira("fields: {issuetype: x}"), "help.jira.fields.issuetype", "is set by a field of help.jira"},
		{"", "", "retry: 5", "retry", "must be a mapping with fields such as attempts"},
	} {
		found := said(t, aTeam(c.persona, c.phase, c.top))
		require.Len(t, found[c.path], 1, "%s: %v", c.path, found)
		require.Contains(t, found[c.path][0], c.message, c.path)
	}
}

func TestPatterns(t *testing.T) {
	t.Parallel()
	on := func(pattern string) string {
		quoted, err := json.Marshal(pattern)
		require.NoError(t, err)
		return strings.Join(said(t, aTeam("produces: ["+string(quoted)+"]", "", ""))["personas.dev.produces[0]"], "\n")
	}
	for _, good := range []string{
		"README.md", "docs/*.md", "docs/**", "**/*.go", "**", "web/{a,b}/*.{js,css}", "a?c", "[a-z]*.txt", "[!0-9]x",
		".github/workflows/*.yml", "a b/ü.md", "...x",
	} {
		require.Empty(t, on(good), good)
	}
	for bad, want := range map[string]string{
		"": "is empty", "  ": "is empty", " a": "has spaces around it", "/etc/passwd": "is absolute",
		"../x": "leaves the work's directory", "a/../b": "leaves",
		"./a": "an empty or . part", "a//b": "an empty or . part", "docs/": "names a directory; write ** at its end",
		`docs\x.md`:   "separate directories with /",
		".git/config": "is git's own", "a[b": "brackets that are no choice", "a]": "brackets", "[]": "brackets", "[z-a]": "write a-z",
		"{a": "braces", "a}": "braces", "{a,{b}}": "braces", "}{": "braces",
		"a**/b": "stands for whole directories", "a\nb": "cannot be printed", strings.Repeat("a", 513): "longer than 512",
	} {
		require.Contains(t, on(bad), want, bad)
	}
}

func TestRepositoriesAndBranches(t *testing.T) {
	t.Parallel()
	on := func(field, value string) string {
		quoted, err := json.Marshal(value)
		require.NoError(t, err)
		text := aTeam("", "", "") + "  - {name: ship, deliver: {to: github, " + field + ": " + string(quoted) + "}}\n"
		return strings.Join(said(t, text)["phases[1].deliver."+field], "\n")
	}
	for _, good := range []string{"acme/shop", "Acme_2/shop.js", "group/sub-group/deep/shop", "a/b-.c", "acme/.github"} {
		require.Empty(t, on("repository", good), good)
	}
	for bad, want := range map[string]string{
		"": "is empty", "shop": "write it like acme/shop", "/acme/shop": "write it like", "acme/shop/": "write it like",
		"acme//shop": "write it like", "acme/..": ".. in it", "../acme/shop": ".. in it", "acme/a..b": ".. in it",
		"-acme/shop": "write it like", "acme/-shop": "write it like", "acme/.git": "ends in .git", "acme/.": ".. in it",
		"acme/./x": ".. in it", ".x/acme": "write it like",
		"acme/sh op": "write it like", "acme/shop\n": "write it like", "acme/shöp": "write it like", "acme/shop.git": "leave that out",
		"https://github.com/acme/shop": "is an address", "git@github.com:acme/shop": "is an address", "acme/shop?x": "write it like",
		"a/" + strings.Repeat("b", 254): "has 256 characters",
	} {
		require.Contains(t, on("repository", bad), want, bad)
	}
	for _, good := range []string{"main", "release/2.1", "fix-1", "a@b", "ünï", "a{b}", "#1", "MAIN"} {
		require.Empty(t, on("base", good), good)
	}
	// What git check-ref-format and git branch refuse, and @, which stands for HEAD.
	for bad, want := range map[string]string{
		"": "is empty", "refs/heads/main": "write the name of the branch alone", "-d": "is not the name", "/a": "is not the",
		"a/": "is not the", "a//b": "is not the", "a.": "is not the", "@": "is not the", "HEAD": "is not the", ".a": "begins with .",
		"a/.b": "begins with .", "a..b": "has .. in it", "a.lock": "ends in .lock", "a.lock/b": "ends in .lock", "a b": "has a space",
		"a~1": "another character", "a^": "another character", "a:b": "another character", "a?": "another character",
		"a*": "another character", "a[b": "another character", `a\b`: "another character", "a@{b": "another character",
		"a\tb": "another character", "a\nb": "another character", strings.Repeat("a", 201): "has 201 characters",
	} {
		require.Contains(t, on("base", bad), want, bad)
	}
}

// TestHostileValuesAreRefusedSoon: neither many problems nor huge numbers cost much.
func TestHostileValuesAreRefusedSoon(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"problems on one line": "version: 1\nphases: [" + strings.Repeat("[],", 90_000) + "]\n",
		"unknown fields": strings.Repeat("x", 50) + "0: 1\n" + func() (s string) {
			var b strings.Builder
			for i := range 15_000 {
				fmt.Fprintf(&b, "y%d: 1\n", i)
			}
			return b.String()
		}(),
		"exponents":      aTeam("attempts: 1e400000000", "", "budget: {usd: 1e-400000000}"),
		"many phases":    "version: 1\nphases:\n" + strings.Repeat("- {name: a, needs: [b]}\n", 20_000),
		"repeated names": "version: 1\nphases: [{name: a, needs: [" + strings.Repeat("x,", 90_000) + "]}]\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.NotEmpty(t, said(t, text))
		})
	}
}
