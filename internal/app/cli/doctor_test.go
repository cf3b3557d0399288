package cli_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/maestro-hive/maestro/internal/core/secrets"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil/temporaltest"
	"github.com/maestro-hive/maestro/internal/sandbox/procgroup"
	"github.com/maestro-hive/maestro/internal/sandbox/room"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/testkit/proctest"
)

type finding struct{ Check, Result, Message, Remedy, Command string }

// findings runs `doctor -o json`, and holds it to what every finding has: a remedy, if
// it is not ok, and an exit code that goes by the worst.
func (d *desk) findings(args ...string) findings {
	d.t.Helper()
	c := d.run(append([]string{"doctor", "-o", "json"}, args...)...)
	var doc struct {
		OK       bool
		Findings findings
	}
	require.NoError(d.t, json.Unmarshal([]byte(c.stdout.String()), &doc), c.stderr.String())
	worst := slices.ContainsFunc(doc.Findings, func(f finding) bool { return f.Result == "bad" })
	require.Equal(d.t, !worst, doc.OK)
	require.Equal(d.t, worst, c.code == 1, "exit code %d", c.code)
	for _, f := range doc.Findings {
		require.Equal(d.t, f.Result != "ok", f.Remedy != "", "%+v", f)
		require.NotEmpty(d.t, f.Message, f.Check)
	}
	return doc.Findings
}

type findings []finding

// of is the first finding of a check with a result.
func (fs findings) of(t *testing.T, check, result string) finding {
	t.Helper()
	for _, f := range fs {
		if f.Check == check && f.Result == result {
			return f
		}
	}
	require.Fail(t, "no such finding", "%s %s among %+v", result, check, fs)
	return finding{}
}

// follow does what a finding's command says, as a person would.
func (d *desk) follow(f finding) {
	d.t.Helper()
	require.NotEmpty(d.t, f.Command, "%+v", f)
	if args, ours := strings.CutPrefix(f.Command, "maestro "); ours {
		d.must(0, strings.Fields(args)...)
		return
	}
	out, err := exec.Command("sh", "-c", f.Command).CombinedOutput()
	require.NoError(d.t, err, "%s: %s", f.Command, out)
}

func TestDoctorSaysWhatKeepsItFromTemporal(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	address := other.Listener.Addr().String()

	listens := d.findings("--address", address).of(t, "temporal", "bad")
	require.Contains(t, listens.Message, "a server listens at "+address)
	require.Contains(t, listens.Remedy, "--tls")
	require.Empty(t, listens.Command, "another server would not help")

	options := d.findings("--tls-cert-path", d.file("only-half.pem", "")).of(t, "temporal", "bad")
	require.Contains(t, options.Message, "key path")
	require.Contains(t, options.Remedy, "fix the flag")
	require.Empty(t, options.Command)
}

func TestDoctorsRemediesForTheStore(t *testing.T) {
	t.Parallel()
	b := newBank(t)
	files := func() map[string]string {
		found := tree(t, b.state)
		delete(found, "state.db-shm") // the memory that processes with the database share
		return found
	}
	untouched := files()
	fs := b.findings()
	require.Equal(t, untouched, files(), "it leaves nothing behind")
	for _, check := range []string{"store", "store writable", "store private", "store space", "git"} {
		fs.of(t, check, "ok")
	}
	b.follow(findings{fs.of(t, "workers", "bad")}.asDryRun(t))

	identity := filepath.Join(b.state, "store.json")
	sound, err := os.ReadFile(identity)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(identity, []byte(strings.Replace(string(sound), `"version": 1`, `"version": 2`, 1)), 0o600))
	newer := b.findings().of(t, "store", "bad")
	require.Contains(t, newer.Message, "has format 2, but this program supports 1")
	require.Contains(t, newer.Remedy, "use the version of Maestro that created it")
	require.NoError(t, os.WriteFile(identity, []byte("{}"), 0o600))
	require.Contains(t, b.findings().of(t, "store", "bad").Remedy, "restore it from a backup")
}

// asDryRun is a finding whose command starts a worker, as one that shows its help.
func (fs findings) asDryRun(t *testing.T) finding {
	t.Helper()
	require.True(t, strings.HasPrefix(fs[0].Command, "maestro worker "), fs[0].Command)
	fs[0].Command += " --help"
	return fs[0]
}

