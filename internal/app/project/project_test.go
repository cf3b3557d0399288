package project_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/app/project"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/models/agent"
	"github.com/maestro-hive/maestro/internal/models/config"
	"github.com/maestro-hive/maestro/internal/store/cas/castest"
)

// repository writes files into a new Git repository.
func repository(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, ".git"), 0o700))
	castest.WriteTree(t, dir, files)
	return dir
}

// host has programs and variables, given as NAME=VALUE.
func host(programs string, variables ...string) project.Host {
	return project.Host{
		LookPath: func(program string) (string, error) {
			if slices.Contains(strings.Fields(programs), program) {
				return "/bin/" + program, nil
			}
			return "", fs.ErrNotExist
		},
		Getenv: func(name string) string {
			for _, v := range variables {
				if value, ok := strings.CutPrefix(v, name+"="); ok {
					return value
				}
			}
			return ""
		},
	}
}

func named(string) string { return "shop" }

func TestChecksAreThoseOfTheRepositorysTools(t *testing.T) {
	t.Parallel()
	const everything = "claude go cargo bun pnpm yarn npm uv pytest mvn gradle make just"
	const tested = `{"scripts": {"test": "node --test"}}`
	for name, test := range map[string]struct {
		files    map[string]string
		programs string
		checks   []string
		// caches are those of the checks, with the variable that names each.
		caches []string
		lacks  string
	}{
		"Go": {
			files:  map[string]string{"go.mod": "module m", "Makefile": "test:\n"},
			checks: []string{"go-build: go build ./...", "go-test: go test ./..."},
			caches: []string{"go-build GOCACHE", "go-mod GOMODCACHE"},
		},
		"Rust": {
			files:  map[string]string{"Cargo.toml": ""},
			checks: []string{"cargo-build: cargo build --all-targets", "cargo-test: cargo test"},
			caches: []string{"cargo CARGO_HOME", "cargo-target CARGO_TARGET_DIR"},
		},
		"TypeScript with npm": {
			files:  map[string]string{"package.json": tested, "package-lock.json": "{}", "tsconfig.json": "{}", "src/index.ts": ""},
			checks: []string{"npm-test: sh -c npm ci && npm test"}, caches: []string{"npm npm_config_cache"},
		},
		"npm without a lock": {
			files:  map[string]string{"package.json": tested},
			checks: []string{"npm-install-test: sh -c npm install --no-package-lock && npm test"},
			caches: []string{"npm npm_config_cache"},
		},
		"pnpm": {
			files:  map[string]string{"package.json": tested, "pnpm-lock.yaml": "", "package-lock.json": "{}"},
			checks: []string{"pnpm-test: sh -c pnpm install --frozen-lockfile && pnpm test"},
			caches: []string{"pnpm npm_config_store_dir"},
		},
		"yarn": {
			files:  map[string]string{"package.json": tested, "yarn.lock": ""},
			checks: []string{"yarn-test: sh -c yarn install --frozen-lockfile && yarn test"}, caches: []string{"yarn YARN_CACHE_FOLDER"},
		},
		"bun": {
			files:  map[string]string{"package.json": tested, "bun.lock": ""},
			checks: []string{"bun-test: sh -c bun install --frozen-lockfile && bun run test"},
			caches: []string{"bun BUN_INSTALL_CACHE_DIR"},
		},
		"a package without tests": {files: map[string]string{"package.json": `{"scripts": {"test": "echo \"Error: no test specified\" && exit 1"}}`}},
		"Python with uv": {
			files: map[string]string{"uv.lock": "", "pyproject.toml": ""}, checks: []string{"uv-pytest: uv run pytest"},
			caches: []string{"uv UV_CACHE_DIR"},
		},
		"Python": {files: map[string]string{"setup.cfg": ""}, checks: []string{"pytest: pytest -p no:cacheprovider"}},
		"Python without a project": {
			files: map[string]string{"shout.py": "", "tests/test_shout.py": "import unittest\n"}, programs: "claude python3",
			checks: []string{"unittest: sh -c if [ -d tests ]; then python3 -m unittest discover -s tests; else python3 -m unittest; fi"},
		},
		"Java with Maven": {
			files:  map[string]string{"pom.xml": ""},
			checks: []string{`maven: sh -c mvn --batch-mode --quiet -Dmaven.repo.local="$MAVEN_REPOSITORY" verify`},
			caches: []string{"maven MAVEN_REPOSITORY"},
		},
		"Java with Gradle": {
			files: map[string]string{"build.gradle.kts": ""}, checks: []string{"gradle: gradle --no-daemon check"},
			caches: []string{"gradle GRADLE_USER_HOME"},
		},
		"make":               {files: map[string]string{"Makefile": "all:\n\ntest: all\n"}, checks: []string{"make-test: make test"}},
		"make without tests": {files: map[string]string{"Makefile": "tests:\n"}},
		"just": {
			files:  map[string]string{"justfile": "test name='':\n  true\n"},
			checks: []string{"just-test: just test"},
		},
		"two languages": {
			files:  map[string]string{"go.mod": "", "package.json": tested, "package-lock.json": ""},
			checks: []string{"go-build: go build ./...", "go-test: go test ./...", "npm-test: sh -c npm ci && npm test"},
			caches: []string{"go-build GOCACHE", "go-mod GOMODCACHE", "npm npm_config_cache"},
		},
		"an unknown language": {files: map[string]string{"main.ml": ""}},
		"a tool that is not there": {
			files: map[string]string{"Cargo.toml": "", "Makefile": "test:\n"}, programs: "claude make",
			checks: []string{"make-test: make test"}, lacks: "Cargo.toml, because cargo is not in PATH",
		},
		"a directory go.mod": {files: map[string]string{"go.mod/x": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := repository(t, test.files)
			if test.programs == "" {
				test.programs = everything
			}
			p, err := project.Find(dir, host(test.programs, "ANTHROPIC_API_KEY=k"), named)
			require.NoError(t, err)
			require.Equal(t, test.lacks, strings.Join(p.Unchecked, "\n"))
			if test.checks == nil {
				require.Contains(t, p.Describe(), "checks      none: no tool of the repository is known")
			}
			team, worker := valid(t, p)
			var checks, caches []string
			implementation, _ := team.Phase("implementation")
			for _, name := range implementation.Checks {
				checks = append(checks, name+": "+strings.Join(worker.Checks[name].Argv, " "))
				for _, cache := range worker.Checks[name].Caches {
					caches = append(caches, cache+" "+worker.Caches[cache].Env)
				}
			}
			require.Equal(t, test.checks, checks)
			slices.Sort(caches)
			require.Equal(t, test.caches, slices.Compact(caches))
		})
	}
}

