//go:build system

package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

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
	said := run(t, "go", "run", "github.com/zegl/kube-score/cmd/kube-score@v1.20.0", "score", "--output-format", "ci",
		"--exit-one-on-warning",
		"--ignore-test", "container-image-pull-policy,deployment-has-host-podantiaffinity", "--enable-optional-test",
		"container-seccomp-profile",
		"kubernetes/agents.yaml", "kubernetes/network.yaml", "kubernetes/worker.yaml",
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
	for _, program := range []string{"usr/local/bin/maestro-worker", "bin/sh"} {
		install(program, "#!/bin/sh\n", 0o755)
	}
	for _, name := range []string{
		"sysinit.target", "basic.target", "shutdown.target", "network-online.target",
		"multi-user.target",
	} {
		install("etc/systemd/system/"+name, "[Unit]\nDescription="+name+"\n", 0o644)
	}
	install("etc/systemd/system/maestro-worker.service", unit, 0o644)
	install("etc/systemd/system/maestro-worker.service.d/run-as.conf", dropIn, 0o644)
	return run(t, "systemd-analyze", "verify", "--man=no", "--root="+root, "maestro-worker.service")
}