func TestDoctorLooksAtTheWorkerFile(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	script := d.file("work.sh", "#!/bin/sh\n")
	file := d.file("agents.yaml", `
version: 1
agents:
  coder: {kind: command, argv: [./work.sh]}
  ghost: {kind: command, argv: [no-such-program]}
  lost: {kind: command, argv: [sh, /no/such/script.sh]}
  tool: {kind: command, preset: codex, argv: [./codex]}
  absent: {kind: command, preset: gemini}
  words: {kind: command, argv: [sh, -c, /no/such/script.sh]}
  tree: {kind: command, argv: [sh, in-the-tree.sh]}
  model: {kind: model, provider: main, model: m}
  fine: {kind: command, argv: ["true"]}
  web: {kind: command, argv: ["true"], gateway: [main], network: none, web_tools: true}
  list: {kind: command, argv: ["true"], network: [api.example.com]}
checks:
  build: {argv: [no-such-check]}
  lint: {argv: ["true"], env: [NO_OTHER]}
  script: {argv: [sh, /no/such/script.sh]}
  tree: {argv: [./own]}
webhook: {url_env: NO_HOOK}
providers: {main: {format: anthropic, key_env: NO_KEY}, other: {format: openai, key_file: no-such-key}}
`)
	d.set("PATH", "/usr/bin:/bin") // without programs of npm
	codex := d.file("codex", "#!/bin/sh\necho codex-cli 1.2.3\n")
	require.NoError(t, os.Chmod(codex, 0o700))
	fs := d.findings("--agents", file)
	require.Contains(t, fs.of(t, "agent ghost in file", "bad").Message, "no-such-program is not in PATH")
	require.Contains(t, fs.of(t, "agent lost in file", "bad").Message, "/no/such/script.sh does not exist")
	require.Contains(t, fs.of(t, "provider main in file", "warning").Message, "NO_KEY")
	require.Contains(t, fs.of(t, "check build in file", "bad").Message, "no-such-check is not in PATH")
	require.Contains(t, fs.of(t, "webhook", "warning").Message, "NO_HOOK")
	require.Equal(t, "npm install --global @google/gemini-cli", fs.of(t, "agent absent in file", "bad").Command)
	require.Contains(t, fs.of(t, "provider other in file", "warning").Message,
		"its key cannot be read: open "+d.dir+"/no-such-key: ")
	require.Contains(t, fs.of(t, "check lint in file", "warning").Message, "variable NO_OTHER is not set")
	require.Contains(t, fs.of(t, "check script in file", "bad").Message, "/no/such/script.sh does not exist")
	require.False(t, slices.ContainsFunc(fs, func(f finding) bool { return f.Check == "check tree in file" }),
		"it belongs to the trees")
	require.Contains(t, fs.of(t, "programs", "ok").Message, "of agents fine, list, model, tool, tree, web, words are")
	require.Contains(t, fs.of(t, "tool in file", "ok").Message, "codex, version codex-cli 1.2.3")
	f := fs.of(t, "agent coder in file", "bad")
	require.Equal(t, "chmod +x "+script, f.Command)
	d.follow(f)
	require.Contains(t, d.findings("--agents", file).of(t, "programs", "ok").Message, "coder, fine")

	broken := d.findings("--agents", d.file("broken.yaml", "version: 1\nagents:\n  a: {kind: comand, argv: [x]}\n  b: {kind: "+
		"command}\n"))
	require.Contains(t, broken.of(t, "worker file", "bad").Message, "broken.yaml:3: ")
}

