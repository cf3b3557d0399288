package cli_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
)

func TestWhatMakesNoSenseEndsWithTwoAndSaysWhatToDo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, want string }{
		{"rum", `unknown command "rum" for "maestro"; did you mean "run"?`},
		{"artifacts fetch", `unknown command "fetch" for "maestro artifacts"`},
		{"checkpoints", "missing subcommand of `maestro checkpoints`; use one of: export, import, list, prune, " +
			"show, verify"},
		{"status --colour x", `unknown flag --colour for "maestro status"; see `},
		{"help rum", `unknown command "rum" for "maestro"; did you mean "run"?`},
		{"list --limmit 1", `unknown flag --limmit for "maestro list"; did you mean --limit?`},
		{"list -x", "unknown flag -x for \"maestro list\"; see `maestro list --help`"},
		{"list --limit", "--limit needs a value; see `maestro list --help`"},
		{"list --limit x", `--limit: "x" is not a whole number`},
		{"budget raise s --tokens 99999999999999999999", `--tokens: "99999999999999999999" is too large`},
		{"checkpoints prune --older-than 5", `--older-than: "5" is not a duration like 90s, 15m or 24h`},
		{"apply s --patch=perhaps", `--patch: "perhaps" is not true or false`},
		{"list -o yaml", `--output: "yaml" is not a format; use table or json`},
		{"status", "missing SESSION; usage: maestro status SESSION"},
		{"status a b", `unexpected argument "b"; usage: maestro status SESSION`},
		{"status a/b", "is not a usable session id"},
		{"run", "missing requirement"},
		{"run TEAM", "missing requirement"},
		{"run TEAM text -f FILE", "exclude each other"},
		{"run TEAM EMPTY", "is empty"},
		{"run TEAM -f EMPTYFILE", "is empty"},
		{"run TEAM -f nowhere.md", "cannot be read"},
		{"run TEAM -f .", "cannot be read"},
		{"run TEAM -f LONG", "larger than 256 KiB"},
		{"run TEAM -f BYTES", "not UTF-8"},
		{"run nowhere.yaml text", "nowhere.yaml: does not exist"},
		{"run TEAM text --session a/b", "--session"},
		{"run TEAM text --workspace nowhere", "--workspace: nowhere is not a readable directory"},
		{"run TEAM text --include x", "--workspace"},
		{"validate nowhere.yaml", "does not exist"},
		{"list --config-file nowhere.toml", "nowhere.toml does not exist"},
		{"logs s", "is not a store"},
		{"checkpoints verify", "--all"},
		{"checkpoints verify s --all", "exclude each other"},
		{"artifacts get s", "--out is missing"},
		{"run TEAM -f /dev/zero", "larger than 256 KiB"},
		{"checkpoints import /dev/zero", "/dev/zero"},
		{"worker --agents /dev/zero", "is not a regular file"},
		{"logs s --tail -5", "--tail: -5 is less than 0"},
		{"logs s --since -1h", "--since: -1h0m0s is less than 0"},
		{"worker --agents TEAM --drain -1s", "--drain: -1s is less than 0"},
		{"list --limit 0", "less than 1"},
		{"schema teem", `did you mean "team"?`},
		{"resolve", "missing SESSION"},
		{"resolve s", "missing retry|skip|abort"},
		{"resolve s again", `unknown answer "again"; use retry, skip, supply PATH or abort`},
		{"resolve s approve", "`maestro approve s PHASE`"},
		{"resolve s supply", "`maestro resolve s supply PATH`"},
		{"resolve s retry build/dev", "retry takes no path"},
		{"resolve s retry --note LONGNOTE", "--note: longer than 4.0 KiB"},
		{"approve s --note BAD", "not valid UTF-8"},
		{"reject s design", "--note is missing; describe what is wrong"},
		{"approve s design x", `unexpected argument "x"`},
		{"usage --by colour", "use one or more of team, session, phase"},
		{"usage --by day,day", "distinct fields"},
		{"usage --since yesterday", "like 7d, 12h or 1d12h"},
		{"usage --since -3d", "like 7d"},
		{"usage -o yaml", "use table, json or csv"},
		{"budget settle s 1", "missing cost"},
		{"budget settle s 1 --write-off --cost-usd 0", "leave one out"},
		{"budget settle s 1 --cost-usd much", "--cost-usd"},
		{"budget settle s 1 --output-tokens -1", "must be between 0"},
		{"budget settle s 1 --output-tokens 1 --reasoning-tokens 2", "--reasoning-tokens: 2 is more than the output tokens"},
		{"dev --log-level loud", "--log-level"},
		{"dev --port 70000", `--port: "70000" is not a port`},
		{"worker", "--agents"},
		{"worker health", "port"},
		{"worker health --health-port x", "port"},
		{"worker --health-port 70000", "port"},
		{"worker --agents TEAM", "TEAM"},
		{"dev --port 0 --ui-port 0 --agents TEAM", "TEAM"},
	} {
		t.Run(c.args, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t).withProgram()
			files := map[string]string{
				"TEAM": d.file("team.yaml", oneTeam), "EMPTY": " ", "EMPTYFILE": d.file("empty.md", "\n \n"),
				"LONG": d.file("long.md", strings.Repeat("long ", 60_000)), "BYTES": d.file("bytes.md", "\xff\xfe\x00"),
				"LONGNOTE": strings.Repeat("x", session.MaxNote+1), "BAD": "\xff",
			}
			args := strings.Fields(c.args)
			for i, arg := range args {
				if path, ok := files[arg]; ok {
					args[i] = path
				}
			}
			got := d.run(args...)
			require.Equal(t, 2, got.code, got.stderr.String())
			want := c.want
			if path, ok := files[want]; ok {
				want = path
			}
			require.Contains(t, got.stderr.String(), want)
			require.Empty(t, got.stdout.String())
			require.NotContains(t, got.stderr.String(), "Usage:")
			require.NotContains(t, got.stderr.String(), "goroutine")
		})
	}
}

