package examples_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/app/cli"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/models/agent"
	"github.com/maestro-hive/maestro/internal/models/config"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil/temporaltest"
	"github.com/maestro-hive/maestro/internal/sandbox/room"
	"github.com/maestro-hive/maestro/internal/store/cas/castest"
	"github.com/maestro-hive/maestro/internal/testkit/jsontest"
)

func TestMain(m *testing.M) {
	room.Shim()
	os.Exit(m.Run())
}

// TestExamplesLoad loads every example as its user would.
func TestExamplesLoad(t *testing.T) {
	t.Parallel()
	teams, err := filepath.Glob("*/team.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, teams)
	for _, file := range teams {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			tm, err := config.LoadTeam(file)
			require.NoError(t, err)
			cfg, err := config.LoadWorker(filepath.Join(filepath.Dir(file), "agents.yaml"))
			require.NoError(t, err)
			agents, err := agent.New(cfg, agent.Options{Getenv: os.Getenv, CacheRoot: t.TempDir(), Now: time.Now})
			require.NoError(t, err)
			now := time.Now()
			_, faults := tm.Admissible([]spec.Offer{{
				Worker: "w", Agents: agents.OfferedAgents(), Checks: agents.OfferedChecks(), RenewedAt: now,
			}}, now)
			require.Empty(t, faults)
		})
	}
}

// pages are the project's texts for people.
func pages(t *testing.T) []string {
	t.Helper()
	found := []string{"../README.md", "../CONTRIBUTING.md"}
	for _, pattern := range []string{"../docs/*.md", "../docs/*/*.md"} {
		more, err := filepath.Glob(pattern)
		require.NoError(t, err)
		found = append(found, more...)
	}
	return found
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(data)
}

// TestMakeTargetsExist looks up every `make x` that a page names.
func TestMakeTargetsExist(t *testing.T) {
	t.Parallel()
	makefile := read(t, "../Makefile")
	command := regexp.MustCompile("(?m)(?:^|`)make ([a-z][a-z -]*)")
	for _, page := range pages(t) {
		for _, m := range command.FindAllStringSubmatch(read(t, page), -1) {
			for _, target := range strings.Fields(m[1]) {
				require.Contains(t, makefile, "\n"+target+":", "%s names make %s", page, target)
			}
		}
	}
}

// stand is a server, a store and a worker that offers what the audit needs.
type stand struct {
	t       *testing.T
	environ []string
}

// newStand shares what is compiled and downloaded with whoever runs the tests. So its agents
// run as the same user, without rooms.
func newStand(t *testing.T) *stand {
	t.Helper()
	dir := t.TempDir()
	state := filepath.Join(dir, "state")
	s := &stand{t: t, environ: append(os.Environ(), "HOME="+dir, "MAESTRO_STATE_DIR="+state,
		"TEMPORAL_CONFIG_FILE="+filepath.Join(dir, "none.toml"), "TEMPORAL_ADDRESS="+temporaltest.Start(t))}
	example := filepath.Join(dir, "audit")
	require.NoError(t, os.CopyFS(example, os.DirFS("audit")))
	agents := filepath.Join(example, "agents.yaml")
	text, err := os.ReadFile(agents)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(agents, append(text, "\nisolation: none\n"...), 0o600))
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.execute(ctx, io.Discard, io.Discard, "worker", "--agents", agents, "--drain", "1s")
	}()
	t.Cleanup(func() {
		stop()
		<-done
	})
	require.Eventually(t, func() bool {
		return s.execute(ctx, io.Discard, io.Discard, "agents", "--team", "audit/team.yaml") == 0
	}, time.Minute, 50*time.Millisecond, "the worker does not come up")
	caches := filepath.Join(state, "caches")
	require.NoError(t, os.MkdirAll(caches, 0o700))
	for cache, variable := range map[string]string{"go-build": "GOCACHE", "go-mod": "GOMODCACHE"} {
		place, err := exec.Command("go", "env", variable).Output()
		require.NoError(t, err)
		require.NoError(t, os.Symlink(strings.TrimSpace(string(place)), filepath.Join(caches, cache)))
	}
	return s
}

