//go:build system

package deploy_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

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

// installing is what a new user, and then an administrator, do on a machine that has only what Debian needs to start. Each
// line of the report that begins with = is looked for.
const installing = `#!/bin/bash
exec >/root/report 2>&1
export HOME=/root
report() { echo "= $1: $(eval "$2" 2>&1 | tail -n "${3:-1}")"; }

cd /root && began=$(date +%s) && tar -xzf maestro.tar.gz && export PATH="$PATH:$(echo /root/maestro-*/bin):/root/agents" ANTHROPIC_API_KEY=key
report go 'command -v go || echo none'
mkdir repository && cd repository && printf 'test:\n\tgrep HELLO shout.txt\n' >Makefile && git init -q && git add -A
git -c user.name=a -c user.email=a@example.org commit -q -m begin
maestro run "Shout hello" --session s
report run 'maestro artifacts list s | grep -o shout.txt'
report seconds 'echo $(($(date +%s) - began))'

cd / && report installed 'dpkg -i /root/maestro.deb >/root/dpkg 2>&1 && echo yes || cat /root/dpkg' 9
report user 'id -un maestro'
report unit 'systemd-analyze verify maestro-worker.service && echo sound'
report secrets 'stat -c %a /etc/maestro/worker.env'
report manual 'zcat /usr/share/man/man1/maestro-run.1.gz | grep -c "^.SH NAME"'
report completion 'bash -n /usr/share/bash-completion/completions/maestro && echo sound'
printf 'version: 1\nagents:\n  coder:\n    kind: command\n    argv: [cat]\n' >/etc/maestro/agents.yaml
systemctl start maestro-worker
for _ in $(seq 100); do maestro-worker health --health-port 8081 >/root/health 2>&1; grep -q Temporal /root/health && break; sleep 0.1; done
report waits 'systemctl is-active maestro-worker'
report health 'cat /root/health' 9
report reload 'systemctl reload maestro-worker && echo done'
report removed 'dpkg -r maestro && ls /usr/bin/maestro* || echo gone'
systemctl poweroff
`

// claude stands for Claude Code: it plans, makes and reviews a change.
const claude = `#!/bin/sh
case "$(cat)" in
*"Plan the change"*) echo '{"summary":"Planned.","decisions":{"plan":"1. shout.txt"}}' > "$MAESTRO_RESULT" ;;
*"Make the change"*) echo HELLO > shout.txt; echo '{"summary":"It shouts."}' > "$MAESTRO_RESULT" ;;
*) echo '{"summary":"It is right."}' > "$MAESTRO_RESULT" ;;
esac
echo '{"type":"system","subtype":"init","session_id":"11111111-1111-1111-1111-111111111111","model":"m"}'
echo '{"type":"result","subtype":"success","is_error":false,"result":"done","session_id":"11111111-1111-1111-1111-111111111111"}'
`

// TestAReleaseIsInstalledOnAMachineWithoutGo builds a release twice, in two places, and installs it on a machine of its own,
// which systemd starts.
func TestAReleaseIsInstalledOnAMachineWithoutGo(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	platforms := []string{"linux/" + runtime.GOARCH, "darwin/arm64"}
	if runtime.GOARCH != "arm64" {
		platforms = append(platforms, "linux/arm64")
	}
	build := func(place string) (dist string) {
		clone := filepath.Join(work, place)
		run(t, "git", "clone", "-q", "..", clone)
		run(t, "make", "-C", clone, "release", "PLATFORMS="+strings.Join(platforms, ","), "VERSION=1.2.3")
		return filepath.Join(clone, "dist")
	}
	dist, again := build("here"), build("there")
	require.Equal(t, read(t, filepath.Join(dist, "SHA256SUMS")), read(t, filepath.Join(again, "SHA256SUMS")), "two builds are equal")
	require.Contains(t, read(t, filepath.Join(dist, "NOTES.md")), "# Maestro 1.2.3")
	require.Contains(t, read(t, filepath.Join(dist, "maestro_1.2.3_linux_"+runtime.GOARCH+".cdx.json")),
		`"purl": "pkg:golang/go.temporal.io/sdk@`)
	runsOnArm64(t, dist)
	isInstalledByRPM(t, dist)
	isForMacOS(t, dist)

	machine := filepath.Join(work, "machine")
	mirror, _, _ := strings.Cut(run(t, "apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages"), "\n")
	run(t, "debootstrap", "--variant=minbase", "--include=systemd,systemd-sysv,dbus,ca-certificates,git,make", "bookworm", machine,
		mirror)
	for _, c := range []struct{ from, to string }{{".tar.gz", "root/maestro.tar.gz"}, {".deb", "root/maestro.deb"}} {
		run(t, "cp", filepath.Join(dist, "maestro_1.2.3_linux_"+runtime.GOARCH+c.from), filepath.Join(machine, c.to))
	}
	put := func(path, content string, mode os.FileMode) {
		at := filepath.Join(machine, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755))
		require.NoError(t, os.WriteFile(at, []byte(content), mode))
	}
	put("root/install", installing, 0o755)
	put("root/agents/claude", claude, 0o755)
	put("etc/systemd/system/install.service", "[Unit]\nAfter=multi-user.target\n[Service]\nType=oneshot\nExecStart=/root/install\n",
		0o644)
	wanted := filepath.Join(machine, "etc/systemd/system/multi-user.target.wants/install.service")
	require.NoError(t, os.Symlink("../install.service", wanted))

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--private-network", "-D",
		machine, "--boot").CombinedOutput()
	require.NoError(t, err, "%s", out)
	report := read(t, filepath.Join(machine, "root/report"))
	for _, line := range []string{
		"= go: none", "= run: shout.txt", "= installed: yes", "= user: maestro", "= unit: sound", "= secrets: 600", "= manual: 1",
		"= completion: sound", "= waits: active", "= reload: done", "= removed: gone",
	} {
		require.Contains(t, report, line)
	}
	t.Log(report)
}

