package project

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/platform/bounded"
)

// Tool builds and tests repositories of its kind.
type Tool struct {
	Program string
	Checks  []Check
	// Caches are directories that it keeps between runs, by the variable that names them.
	Caches []Cache
	// Env are variables that it reads.
	Env []string

	// files are patterns of those by one of which a repository is the tool's.
	files []string
	// uses says more closely whether a repository is the tool's; nil if it is by the file alone.
	uses func(dir, file string) bool
	// kind is what one tool of a repository serves: npm has nothing to do where pnpm does the work. Empty if others change
	// nothing.
	kind string
}

// Check is one run of a tool.
type Check struct {
	Name string
	Argv []string
	// Builds is true for a check that only builds: a failure is one of syntax.
	Builds bool
}

// Cache is a directory of a tool.
type Cache struct{ Name, Env string }

// tools are those that are known, the more special ones first. To add one, add an entry.
var tools = []Tool{
	{
		Program: "go", files: []string{"go.mod"},
		Checks: []Check{
			{Name: "go-build", Argv: []string{"go", "build", "./..."}, Builds: true},
			{Name: "go-test", Argv: []string{"go", "test", "./..."}},
		},
		Caches: []Cache{{"go-build", "GOCACHE"}, {"go-mod", "GOMODCACHE"}},
		Env: []string{
			"GOPROXY", "GOSUMDB", "GOPRIVATE", "GONOSUMDB", "GONOPROXY", "GOFLAGS", "GOTOOLCHAIN", "GOROOT", "CGO_ENABLED",
		},
	},
	{
		Program: "cargo", files: []string{"Cargo.toml"},
		Checks: []Check{
			{Name: "cargo-build", Argv: []string{"cargo", "build", "--all-targets"}, Builds: true},
			{Name: "cargo-test", Argv: []string{"cargo", "test"}},
		},
		Caches: []Cache{{"cargo", "CARGO_HOME"}, {"cargo-target", "CARGO_TARGET_DIR"}},
		Env:    []string{"RUSTUP_HOME"},
	},
	packageJSON("bun", "BUN_INSTALL_CACHE_DIR", "bun install --frozen-lockfile && bun run test", "bun.lock", "bun.lockb"),
	packageJSON("pnpm", "npm_config_store_dir", "pnpm install --frozen-lockfile && pnpm test", "pnpm-lock.yaml"),
	packageJSON("yarn", "YARN_CACHE_FOLDER", "yarn install --frozen-lockfile && yarn test", "yarn.lock"),
	packageJSON("npm", "npm_config_cache", "npm ci && npm test", "package-lock.json"),
	packageJSON("npm", "npm_config_cache", "npm install --no-package-lock && npm test", "package.json"),
	{
		Program: "uv", kind: "python", files: []string{"uv.lock"},
		Checks: []Check{{Name: "uv-pytest", Argv: []string{"uv", "run", "pytest"}}},
		Caches: []Cache{{"uv", "UV_CACHE_DIR"}},
	},
	{
		Program: "pytest", kind: "python", files: []string{"pytest.ini", "pyproject.toml", "setup.py", "setup.cfg", "requirements.txt"},
		Checks: []Check{{Name: "pytest", Argv: []string{"pytest", "-p", "no:cacheprovider"}}},
		Env:    []string{"PYENV_ROOT"},
	},
	{
		Program: "python3", kind: "python", files: []string{"test*.py", "tests/test*.py"}, uses: has(`^\s*(import|from) unittest`),
		Checks: []Check{{Name: "unittest", Argv: []string{"sh", "-c", "if [ -d tests ]; then python3 -m unittest discover -s tests; " +
			"else python3 -m unittest; fi"}}},
		Env: []string{"PYENV_ROOT"},
	},
	{
		Program: "mvn", files: []string{"pom.xml"},
		Checks: []Check{{
			Name: "maven",
			Argv: []string{"sh", "-c", `mvn --batch-mode --quiet -Dmaven.repo.local="$MAVEN_REPOSITORY" verify`},
		}},
		Caches: []Cache{{"maven", "MAVEN_REPOSITORY"}}, Env: []string{"JAVA_HOME", "MAVEN_HOME"},
	},
	{
		Program: "gradle", files: []string{"build.gradle", "build.gradle.kts"},
		Checks: []Check{{Name: "gradle", Argv: []string{"gradle", "--no-daemon", "check"}}},
		Caches: []Cache{{"gradle", "GRADLE_USER_HOME"}}, Env: []string{"JAVA_HOME", "GRADLE_HOME"},
	},
	{
		Program: "make", kind: fallback, files: []string{"Makefile", "makefile", "GNUmakefile"}, uses: has(`^test\s*:`),
		Checks: []Check{{Name: "make-test", Argv: []string{"make", "test"}}},
	},
	{
		Program: "just", kind: fallback, files: []string{"justfile", "Justfile", ".justfile"}, uses: has(`^test(\s[^:\n]*)?:([^=]|$)`),
		Checks: []Check{{Name: "just-test", Argv: []string{"just", "test"}}},
	},
}

// fallback is the kind of tools that are used where no other is.
const fallback = "fallback"

// packageJSON is a tool for packages of JavaScript: they have a script for their tests.
func packageJSON(program, cache, script string, files ...string) Tool {
	name := program + "-test"
	if files[0] == "package.json" {
		name = program + "-install-test"
	}
	return Tool{
		Program: program, kind: "javascript", files: files, uses: hasTestScript,
		Checks: []Check{{Name: name, Argv: []string{"sh", "-c", script}}},
		Caches: []Cache{{program, cache}},
	}
}

// checksOf are the checks of the tools of a repository that this machine has, and sentences on the others.
func checksOf(dir string, host Host) (checks []Check, unchecked []string) {
	var served []string
	for _, t := range tools {
		file := t.fileIn(dir)
		switch {
		case file == "" || t.kind != "" && slices.Contains(served, t.kind) || t.kind == fallback && len(served) > 0:
		case !host.has(t.Program):
			unchecked = append(unchecked, fmt.Sprintf("%s, because %s is not in PATH", file, t.Program))
		default:
			checks, served = append(checks, t.Checks...), append(served, t.kind)
		}
	}
	return checks, unchecked
}

// fileIn is the file by which a repository is the tool's; empty if it is not.
func (t Tool) fileIn(dir string) string {
	for _, pattern := range t.files {
		found, _ := fs.Glob(os.DirFS(dir), pattern) // the patterns are constant
		for _, name := range found {
			info, err := os.Stat(filepath.Join(dir, name))
			if err == nil && info.Mode().IsRegular() && (t.uses == nil || t.uses(dir, name)) {
				return name
			}
		}
	}
	return ""
}

// maxFile bounds what is read of a file, in bytes.
const maxFile = 1 << 20

// has reports whether a file of a repository has a line of a pattern.
func has(pattern string) func(dir, file string) bool {
	line := regexp.MustCompile("(?m)" + pattern)
	return func(dir, file string) bool {
		data, err := bounded.ReadFile(filepath.Join(dir, file), maxFile)
		return err == nil && line.Match(data)
	}
}

// hasTestScript reports whether a package of JavaScript has a script for its tests, other than the one that npm init writes.
func hasTestScript(dir, _ string) bool {
	var p struct {
		Scripts struct{ Test string }
	}
	data, err := bounded.ReadFile(filepath.Join(dir, "package.json"), maxFile)
	return err == nil && json.Unmarshal(data, &p) == nil && p.Scripts.Test != "" &&
		!strings.Contains(p.Scripts.Test, "no test specified")
}