func TestDoctorOnAServer(t *testing.T) {
	t.Parallel()
	d := newDesk(t).withServer()
	d.withWorker(map[string]string{"coder": "true"})
	fs := d.findings(d.file("team.yaml", oneTeam))
	require.Regexp(t, `version 1\.\d+\.\d+, answers in \d+ms`, fs.of(t, "temporal", "ok").Message)
	fs.of(t, "namespace", "ok")
	for _, check := range []string{"search attributes", "store writes", "store pruning", "breakers"} {
		fs.of(t, check, "ok")
	}
	require.Regexp(t, `polled by maestro-.+@desk-`, fs.of(t, "sessions", "ok").Message)
	require.Regexp(t, `polled by maestro-.+@desk-`, fs.of(t, "agent coder", "ok").Message)
	fs.of(t, "team solo", "ok")

	lacking := d.findings(d.file("two.yaml", planTeam)).of(t, "team web", "bad")
	require.NotEmpty(t, lacking.Remedy)
	require.Equal(t, 2, d.run("doctor", d.file("broken.yaml", "version: 1\n")).code)

	d.must(0, "breaker", "trip", "coder", "--why", "it moves")
	open := d.findings().of(t, "breaker coder", "warning")
	require.Contains(t, open.Message, "it moves")
	d.follow(open)
	require.Contains(t, d.findings().of(t, "breakers", "ok").Message, "1 breaker is closed")

	// A copy of the store, which the worker does not use.
	copied := filepath.Join(d.dir, "copied")
	require.NoError(t, os.CopyFS(copied, os.DirFS(d.state)))
	require.NoError(t, os.Chmod(copied, 0o700))
	other, err := store.Open(copied, store.Options{Clock: time.Now})
	require.NoError(t, err)
	offers, err := other.State.Offers(t.Context())
	require.NoError(t, err)
	require.NoError(t, other.State.RemoveOffer(t.Context(), offers[0].Worker))
	require.NoError(t, other.Close())
	require.Contains(t, d.findings("--state-dir", copied).of(t, "same store", "warning").Message,
		"it uses another copy of the store")
}

// TestDoctorsRemediesForTemporal are commands of Temporal's own tool.
func TestDoctorsRemediesForTemporal(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	address := temporaltest.Start(t, "--search-attribute", "MaestroTeam=Int")
	d.set("TEMPORAL_ADDRESS", address)
	var missing, wrong finding
	for _, f := range d.findings() {
		switch {
		case f.Check != "search attributes":
		case strings.Contains(f.Message, "missing"):
			missing = f
		default:
			wrong = f
		}
	}
	require.Contains(t, wrong.Message, "MaestroTeam is of the wrong type")
	const attribute, named = "temporal operator search-attribute ", "--namespace default --name MaestroTeam "
	require.Equal(t, attribute+"remove --yes "+named+"--address "+address+" && "+attribute+"create "+named+
		"--type Keyword --address "+address, wrong.Command)
	require.Regexp(t, "^"+attribute+"create --namespace default .*--name MaestroPhase --type KeywordList.* --address "+address+"$",
		missing.Command)

	absent := d.findings("--namespace", "short").of(t, "namespace", "bad")
	require.Equal(t, "temporal operator namespace create --address "+address+" --namespace short --retention 7d", absent.Command)
	_, err := d.temporal().WorkflowService().RegisterNamespace(t.Context(), &workflowservice.RegisterNamespaceRequest{
		Namespace: "short", WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour),
	})
	require.NoError(t, err)
	var short finding
	until(t, func() bool {
		for _, f := range d.findings("--namespace", "short") {
			if f.Check == "namespace" {
				short = f
			}
		}
		return short.Result == "warning"
	}, "the namespace did not come")
	require.Contains(t, short.Message, "short removes sessions 1 day after their end")
	require.Contains(t, short.Command, "namespace update --address "+address+" --namespace short --retention 7d")
}

// TestCommandsAreQuotedForAShell follows what commands say to type, in a directory that
// a shell would take for two words.
func TestCommandsAreQuotedForAShell(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.state = filepath.Join(d.dir, "it's my state")
	d.set("MAESTRO_STATE_DIR", d.state)
	require.NoError(t, os.MkdirAll(d.state, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(d.state, "store.json"), []byte(`{"id": "abcdefgh", "version": 1}`), 0o600))
	d.follow(d.findings().of(t, "store private", "warning"))
	d.findings().of(t, "store private", "ok")
}

// permitsRooms reports whether this host permits rooms.
func permitsRooms() bool {
	return (&procgroup.Launcher{Secrets: secrets.New(nil), Threads: procgroup.Threads{Each: 100}}).TryRoom(nil) == nil
}

// overlaid becomes the program in its arguments, with a directory that is an overlay.
const overlaid = `mkdir -p "$1" "$1.upper" "$1.work" && mount -t overlay overlay -o "lowerdir=$1,upperdir=$1.upper,workdir=$1.work" "$1" && shift && exec "$@"`

