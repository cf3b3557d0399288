//go:build system

package cli_test

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/platform/temporalutil/temporaltest"
)

// prompt is a shell that somebody types at.
type prompt struct {
	t   *testing.T
	pty *os.File

	mu   sync.Mutex
	seen bytes.Buffer
}

// key presses.
const (
	tab = "\t"
	// show has the shell print the line as it is, which the shells are told below.
	show = "\x07"
	// discard empties the line.
	discard = "\x15"
)

// printsLine tells a shell to print the line that is typed when show is pressed.
var printsLine = map[string]string{
	"bash": `line() { printf '\nLINE=[%s]\n' "$READLINE_LINE"; }; bind -x '"\C-g": line'; bind 'set bell-style none'; bind 'set enable-bracketed-paste off'`,
	"zsh":  `line() { printf '\nLINE=[%s]\n' "$BUFFER"; zle reset-prompt; }; zle -N line; bindkey '^G' line; bindkey '^U' kill-whole-line; unsetopt beep zle_bracketed_paste 2>/dev/null; unset zle_bracketed_paste`,
}

// shell starts an interactive shell in the desk's directory, which is its home, too.
func (d *desk) shell(name string, args ...string) *prompt {
	d.t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = d.dir
	cmd.Env = append(d.withMaestro(), "TERM=xterm", "PS1=$ ", "LANG=C.UTF-8")
	f, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 50, Cols: 120})
	require.NoError(d.t, err, "%s is needed; .ci/run installs it", name)
	sh := &prompt{t: d.t, pty: f}
	read := make(chan struct{})
	go func() {
		defer close(read)
		buffer := make([]byte, 4096)
		for {
			n, err := f.Read(buffer)
			sh.mu.Lock()
			sh.seen.Write(buffer[:n])
			sh.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	d.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = f.Close()
		<-read
	})
	sh.press(printsLine[name] + "\n")
	sh.press("echo rea''dy\n")
	sh.until("ready\r\n")
	return sh
}

func (sh *prompt) press(keys string) {
	sh.t.Helper()
	_, err := sh.pty.WriteString(keys)
	require.NoError(sh.t, err)
}

// until waits for text and returns what was shown up to its end.
func (sh *prompt) until(text string) string {
	sh.t.Helper()
	var all string
	require.Eventually(sh.t, func() bool {
		sh.mu.Lock()
		defer sh.mu.Unlock()
		all = sh.seen.String()
		return strings.Contains(all, text)
	}, patience, 5*time.Millisecond, "never showed %q", text)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	at := strings.Index(all, text) + len(text)
	sh.seen.Next(at)
	return all[:at]
}

var printed = regexp.MustCompile(`LINE=\[(.*)\]`)

// types types what is begun and presses tab as often as said; it returns the line that
// is there then, and what was shown on the way.
func (sh *prompt) types(begun string, tabs int) (line, shown string) {
	sh.t.Helper()
	sh.press(begun)
	for range tabs {
		sh.press(tab)
	}
	sh.press(show)
	shown = sh.until("]\r\n")
	found := printed.FindStringSubmatch(shown)
	require.NotNil(sh.t, found, shown)
	sh.press(discard)
	return found[1], shown
}

const bashPackage = "/usr/share/bash-completion/bash_completion"

// install does what docs/cli.md says for a shell.
func (d *desk) install(shell string) {
	d.t.Helper()
	page, err := os.ReadFile("../../../docs/cli.md")
	require.NoError(d.t, err)
	_, block, found := strings.Cut(string(page), "```\n# "+shell)
	require.True(d.t, found, "docs/cli.md does not say how to install completion for %s", shell)
	_, block, _ = strings.Cut(block, "\n")
	block, _, _ = strings.Cut(block, "```")
	cmd := exec.Command("sh", "-ec", block)
	cmd.Env = d.withMaestro()
	out, err := cmd.CombinedOutput()
	require.NoError(d.t, err, "%s", out)
	require.Empty(d.t, string(out))
}

// withMaestro is the desk's environment, with maestro in PATH.
func (d *desk) withMaestro() []string {
	return append(d.environ[:len(d.environ):len(d.environ)], "PATH="+filepath.Dir(temporaltest.Binary(d.t, "maestro"))+":"+os.Getenv("PATH"))
}

// shells are those that completion is tried in, set up as the documentation says.
func shells() map[string]func(d *desk) *prompt {
	return map[string]func(d *desk) *prompt{
		"bash": func(d *desk) *prompt {
			require.FileExists(d.t, bashPackage, "the package bash-completion is needed; .ci/run installs it")
			d.file(".bashrc", ". "+bashPackage+"\n") // as distributions have it
			d.install("bash")
			return d.shell("bash", "-i")
		},
		"zsh": func(d *desk) *prompt {
			d.install("zsh")
			return d.shell("zsh", "-i")
		},
	}
}

