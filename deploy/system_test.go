//go:build system

package deploy_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil/temporaltest"
	"github.com/maestro-hive/maestro/internal/testkit/proctest"
)

// limit bounds every wait in these tests.
const limit = 2 * time.Minute

// run runs a command that has to succeed, and returns what it printed.
func run(t *testing.T, argv ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), argv[0], argv[1:]...).CombinedOutput()
	require.NoError(t, err, "%s\n%s", strings.Join(argv, " "), out)
	return string(out)
}

func TestScriptsAreSound(t *testing.T) {
	t.Parallel()
	scripts := []string{"cluster/run.sh", "temporal/schema.sh", "validation/images.sh", "../.ci/run"}
	for _, agents := range []string{"../examples/*/*.sh", "../examples/*/agents/*.sh"} {
		found, err := filepath.Glob(agents)
		require.NoError(t, err)
		require.NotEmpty(t, found)
		scripts = append(scripts, found...)
	}
	run(t, append([]string{"shellcheck", "--external-sources", "--source-path=SCRIPTDIR"}, scripts...)...)
}

// TestKubeScoreFindsNoFault leaves two of its checks out: the image is named by a
// release, which does not change; and pods are spread by topology instead of
// anti-affinity.
func TestKubeScoreFindsNoFault(t *testing.T) {
	t.Parallel()
	said := run(t, "go", "run", "github.com/zegl/kube-score/cmd/kube-score@v1.20.0", "score", "--output-format", "ci", "--exit-one-on-warning",
		"--ignore-test", "container-image-pull-policy,deployment-has-host-podantiaffinity", "--enable-optional-test", "container-seccomp-profile",
		"kubernetes/agents.yaml", "kubernetes/store.yaml", "kubernetes/network.yaml", "kubernetes/worker.yaml",
		"kubernetes/dashboard.yaml", "kubernetes/namespace.yaml")
	require.Contains(t, said, "[OK] maestro-worker apps/v1/Deployment")
	require.Contains(t, said, "[OK] maestro-dashboard apps/v1/Deployment")
	require.Contains(t, said, "[OK] maestro-namespace batch/v1/Job")
}

// TestTheUnitIsSoundAndTight has systemd read the unit as it would be installed,
// and say how exposed the service is, from 0 to 100.
func TestTheUnitIsSoundAndTight(t *testing.T) {
	t.Parallel()
	unit, dropIn := read(t, "systemd/maestro-worker.service"), read(t, "systemd/run-as.conf")
	require.Empty(t, verify(t, unit, ""))
	require.Contains(t, verify(t, strings.ReplaceAll(unit, "KillMode=mixed", "KilMode=mixed"), ""), "KilMode")
	require.Empty(t, verify(t, unit, dropIn))
	require.Contains(t, verify(t, unit, strings.ReplaceAll(dropIn, "User=", "Usr=")), "Usr")
	run(t, "systemd-analyze", "security", "--offline=true", "--threshold=20", "systemd/maestro-worker.service")
}

// verify is what systemd has to say of a unit with what is dropped in.
func verify(t *testing.T, unit, dropIn string) string {
	t.Helper()
	root := t.TempDir()
	install := func(path, content string, mode os.FileMode) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, path)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, path), []byte(content), mode))
	}
	for _, program := range []string{"usr/local/bin/maestro-worker", "bin/kill"} {
		install(program, "#!/bin/sh\n", 0o755)
	}
	for _, name := range []string{"sysinit.target", "basic.target", "shutdown.target", "network-online.target", "multi-user.target"} {
		install("etc/systemd/system/"+name, "[Unit]\nDescription="+name+"\n", 0o644)
	}
	install("etc/systemd/system/maestro-worker.service", unit, 0o644)
	install("etc/systemd/system/maestro-worker.service.d/run-as.conf", dropIn, 0o644)
	return run(t, "systemd-analyze", "verify", "--man=no", "--root="+root, "maestro-worker.service")
}

// install is a host on which the unit is installed, below a directory, and that
// runs it as systemd would: by its own user, without any privilege.
type install struct {
	t    *testing.T
	dir  string
	unit settings
}