func (s *stand) execute(ctx context.Context, stdout, stderr io.Writer, args ...string) int {
	return cli.Execute(ctx, cli.Env{
		Args: args, Stdin: strings.NewReader(""), Stdout: stdout, Stderr: stderr, IsTerminal: func(any) bool { return false },
		Environ: s.environ, Dir: ".", Host: "stand", PID: os.Getpid(), Now: time.Now,
	})
}

// must executes a command that has to end with a code.
func (s *stand) must(t *testing.T, code int, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	require.Equal(t, code, s.execute(t.Context(), &stdout, &stderr, args...), "maestro %s\n%s%s", strings.Join(args, " "), &stdout,
		&stderr)
	return stdout.String()
}

func (s *stand) json(t *testing.T, document any, args ...string) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(s.must(t, 0, append(args, "-o", "json")...)), document))
}

// audit takes a module through the audit and returns its report. No phase may touch
// anything but audit/.
func (s *stand) audit(t *testing.T, module, session string, code int) (report, page string) {
	t.Helper()
	s.must(t, code, "run", "audit/team.yaml", "Audit this module", "--workspace", module, "--session", session, "--watch")
	var list struct{ Artifacts []struct{ Path string } }
	s.json(t, &list, "artifacts", "list", session)
	require.NotEmpty(t, list.Artifacts)
	for _, artifact := range list.Artifacts {
		require.True(t, strings.HasPrefix(artifact.Path, "audit/"), "the audit has written %s", artifact.Path)
	}
	out := filepath.Join(t.TempDir(), "out")
	s.must(t, 0, "artifacts", "get", session, "--out", out)
	return read(t, filepath.Join(out, "audit", "report.json")), read(t, filepath.Join(out, "audit", "report.md"))
}

// phases returns how a session's phases have ended.
func (s *stand) phases(t *testing.T, session string) map[string]string {
	t.Helper()
	var status struct {
		Phases []struct{ Name, Status string }
	}
	s.json(t, &status, "status", session)
	ended := map[string]string{}
	for _, p := range status.Phases {
		ended[p.Name] = p.Status
	}
	return ended
}

// tree writes a module and returns its directory.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	castest.WriteTree(t, dir, files)
	return dir
}

// TestAuditOfWhatIsWanting audits modules that have something wrong: in one that does
// not build a phase fails, and the report says what is wrong and where all the same.
func TestAuditOfWhatIsWanting(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	t.Run("does not build", func(t *testing.T) {
		t.Parallel()
		report, page := s.audit(t, tree(t, map[string]string{
			"go.mod":              "module example.com/broken\n\ngo 1.24\n",
			"store/store.go":      "package store\n\nfunc Get() int {\n\treturn missing\n}\n",
			"lost/lost.go":        "package lost\n\nimport _ \"example.com/elsewhere/thing\"\n",
			"torn/torn.go":        "package torn\n\nfunc (\n",
			"whole/whole.go":      "package whole\n\nfunc One() int { return 1 }\n",
			"whole/whole_test.go": "package whole\n\nimport \"testing\"\n\nfunc TestOne(t *testing.T) { One() }\n",
		}), "broken", 1)
		require.Equal(t, map[string]string{
			"inventory": "completed", "build": "completed", "examination": "completed", "api": "completed", "report": "completed",
			"gate": "failed",
		}, s.phases(t, "broken"))
		require.True(t, jsontest.Has(t, report, `{"build": {"builds": false}, "tests": {"passed": 1}}`), report)
		require.Contains(t, page, "store/store.go:4:9: undefined: missing")
		require.Contains(t, page, "torn/torn.go:4:1: syntax error: unexpected EOF, expected )")
		require.Contains(t, page, "lost/lost.go:3:8: no required module provides package example.com/elsewhere/thing")
		status := s.must(t, 0, "status", "broken")
		require.Contains(t, status, "syntax: agent gatekeeper: the module does not build: lost/lost.go:3:8: no required module")
		require.Regexp(t, `\(and \d more, see audit/report.md\)`, status)
	})
	t.Run("is no module", func(t *testing.T) {
		t.Parallel()
		dir := tree(t, map[string]string{"below/go.mod": "module example.com/below\n", "main.go": "package main\n"})
		s.must(t, 1, "run", "audit/team.yaml", "Audit this", "--workspace", dir, "--session", "none", "--watch")
		require.Contains(t, s.must(t, 0, "status", "none"), "the workspace has no go.mod: give the directory of a Go module with "+
			"--workspace; below it are below")
	})
	t.Run("has this and that", func(t *testing.T) {
		t.Parallel()
		s.auditMixture(t)
	})
}