func TestCompletionInRealShells(t *testing.T) {
	t.Parallel()
	for name, open := range shells() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBank(t).withCrew()
			b.file("team.yaml", planTeam)
			b.file("notes.txt", "")
			b.file("parts/one.yaml", planTeam)
			b.file("src/main.go", "")
			sh := open(b.desk)
			for _, c := range []struct{ begun, want string }{
				{"maestro wat", "maestro watch "},
				{"maestro watch st", "maestro watch stuck "},
				{"maestro status web.", "maestro status web.v2-done "},
				{"maestro logs stuck bu", "maestro logs stuck build/bob "},
				{"maestro resolve stuck retry --for bu", "maestro resolve stuck retry --for build/bob "},
				{"maestro resolve stuck retry --for=bu", "maestro resolve stuck retry --for=build/bob "},
				{"maestro resolve stuck su", "maestro resolve stuck supply "},
				{"maestro resolve stuck supply no", "maestro resolve stuck supply notes.txt "},
				{"maestro plan te", "maestro plan team.yaml "},
				{"maestro plan pa", "maestro plan parts/"},
				{"maestro plan team.yaml --until bu", "maestro plan team.yaml --until build "},
				{"maestro run team.yaml -f no", "maestro run team.yaml -f notes.txt "},
				{"maestro validate team.yaml --agents=te", "maestro validate team.yaml --agents=team.yaml "},
				{"maestro init pa", "maestro init parts/"},
				{"maestro list -o js", "maestro list -o json "},
				{"maestro list no", "maestro list no"},
				{"maestro watch nobody", "maestro watch nobody"},
			} {
				line, shown := sh.types(c.begun, 1)
				// Directories are left open, by some shells with their slash to come.
				require.Equal(t, c.want, line, "%s\n%s", c.begun, shown)
			}
			_, shown := sh.types("maestro watch ", 2)
			for _, want := range []string{"judged", "stuck", "web.v2-done", "help_needed, team crew"} {
				require.Contains(t, shown, want)
			}
			_, shown = sh.types("maestro plan ", 2)
			require.Contains(t, shown, "team.yaml")
			require.Contains(t, shown, "parts")
			require.NotContains(t, shown, "notes.txt")
		})
	}
}

// TestCompletionInFish asks fish what it offers.
func TestCompletionInFish(t *testing.T) {
	t.Parallel()
	b := newBank(t).withCrew()
	b.file("team.yaml", planTeam)
	b.file("notes.txt", "")
	b.file("src/main.go", "")
	b.install("fish")
	for begun, want := range map[string]string{
		"maestro wat":                            "watch",
		"maestro watch st":                       "stuck",
		"maestro watch ":                         "web.v2-done stuck judged",
		"maestro logs stuck bu":                  "build/bob",
		"maestro resolve stuck retry --for=b":    "--for=build/bob",
		"maestro resolve stuck supply no":        "notes.txt",
		"maestro plan te":                        "team.yaml",
		"maestro plan no":                        "notes.txt", // nothing better begins so
		"maestro plan team.yaml --only design,s": "design,survey",
		"maestro list no":                        "",
		"maestro init s":                         "src/ state/",
	} {
		cmd := exec.Command("fish", "--command", "complete --do-complete '"+begun+"'")
		cmd.Dir, cmd.Env = b.dir, b.withMaestro()
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		var words []string // fish decides on the order, and describes what it likes
		for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
			word, _, _ := strings.Cut(line, "\t")
			words = append(words, word)
		}
		require.ElementsMatch(t, strings.Split(want, " "), words, begun)
	}
}

// TestCompletionDoesNotContactTemporal completes with a server that accepts connections
// and never answers.
func TestCompletionDoesNotContactTemporal(t *testing.T) {
	b := newBank(t)
	b.session("web-001", "crew", time.Hour, tokensOf(1, 1, 0))
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var contacts atomic.Int32
	go func() {
		for {
			conn, err := silent.Accept()
			if err != nil {
				return
			}
			contacts.Add(1)
			defer func() { _ = conn.Close() }()
		}
	}()
	t.Cleanup(func() { _ = silent.Close() })
	b.set("TEMPORAL_ADDRESS", silent.Addr().String())
	for _, typed := range []string{"watch", "resolve", "logs web-001"} {
		cmd := exec.Command(temporaltest.Binary(t, "maestro"), append(append([]string{"__complete"}, strings.Fields(typed)...), "")...)
		cmd.Env = b.environ
		require.NoError(t, cmd.Run(), typed)
	}
	require.Zero(t, contacts.Load())
}