// TestDoctorNamesWhatTheHostLacks examines this host with one feature of the kernel switched off
// at a time.
func TestDoctorNamesWhatTheHostLacks(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	d := newDesk(t)
	doctor := func(more string, command func(args ...string) *exec.Cmd) findings {
		file := d.file("agents.yaml", "version: 1\nagents:\n  a: {kind: command, argv: [\"true\"]}\n"+more)
		cmd := command(self, "doctor", "-o", "json", "--agents", file)
		cmd.Env = append(d.environ, asProgram+"="+d.bin)
		out, err := cmd.Output()
		var doc struct{ Findings findings }
		require.NoError(t, json.Unmarshal(out, &doc), "%s %v", out, err)
		return doc.Findings
	}
	without := func(f proctest.Feature) func(args ...string) *exec.Cmd {
		return func(args ...string) *exec.Cmd { return proctest.Without(f, args[0], args[1:]...) }
	}

	fs := doctor("", without(proctest.UserNamespaces))
	f := fs.of(t, "processes", "warning")
	require.Contains(t, f.Message, "agents and checks work without rooms: start the shim: ")
	require.Regexp(t, "the service or container forbids it; see docs/deployment.md|user namespaces are|AppArmor restricts",
		f.Message)
	require.Contains(t, f.Remedy, "isolation: none")
	if os.Geteuid() == 0 {
		require.Equal(t, "agents and checks run as root", fs.of(t, "processes user", "warning").Message)
	}
	f = doctor("isolation: required\n", without(proctest.UserNamespaces)).of(t, "processes", "bad")
	require.Contains(t, f.Message, "isolation: required, but this host permits no rooms: ")

	limits := doctor("isolation: none\n", without(proctest.Landlock)).of(t, "limits", "ok").Message
	require.Contains(t, limits, "files all of its user (nothing, because the kernel, or the filter of system calls, permits no "+
		"Landlock 2)")
	require.Contains(t, limits, "signals all of its user (nothing, because the kernel, or the filter of system calls, permits no "+
		"Landlock 6)")
	if room.Landlock() >= room.ScopeVersion {
		limits = fs.of(t, "limits", "ok").Message
		require.Contains(t, limits, "files its own and what it is shown (Landlock ")
		require.Contains(t, limits, "signals its own processes (Landlock ")
	}
	require.Regexp(t, `^of each attempt: memory \d.* \(measured by the shim, because .*; threads \d+ \(counted by the shim.* leaves \d+ for \d+ attempts and the worker\).*; memory that no process has mapped without bound .*; disk 10GB, 1000000 files \(measured by the worker\)`, limits)

	if permitsRooms() {
		limits = doctor("", without(proctest.Landlock)).of(t, "limits", "ok").Message
		require.Contains(t, limits, "abstract sockets those of the host with `network: host` (nothing, because the kernel, or the "+
			"filter of system calls, permits no Landlock 6)")
	}

	many := ""
	for i := range 50 { // no kernel has threads for 50,000 attempts
		many += fmt.Sprintf("  a%d: {kind: command, argv: [\"true\"], concurrency: 1000}\n", i)
	}
	f = doctor(many, func(args ...string) *exec.Cmd { return exec.Command(args[0], args[1:]...) }).of(t, "threads", "warning")
	require.Regexp(t, `^programs may fail, because each attempt may have only \d+ threads: .* leaves \d+ for \d+ attempts`,
		f.Message)

	if !permitsRooms() || os.Geteuid() != 0 {
		return // no overlay can be put where the store is
	}
	fs = doctor("", func(args ...string) *exec.Cmd {
		return exec.Command("unshare", append([]string{"--mount", "sh", "-c", overlaid, "sh", filepath.Clean(d.state)}, args...)...)
	})
	fs.of(t, "processes", "ok")
	f = fs.of(t, "layers", "warning")
	require.Contains(t, f.Message, "trees are copied for each attempt, because they cannot be layered: an overlay in "+d.state)
	require.Contains(t, f.Message, "because the directory lies on an overlay")
	require.Equal(t, "keep the store on a volume, like a directory of the host", f.Remedy)
}