// valid holds the files of a project against the rules for team files and worker files, and returns what they say.
func valid(t *testing.T, p project.Project) (spec.Team, agent.Config) {
	t.Helper()
	dir := t.TempDir()
	write := func(name string, make func() ([]byte, error)) string {
		data, err := make()
		require.NoError(t, err)
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, data, 0o600))
		return path
	}
	team, err := config.LoadTeam(write("team.yaml", p.TeamFile))
	require.NoError(t, err)
	require.Equal(t, p.Name, team.Name)
	worker, err := config.LoadWorker(write("agents.yaml", p.WorkerFile))
	require.NoError(t, err)
	for _, persona := range team.Personas {
		require.Contains(t, worker.Agents, persona.Agent)
	}
	for _, phase := range team.Phases {
		for _, check := range phase.Checks {
			require.Contains(t, worker.Checks, check)
		}
	}
	return team, worker
}

func TestAgentsAreThoseWithCredentials(t *testing.T) {
	t.Parallel()
	dir := repository(t, nil)
	for name, given := range map[string][]string{ // what is said of the agent, the programs, and the variables
		"a key":             {"Claude Code, with the key in ANTHROPIC_API_KEY", "claude codex", "ANTHROPIC_API_KEY=k"},
		"a token":           {"Claude Code, with CLAUDE_CODE_OAUTH_TOKEN", "claude", "CLAUDE_CODE_OAUTH_TOKEN=t"},
		"Claude has no key": {"Codex, with the key in OPENAI_API_KEY", "claude codex", "OPENAI_API_KEY=k"},
		"an address": {
			"Gemini CLI, with the key in GEMINI_API_KEY", "gemini", "GEMINI_API_KEY=k", "GOOGLE_GEMINI_BASE_URL=http://127.0.0.1:9",
		},
		"no program is there": {"the model gpt-5, with the key in OPENAI_API_KEY", "", "OPENAI_API_KEY=k"},
		"a program rather than another's model": {
			"Codex, with the key in OPENAI_API_KEY", "codex", "ANTHROPIC_API_KEY=k", "OPENAI_API_KEY=k",
		},
	} {
		p, err := project.Find(dir, host(given[1], given[2:]...), named)
		require.NoError(t, err)
		require.Equal(t, given[0], p.Agent.Title, name)
		require.Contains(t, p.Describe(), given[0])
		valid(t, p)
	}
}

func TestARepositoryIsFoundFromBelow(t *testing.T) {
	t.Parallel()
	dir := repository(t, map[string]string{"internal/x/x.go": "package x"})
	p, err := project.Find(filepath.Join(dir, "internal/x"), host("claude", "ANTHROPIC_API_KEY=k"), named)
	require.NoError(t, err)
	require.Equal(t, dir, p.Dir)
	_, err = project.Find(t.TempDir(), host("claude", "ANTHROPIC_API_KEY=k"), named)
	require.ErrorContains(t, err, "is in no Git repository")
}