// runsOnArm64 starts programs of the archive for arm64, emulated where the processor is another. The emulator has no
// subreapers, without which maestro-worker does not start.
func runsOnArm64(t *testing.T, dist string) {
	t.Helper()
	dir := t.TempDir()
	run(t, "tar", "-xzf", filepath.Join(dist, "maestro_1.2.3_linux_arm64.tar.gz"), "-C", dir)
	start := func(program string, arguments ...string) string {
		return run(t, append([]string{"qemu-aarch64-static", filepath.Join(dir, "maestro-1.2.3-linux-arm64/bin", program)},
			arguments...)...)
	}
	require.Contains(t, start("maestro", "version"), "linux/arm64")
	require.Contains(t, start("maestro-shim", "--build"), "go1.")
	require.Contains(t, start("maestro-namespace", "--help"), "Register a Temporal namespace")
	require.Contains(t, start("maestro-server", "--help"), "-db-filename")
}

// isInstalledByRPM installs the .rpm into an empty root, and has rpm compare the files and their modes with what it says.
func isInstalledByRPM(t *testing.T, dist string) {
	t.Helper()
	root := t.TempDir()
	rpm := func(arguments ...string) string {
		return run(t, append([]string{"rpm", "--root", root}, arguments...)...)
	}
	rpm("--install", "--noscripts", "--force-debian", "--nodeps", filepath.Join(dist, "maestro_1.2.3_linux_"+runtime.GOARCH+".rpm"))
	require.Empty(t, rpm("--verify", "--nodeps", "maestro"))
	require.Contains(t, read(t, filepath.Join(root, "usr/lib/systemd/system/maestro-worker.service")), "=/usr/bin/maestro-worker")
	for path, mode := range map[string]os.FileMode{"usr/bin/maestro": 0o755, "etc/maestro/worker.env": 0o600} {
		info, err := os.Stat(filepath.Join(root, path))
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode(), path)
	}
	require.Contains(t, rpm("--query", "--scripts", "maestro"), "systemd-sysusers maestro.conf")
	rpm("--erase", "--noscripts", "--force-debian", "maestro")
	require.NoFileExists(t, filepath.Join(root, "usr/bin/maestro"))
}

// isForMacOS looks into the archive for macOS, whose programs cannot be started here.
func isForMacOS(t *testing.T, dist string) {
	t.Helper()
	files := run(t, "tar", "-tzf", filepath.Join(dist, "maestro_1.2.3_darwin_arm64.tar.gz"))
	for _, program := range []string{"maestro", "maestro-worker", "maestro-shim", "maestro-namespace", "maestro-server"} {
		require.Contains(t, files, "maestro-1.2.3-darwin-arm64/bin/"+program+"\n")
	}
	require.NotContains(t, files, "systemd")
	packages, err := filepath.Glob(filepath.Join(dist, "*darwin*"))
	require.NoError(t, err)
	require.Len(t, packages, 2, "an archive and a bill of materials")
}