func newInstall(t *testing.T) *install {
	t.Helper()
	dir, err := os.MkdirTemp("", "maestro-unit-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	i := &install{t: t, dir: dir, unit: unit(t)}
	for _, name := range []string{"/usr/local/bin", "/etc/maestro", "/var/lib/maestro", "/marks"} {
		require.NoError(t, os.MkdirAll(dir+name, 0o755))
	}
	for _, name := range []string{"maestro", "maestro-worker"} {
		data, err := os.ReadFile(temporaltest.Binary(t, name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(dir+"/usr/local/bin/"+name, data, 0o755))
	}
	require.NoError(t, os.Chmod(dir, 0o755))
	require.NoError(t, os.Chmod(dir+"/var/lib/maestro", 0o700)) // StateDirectoryMode
	if os.Getuid() == 0 {
		for _, name := range []string{"/var/lib/maestro", "/marks"} {
			require.NoError(t, os.Chown(dir+name, nobody, nobody))
		}
	}
	return i
}

// nobody stands for the unit's user, which need not be there.
const nobody = 65534

func (i *install) write(path, content string) {
	i.t.Helper()
	require.NoError(i.t, os.WriteFile(i.dir+path, []byte(content), 0o644))
}

// here puts the unit's paths below the directory.
func (i *install) here(text string) string {
	for _, path := range []string{"/usr/local/bin/", "/etc/maestro/", "/var/lib/maestro"} {
		text = strings.ReplaceAll(text, path, i.dir+path)
	}
	return text
}

// command is a command line with the unit's environment, user and privileges.
func (i *install) command(argv ...string) *exec.Cmd {
	i.t.Helper()
	confined := []string{"setpriv", "--no-new-privs", "--inh-caps=-all"}
	if os.Getuid() == 0 {
		confined = append(confined, "--bounding-set=-all", "--reuid", strconv.Itoa(nobody), "--regid", strconv.Itoa(nobody), "--clear-groups")
	}
	argv = append(append(confined, "--"), argv...)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	for _, e := range i.unit["Environment"] {
		cmd.Env = append(cmd.Env, i.here(e))
	}
	// The file's variables come after the unit's, and win.
	path, optional := strings.CutPrefix(i.unit["EnvironmentFile"][0], "-")
	require.True(i.t, optional)
	for line := range strings.Lines(read(i.t, i.here(path))) {
		cmd.Env = append(cmd.Env, strings.TrimSpace(line))
	}
	cmd.Dir = i.here(i.unit["WorkingDirectory"][0])
	if os.Getuid() == 0 { // the directory is the user's alone
		cmd.Dir = "/"
	}
	return cmd
}

// process is the process of the unit.
type process struct {
	cmd   *exec.Cmd
	log   *proctest.Output
	ended chan struct{}
}

// start runs ExecStart until the test ends or stops it.
func (i *install) start() *process {
	i.t.Helper()
	p := &process{cmd: i.command(strings.Fields(i.here(i.unit["ExecStart"][0]))...), log: &proctest.Output{}, ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = io.Discard, p.log
	require.NoError(i.t, p.cmd.Start())
	go func() { _ = p.cmd.Wait(); close(p.ended) }()
	i.t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
		if i.t.Failed() {
			i.t.Logf("maestro-worker:\n%s", p.log)
		}
	})
	i.eventually("the worker is ready", func() bool {
		return i.command(i.here("/usr/local/bin/maestro-worker"), "health").Run() == nil
	})
	return p
}

func (i *install) eventually(what string, condition func() bool) {
	i.t.Helper()
	require.Eventually(i.t, condition, limit, 50*time.Millisecond, what)
}

// exists tells whether an agent has left a mark.
func (i *install) exists(mark string) bool {
	_, err := os.Stat(i.dir + "/marks/" + mark)
	return err == nil
}

// maestro runs the command line as the unit's user.
func (i *install) maestro(args ...string) string {
	i.t.Helper()
	cmd := i.command(append([]string{i.here("/usr/local/bin/maestro")}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(i.t, err, "maestro %s\n%s", strings.Join(args, " "), stderr.String())
	return string(out)
}

// TestTheUnitReloadsAndDrains runs the unit's command lines by hand. A stop while
// an agent works lets it finish, and its work is neither lost nor done again.
func TestTheUnitReloadsAndDrains(t *testing.T) {
	t.Parallel()
	i := newInstall(t)
	i.write("/etc/maestro/worker.env", fmt.Sprintf("TEMPORAL_ADDRESS=%s\nMAESTRO_HEALTH_PORT=%s\nMAESTRO_METRICS_ADDRESS=127.0.0.1:0\n",
		temporaltest.Start(t), proctest.FreePort(t)))
	agents := fmt.Sprintf(`version: 1
mounts: [{path: %[1]s, writable: true}]
agents:
  slow: {kind: command, argv: [sh, -c, 'echo x >>%[1]s/ran; until [ -e %[1]s/go ]; do sleep 0.05; done; echo done >done.txt']}
`, i.dir+"/marks")
	i.write("/etc/maestro/agents.yaml", agents)
	i.write("/etc/maestro/team.yaml", `version: 1
name: web
personas: {dev: {role: Developer, agent: slow, instructions: do it}}
phases: [{name: build, personas: [dev], produces: [done.txt]}]
`)
	first := i.start()
	i.write("/etc/maestro/agents.yaml", agents+"  another: {kind: command, argv: [sh, -c, 'true']}\n")
	reload := strings.ReplaceAll(i.unit["ExecReload"][0], "$MAINPID", strconv.Itoa(first.cmd.Process.Pid))
	require.NoError(t, i.command(strings.Fields(reload)...).Run())
	i.eventually("the reloaded worker offers the new agent", func() bool {
		return strings.Contains(i.maestro("agents"), "another")
	})

	i.maestro("run", i.here("/etc/maestro/team.yaml"), "Build.", "--session", "s")
	i.eventually("the agent works", func() bool { return i.exists("ran") })
	require.NoError(t, first.cmd.Process.Signal(syscall.SIGTERM))
	i.eventually("the worker drains", func() bool { return strings.Contains(first.log.String(), "drain") })
	require.NoError(t, os.WriteFile(i.dir+"/marks/go", nil, 0o644))
	select {
	case <-first.ended:
	case <-time.After(limit):
		require.Fail(t, "the worker does not end", first.log.String())
	}
	require.Zero(t, first.cmd.ProcessState.ExitCode(), first.log.String())

	i.start()
	var status session.Status
	i.eventually("the session ends", func() bool {
		require.NoError(t, json.Unmarshal([]byte(i.maestro("status", "s", "-o", "json")), &status))
		return status.Status.Closed()
	})
	require.Equal(t, session.Completed, status.Status)
	require.Equal(t, "x\n", read(t, i.dir+"/marks/ran"), "the agent ran once")
}