func TestNoTemporalEndsWithFour(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"list", "status s", "watch s", "cancel s", "run TEAM text"} {
		d := newDesk(t)
		got := d.run(strings.Fields(strings.Replace(args, "TEAM", d.file("team.yaml", oneTeam), 1))...)
		require.Equal(t, 4, got.code, args)
		require.Equal(t, "maestro: cannot reach Temporal at 127.0.0.1:1; start it with `maestro dev`, or give its address with "+
			"--address\n", got.stderr.String())
		require.NoDirExists(t, d.state, "nothing may be half started")
	}
}

func TestVersionAndHelp(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	require.Contains(t, d.must(0), "maestro demo")
	require.Contains(t, d.must(0, "run", "--help"), "-f, --file")
	require.Contains(t, d.must(0, "version"), "maestro ")
	require.Equal(t, d.must(0, "version"), d.must(0, "--version"))
	help := d.must(0, "usage", "--help")
	require.Less(t, strings.Index(help, "--since"), strings.Index(help, "\nConnection to Temporal:\n"))
	require.Greater(t, strings.Index(help, "--tls-ca-path"), strings.Index(help, "\nConnection to Temporal:\n"))
	for line := range strings.Lines(help + d.must(0, "--help") + d.must(0, "run", "--help") + d.must(0, "help", "run")) {
		if !strings.HasPrefix(line, "  maestro ") { // an example
			require.LessOrEqual(t, utf8.RuneCountInString(line), 81, line)
		}
	}
	for _, key := range []string{"version", "commit", "modified", "go", "sdk"} {
		require.Contains(t, d.must(0, "version", "-o", "json"), `"`+key+`":`)
	}
}

func TestValidateWithoutAnythingElse(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	teamFile := d.file("team.yaml", twoTeam)
	require.Contains(t, d.must(0, "validate", teamFile), "2 phases of pair, 2 personas, with agents coder, writer and checks "+
		"has-code: valid")

	workerFile := d.file("agents.yaml", "version: 1\nagents:\n  coder: {kind: command, argv: [\"true\"]}\n")
	d.printsAt(2, `{"valid": false, "phases": ["think", "build"], "problems": [{}, {}]}`, "validate", teamFile, "--agents",
		workerFile)
	wrong := d.ends(2, workerFile+`: no worker has agent "writer" of persona`, "validate", teamFile, "--agents", workerFile)
	require.Contains(t, wrong.stderr.String(),
		workerFile+`: no worker with agent "coder" has check "has-code"; define it in that worker's file`)
	require.NoDirExists(t, d.state)

	priceless := d.file("priceless.yaml", "version: 1\nproviders: {p: {format: openai, base_url: 'http://h/v1'}}\nagents: {coder: "+
		"{kind: model, provider: p, model: m}}\n")
	capped := d.file("capped.yaml", "version: 1\nname: t\npersonas: {a: {role: R, agent: coder, instructions: X.}}\nphases: "+
		"[{name: p, personas: [a]}]\nbudget: {usd: 1}\n")
	d.ends(2, `the prices of agent "coder" are not known; set its `+
		"`prices` in the worker file, or `models` with prices if it has a provider", "validate", capped, "--agents", priceless)

	broken := d.file("broken.yaml", strings.Replace(twoTeam, "agent: coder", "agnet: coder", 1))
	got := d.ends(2, broken+":", "validate", broken)
	require.Contains(t, got.stderr.String(), "agnet")
}

func TestColourOnlyOnATerminal(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	require.NotContains(t, d.run("doctor").stdout.String(), "\x1b")
	d.terminal = true
	require.Contains(t, d.run("doctor").stdout.String(), "\x1b[31mbad\x1b[0m")
	d.set("NO_COLOR", "1")
	require.NotContains(t, d.run("doctor").stdout.String(), "\x1b")
}

func TestAStateDirectoryThatIsSomethingElseIsRefused(t *testing.T) {
	t.Parallel()
	d := newDesk(t).withServer()
	require.NoError(t, os.MkdirAll(d.state, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(d.state, "thesis.txt"), []byte("mine"), 0o600))
	d.ends(2, "neither empty nor a store", "run", d.file("team.yaml", oneTeam), "text")
}

func TestRunWithoutAWorkerStartsNothing(t *testing.T) {
	t.Parallel()
	d := newDesk(t).withServer()
	got := d.ends(2, "no worker serves this store", "run", d.file("team.yaml", oneTeam), "text")
	require.Empty(t, got.stdout.String())
	got = d.ends(0, "no sessions yet", "list")
	require.Empty(t, got.stdout.String())
	d.ends(2, `session "nobody" not found in the store in `, "status", "nobody")
	d.ends(2, `namespace "nowhere" not found`, "list", "--namespace", "nowhere")
}

func TestInterruptedBeforeAnythingHappened(t *testing.T) {
	t.Parallel()
	silent, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	require.NoError(t, silent.SetDeadline(time.Now().Add(time.Minute)))
	defer silent.Close()
	d := newDesk(t)
	d.set("TEMPORAL_ADDRESS", silent.Addr().String())
	c := d.begin("list")
	conn, err := silent.Accept() // now it waits for an answer
	require.NoError(t, err)
	defer conn.Close()
	c.interrupt()
	require.Equal(t, 130, c.wait(), "not the connection's own timeout")
}
