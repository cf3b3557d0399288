package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Two phases that leave files of every sort.
const (
	craftTeam = `
version: 1
name: craft
personas:
  writer: {role: Writer, agent: writer, instructions: "Write."}
  maker: {role: Maker, agent: coder, instructions: "Make."}
phases:
  - {name: think, personas: [writer]}
  - {name: make, personas: [maker]}
retry: {attempts: 1, rounds: 1, initial: 10ms, max: 10ms}
ignore: ["*.log"]
`
	craftWriter = `mkdir -p docs; echo "# Design" > docs/design.md; echo "more" >> README.md; echo noise > run.log`
	craftMaker  = `printf 'echo \033]0;done' > tool.sh; chmod +x tool.sh; printf 'a\000b' > data.bin; rm -f old.txt; ln -s docs/design.md latest
sed -i s/Design/Plan/ docs/design.md; chmod +x script`
)

// crafted is a desk with a finished session "s" on the workspace ws.
func crafted(t *testing.T) *desk {
	t.Helper()
	d := newDesk(t).withServer()
	d.withWorker(map[string]string{"writer": craftWriter, "coder": craftMaker})
	d.craft("s")
	return d
}

// craft writes the workspace, if there is none, and runs a session on it.
func (d *desk) craft(session string) {
	d.t.Helper()
	if _, err := os.Stat(filepath.Join(d.dir, "ws")); err != nil {
		d.workspace()
	}
	d.must(0, "run", d.file("team.yaml", craftTeam), "Make it so.\nAnd well.", "--session", session, "--workspace",
		filepath.Join(d.dir, "ws"), "--watch")
}

func (d *desk) workspace() {
	d.t.Helper()
	d.file("ws/README.md", "hello\n")
	d.file("ws/old.txt", "old\n")
	d.file("ws/script", "#!/bin/sh\n")
	d.file("ws/.env", "KEY=secret\n")
}

// tree is what a directory holds besides git's own, with "+x" and "->" for modes
// and links.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() && e.Name() != ".git" {
			return err
		}
		if e.Name() == ".git" {
			if e.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		if strings.HasPrefix(e.Name(), "state.db-") { // the locks of those who read the database
			return nil
		}
		name, err := filepath.Rel(dir, path)
		require.NoError(t, err)
		info, err := e.Info()
		require.NoError(t, err)
		if info.Mode()&os.ModeSymlink != 0 {
			out[name], err = os.Readlink(path)
			out[name] = "-> " + out[name]
			return err
		}
		data, err := os.ReadFile(path)
		out[name] = string(data)
		if info.Mode()&0o100 != 0 {
			out[name] = "+x " + out[name]
		}
		return err
	}))
	return out
}

// git runs git in a directory that must be a repository, or become one.
func runGit(t *testing.T, dir, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_CEILING_DIRECTORIES="+
		filepath.Dir(dir),
		"GIT_AUTHOR_NAME=Ann", "GIT_AUTHOR_EMAIL=ann@example.com", "GIT_COMMITTER_NAME=Ann", "GIT_COMMITTER_EMAIL=ann@example.com")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "git %s\n%s", strings.Join(args, " "), out)
	return string(out)
}

// result is what a session on the workspace of crafted leaves in it.
var result = map[string]string{
	"README.md": "hello\nmore\n", "script": "+x #!/bin/sh\n", "docs/design.md": "# Plan\n", "latest": "-> docs/design.md",
	"tool.sh": "+x echo \x1b]0;done", "data.bin": "a\x00b", ".env": "KEY=secret\n",
}

func TestArtifactsAreCompared(t *testing.T) {
	t.Parallel()
	d := crafted(t)
	patch := d.must(0, "artifacts", "diff", "s", "--binary")
	runGit(t, filepath.Join(d.dir, "ws"), patch, "apply", "-")
	require.Equal(t, result, tree(t, filepath.Join(d.dir, "ws")), "what the session has changed, and nothing else")

	require.Contains(t, d.must(0, "artifacts", "diff", "s"), "Binary files /dev/null and b/data.bin differ\n")
	require.Equal(t, `PATH            CHANGE   ADDED   REMOVED
data.bin        added    binary
docs/design.md  changed  +1      -1
latest          added    +1      -0
old.txt         removed  +0      -1
script          changed  +0      -0
tool.sh         added    +1      -0
`, d.must(0, "artifacts", "diff", "s", "think..make", "--stat"))
	require.Equal(t, d.must(0, "artifacts", "diff", "s", "think..make"), d.must(0, "artifacts", "diff", "s", "think.."))
	require.Equal(t, d.must(0, "artifacts", "diff", "s", "think"), d.must(0, "artifacts", "diff", "s", "..think"))
	require.Equal(t, "PATH       CHANGE   ADDED  REMOVED\nREADME.md  changed  +1     -0\n",
		d.must(0, "artifacts", "diff", "s", "..think", "--stat", "--", "*.md"))

	d.file("ws/mine.txt", "mine\n")
	t.Run("session", func(t *testing.T) {
		d.craft("other") // on the workspace as it is by now
		d.prints(`{"after": "the newest tree of other, after make", "files": [{"path": "README.md", "added": 1},
			{"path": "mine.txt"}]}`, "artifacts", "diff", "s", "--with", "other")
		d.prints(`{"before": "s after think", "after": "other after think", "files": [{}, {}, {}, {}, {}, {}, {}]}`,
			"artifacts", "diff", "s", "think", "--with", "other:think")
	})
	t.Run("misuse", func(t *testing.T) {
		for want, args := range map[string][]string{
			"; did you mean":      {"s", "thnik..make"},
			"compares two phases": {"s", "think..make", "--with", "s"},
			`unexpected argument "README.md"; give paths after --`: {"s", "think", "README.md"},
			`"nowhere" is not found`:                               {"s", "--", "nowhere"},
			`session "nobody" not found`:                           {"s", "--with", "nobody"},
		} {
			d.ends(2, want, append([]string{"artifacts", "diff"}, args...)...)
		}
	})
}

// The files of a stuck agent are looked at, corrected, and supplied as a whole.
func TestTheFilesOfAFailedAttemptAreCorrected(t *testing.T) {
	t.Parallel()
	d := newDesk(t).withServer()
	d.withWorker(map[string]string{"coder": "echo draft > notes.txt; echo wrong > old.txt; exit 7"})
	d.must(0, "run", d.file("team.yaml", oneTeam+"retry: {rounds: 1, attempts: 1}\n"), "Make it so.", "--session", "s")
	require.Equal(t, 3, d.run("watch", "s").code)

	out := filepath.Join(d.dir, "out")
	require.Equal(t, 2, d.run("artifacts", "get", "s", "--of", "build/nobody", "--out", out).code)
	got := d.ends(0, "maestro resolve s supply "+out+" --whole --for build/dev", "artifacts", "get", "s", "--of",
		"build/dev", "--out", out)
	require.Equal(t, "notes.txt\nold.txt\n", got.stdout.String())

	require.NoError(t, os.Remove(filepath.Join(out, "old.txt")))
	require.NoError(t, os.WriteFile(filepath.Join(out, "code.txt"), []byte("right\n"), 0o600))
	d.must(0, "resolve", "s", "supply", out, "--whole", "--for", "build/dev")
	require.Equal(t, 0, d.run("watch", "s").code)
	require.Equal(t, "code.txt\nnotes.txt\n", d.must(0, "artifacts", "get", "s", "--out", filepath.Join(d.dir, "result")))
}