// auditMixture audits a module that builds, with all that is not to be counted.
func (s *stand) auditMixture(t *testing.T) {
	t.Helper()
	report, page := s.audit(t, tree(t, map[string]string{
		"go.mod":           "module example.com/mix\n\ngo 1.24\n",
		"plain.go":         "// Package mix has no tests.\npackage mix\n\nvar A, b = 1, 2\n\nconst C = b0\n\nconst b0 = 3\n",
		"plain_windows.go": "package mix\n\nfunc OnWindows() {}\n",
		"cmd/tool/main.go": "package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Printf(\"%d\\n\", \"x\") }\n",
		"internal/deep/deep.go": "package deep\n\ntype Box[T any] struct{}\n\nfunc (b *Box[T]) Open() {}\n\ntype shut " +
			"struct{}\n\nfunc (shut) Open() {}\n",
		"half/half.go": "package half\n\nfunc Half(n int) int {\n\tif n < 0 {\n\t\treturn -1\n\t}\n\treturn n / 2\n}\n",
		"half/half_test.go": `package half

import (
	"os"
	"testing"
)

func TestHalf(t *testing.T) {
	if err := os.WriteFile("left-behind.txt", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Run("right", func(t *testing.T) { Half(2) })
	t.Run("wrong", func(t *testing.T) { t.Errorf("half of 4 is %d", Half(4)+1) })
}

func TestLater(t *testing.T) { t.Skip("later") }
`,
		"half/testdata/more.go": "package nothing that parses\n",
		"bench/only_test.go":    "package bench\n\nimport \"testing\"\n\nfunc BenchmarkNothing(b *testing.B) {}\n",
		"nested/go.mod":         "module example.com/mix/nested\n",
		"nested/nested.go":      "package nested\n",
		"vendored/README":       "no Go here\n",
		".gitignore":            "audit/\n*.out\n*.json\n",
	}), "mix", 0)
	for phase, status := range s.phases(t, "mix") {
		require.Equal(t, "completed", status, phase)
	}
	require.Contains(t, page, "half of 4 is 3")
	const module = `"path": "example.com/mix`
	require.True(t, jsontest.Has(t, report, `{"build": {"builds": true}, "inventory": {"packages": 5, "nested_modules": ["nested"],
		"excluded_go_files": ["plain_windows.go"],
		"totals": {"code_files": 4, "test_files": 2, "code_lines": 30, "test_lines": 21}},
		"vet": {"findings": [{"package": "example.com/mix/cmd/tool", "file": "cmd/tool/main.go", "line": 5, "column": 27,
			"analyzer": "printf", "message": "fmt.Printf format %d has arg \"x\" of wrong type string"}]},
		"tests": {"run": 4, "passed": 1, "failed": 2, "skipped": 1},
		"api": {"all": {"funcs": 1, "types": 1, "methods": 1, "consts": 1, "vars": 1}, "public": {"funcs": 1, "types": 0, "consts": 1}},
		"packages": [{`+module+`", "kind": "library", "tests": "no tests"},
			{`+module+`/bench", "kind": "library", "tests": "no tests"}, {`+module+`/cmd/tool", "kind": "command", "tests": "no tests"},
			{`+module+`/half", "kind": "library", "tests": "failed"},
			{`+module+`/internal/deep", "kind": "internal", "tests": "no tests"}]}`), report)
}
