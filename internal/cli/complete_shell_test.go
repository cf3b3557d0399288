//go:build system

package cli_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/temporalio/temporaltest"
)

// terminal is a shell that somebody types at.
type terminal struct {
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

// shell starts an interactive shell in the desk's directory, with maestro in PATH,
// and has it run the lines.
func (d *desk) shell(name string, argv []string, lines ...string) *terminal {
	d.t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = d.dir
	cmd.Env = append(d.environ[:len(d.environ):len(d.environ)], "TERM=xterm", "PS1=$ ", "LANG=C.UTF-8",
		"PATH="+filepath.Dir(temporaltest.Binary(d.t, "maestro"))+":"+os.Getenv("PATH"))
	f, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 50, Cols: 120})
	require.NoError(d.t, err, "%s is needed; .ci/run installs it", name)
	sh := &terminal{t: d.t, pty: f}
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
	for _, line := range append(lines, printsLine[name]) {
		sh.press(line + "\n")
	}
	sh.press("echo rea''dy\n")
	sh.until("ready\r\n")
	return sh
}

func (sh *terminal) press(keys string) {
	sh.t.Helper()
	_, err := sh.pty.WriteString(keys)
	require.NoError(sh.t, err)
}

// until waits for text and returns what was shown up to its end.
func (sh *terminal) until(text string) string {
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
func (sh *terminal) types(begun string, tabs int) (line, shown string) {
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

// shells are those that completion is tried in, and how each is set up as the
// documentation says.
func shells(t *testing.T) map[string]func(d *desk) *terminal {
	t.Helper()
	const package_ = "/usr/share/bash-completion/bash_completion"
	require.FileExists(t, package_, "the package bash-completion is needed; .ci/run installs it")
	bash := []string{"bash", "--norc", "--noprofile", "-i"}
	return map[string]func(d *desk) *terminal{
		"bash with its package": func(d *desk) *terminal {
			return d.shell("bash", bash, "source "+package_, "mkdir -p ~/.local/share/bash-completion/completions",
				"maestro completion bash > ~/.local/share/bash-completion/completions/maestro")
		},
		"bare bash": func(d *desk) *terminal { return d.shell("bash", bash, "source <(maestro completion bash)") },
		"zsh": func(d *desk) *terminal {
			return d.shell("zsh", []string{"zsh", "-f", "-i"}, "mkdir -p ~/.zfunc", "maestro completion zsh > ~/.zfunc/_maestro",
				"fpath=(~/.zfunc $fpath)", "autoload -Uz compinit && compinit -u")
		},
		"zsh, sourced": func(d *desk) *terminal {
			return d.shell("zsh", []string{"zsh", "-f", "-i"}, "autoload -Uz compinit && compinit -u", "source <(maestro completion zsh)")
		},
	}
}

func TestCompletionInRealShells(t *testing.T) {
	t.Parallel()
	for name, open := range shells(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBank(t).withCrew()
			b.file("team.yaml", planTeam)
			b.file("notes.txt", "")
			b.file("parts/one.yaml", planTeam)
			b.file("src/main.go", "")
			b.file("my files/a b.txt", "")
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
				{"maestro plan no", "maestro plan notes.txt "}, // nothing better begins so
				{"maestro plan team.yaml --only design,su", "maestro plan team.yaml --only design,survey "},
				{"maestro plan team.yaml --input bu", "maestro plan team.yaml --input build="},
				{"maestro plan team.yaml --input build=sr", "maestro plan team.yaml --input build=src/"},
				{"maestro plan team.yaml --input build=src/ma", "maestro plan team.yaml --input build=src/main.go "},
				{"maestro plan team.yaml --input=build=src/ma", "maestro plan team.yaml --input=build=src/main.go "},
				{"maestro plan team.yaml --input build=my", `maestro plan team.yaml --input build=my\ files/`},
				{`maestro plan team.yaml --input build=my\ files/a`, `maestro plan team.yaml --input build=my\ files/a\ b.txt `},
				{"maestro run team.yaml -f no", "maestro run team.yaml -f notes.txt "},
				{"maestro validate team.yaml --agents=te", "maestro validate team.yaml --agents=team.yaml "},
				{"maestro init pa", "maestro init parts/"},
				{"maestro artifacts get web.v2-done do", "maestro artifacts get web.v2-done docs/"},
				{"maestro breaker trip an", "maestro breaker trip anthropic "},
				{"maestro list -o js", "maestro list -o json "},
				{"maestro list --nam", "maestro list --namespace "},
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
	for begun, want := range map[string]string{
		"maestro wat":                             "watch\tFollow a session until it ends, and exit with its outcome",
		"maestro watch st":                        "stuck\thelp_needed, team crew",
		"maestro watch ":                          "web.v2-done\tcompleted, team crew\nstuck\thelp_needed, team crew\njudged\trunning, team crew", // the newest first
		"maestro logs stuck bu":                   "build/bob\tcompleted",
		"maestro resolve stuck retry --for=b":     "--for=build/bob\tbuild/bob needs help",
		"maestro resolve stuck supply no":         "notes.txt",
		"maestro plan te":                         "team.yaml",
		"maestro plan no":                         "notes.txt", // nothing better begins so
		"maestro plan team.yaml --only design,s":  "design,survey",
		"maestro plan team.yaml --input build=sr": "build=src/",
		"maestro list no":                         "",
		"maestro init s":                          "src/\nstate/",
	} {
		cmd := exec.Command("fish", "--no-config", "--command", "maestro completion fish | source; complete --do-complete '"+begun+"'")
		cmd.Dir = b.dir
		cmd.Env = append(b.environ[:len(b.environ):len(b.environ)], "PATH="+filepath.Dir(temporaltest.Binary(t, "maestro"))+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Equal(t, want, strings.TrimSpace(string(out)), begun)
	}
}

// TestCompletionIsFast: it must not be felt, and asks no Temporal, which would be
// waited for.
func TestCompletionIsFast(t *testing.T) {
	b := newBank(t)
	for i := range 300 {
		b.session(fmt.Sprintf("web-%03d", i), "crew", time.Hour, tokensOf(1, 1, 0))
	}
	b.set("TEMPORAL_ADDRESS", "192.0.2.1:7233") // an address that nobody has
	for _, typed := range []string{"watch |", "resolve |", "logs web-001 |", "resolve --all --team |"} {
		best := time.Hour
		for range 3 {
			cmd := exec.Command(temporaltest.Binary(t, "maestro"), append([]string{"__complete"}, strings.FieldsFunc(strings.ReplaceAll(typed, "|", ""), func(r rune) bool { return r == ' ' })...)...)
			cmd.Args = append(cmd.Args, "")
			cmd.Env = b.environ
			began := time.Now()
			require.NoError(t, cmd.Run())
			best = min(best, time.Since(began))
		}
		require.Less(t, best, 500*time.Millisecond, "%s; it is a tenth of that on a machine with nothing else to do", typed)
		t.Logf("%s %s", typed, best)
	}
}
