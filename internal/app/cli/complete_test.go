package cli_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/breaker"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
)

// completes asks for completions as a shell's script does, and returns the words that
// fit, which is for the script to say, with their descriptions; and the directive.
func (d *desk) completes(args ...string) (words []string, directive string) {
	d.t.Helper()
	lines := strings.Split(strings.TrimSuffix(d.must(0, append([]string{"__complete"}, args...)...), "\n"), "\n")
	last := len(lines) - 1
	for _, line := range lines[:last] {
		if strings.HasPrefix(line, args[len(args)-1]) || lines[last] == byEnding {
			words = append(words, line)
		}
	}
	return words, lines[last]
}

// What a directive adds up to.
const (
	noFiles       = ":4"
	noFilesSorted = ":36"
	byEnding      = ":8"
	onlyDirs      = ":16"
	anyFiles      = ":0"
)

// withCrew gives a bank sessions in several states, and a breaker.
func (b *bank) withCrew() *bank {
	b.t.Helper()
	b.session("web.v2-done", "crew", 3*time.Hour, cost.Usage{})
	b.asks("judged", session.Running, session.Request{
		ID: "plan.approval.1", Kind: session.ForApproval, Phase: "plan", Actions: []session.Action{
			session.AnswerApprove,
			session.AnswerReject,
		},
	})
	b.asks("stuck", session.HelpIsNeeded, session.Request{
		ID: "build.bob.1", Kind: session.ForHelp, Phase: "build", Persona: "bob", Category: failures.TestFailure,
		Actions: helpVerbs,
	})
	_, err := (&breaker.Breakers{State: b.store.State}).Set(b.t.Context(), "reset", "anthropic", breaker.ResetRequest{By: "ann"})
	require.NoError(b.t, err)
	return b
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	b := newBank(t).withCrew()
	file := b.file("team.yaml", planTeam)
	for _, c := range []struct {
		typed     string // words separated by spaces, the last one begun
		want      []string
		directive string
	}{
		{
			"watch ",
			[]string{"stuck\thelp_needed, team crew", "judged\trunning, team crew", "web.v2-done\tcompleted, team crew"},
			noFilesSorted,
		},
		{"status web.", []string{"web.v2-done\tcompleted, team crew"}, noFilesSorted},
		{"status stuck ", nil, noFiles},
		{"logs stuck b", []string{"build/bob"}, noFilesSorted},
		{"checkpoints show stuck ", []string{"plan", "build"}, noFilesSorted},
		{"resolve st", []string{"stuck\thelp_needed, team crew"}, noFilesSorted},
		{"resolve stuck s", []string{"skip", "supply"}, noFiles},
		{"resolve stuck supply ", nil, anyFiles},
		{"resolve stuck retry --for ", []string{"plan/ann", "build/bob"}, noFilesSorted},
		{"approve judged pl", []string{"plan"}, noFilesSorted},
		{"fork stuck --from ", []string{"plan", "build"}, noFilesSorted},
		{"resume stuck --force plan,", []string{"plan,build"}, noFilesSorted},
		{"budget raise stuck --phase b", []string{"build"}, noFilesSorted},
		{"artifacts diff stuck b", []string{"build"}, noFilesSorted},
		{"artifacts diff stuck --with j", []string{"judged\trunning, team crew"}, noFilesSorted},
		{"artifacts get web.v2-done --out ", nil, onlyDirs},
		{"usage --by phase,per", []string{"phase,persona"}, noFilesSorted},
		{"usage -o ", []string{"table", "json", "csv"}, noFiles},
		{"plan ", []string{"yaml", "yml"}, byEnding},
		{"plan " + file + " --until b", []string{"build"}, noFilesSorted},
		{"plan " + file + " --only design,s", []string{"design,survey"}, noFilesSorted},
		{"run " + file + " ", nil, noFiles},
		{"run " + file + " -f ", nil, anyFiles},
		{"validate " + file + " --agents ", []string{"yaml", "yml"}, byEnding},
		{"checkpoints import ", nil, anyFiles},
		{"list --state-dir ", nil, onlyDirs},
		{"list ", nil, noFiles},
		{"completion ", []string{
			"bash\tGenerate the autocompletion script for bash", "fish\tGenerate the autocompletion script for fish",
			"powershell\tGenerate the autocompletion script for powershell", "zsh\tGenerate the autocompletion script for zsh",
		}, noFiles},
		{"help artifacts d", []string{"diff\tCompare a session's files with its start, another phase or another session"}, noFiles},
	} {
		words, directive := b.completes(strings.Split(c.typed, " ")...)
		require.ElementsMatch(t, c.want, words, c.typed)
		require.Equal(t, c.directive, directive, c.typed)
	}
}

// TestCompletionNeverComplains: completion of what cannot be read prints no error. It asks no server, which may take its time.
func TestCompletionNeverComplains(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	go func() {
		if _, err := silent.Accept(); err == nil {
			t.Error("completion has contacted Temporal")
		}
	}()
	d.set("TEMPORAL_ADDRESS", silent.Addr().String())
	broken := d.file("broken.yaml", "version: 1\nphases: nothing\n")
	for _, typed := range []string{
		"watch ", "resolve ", "resolve gone ", "logs gone ", "artifacts get gone ", "apply gone ",
		"budget settle gone ", "breaker trip ", "plan " + broken + " --only ",
	} {
		c := d.run(append([]string{"__complete"}, strings.Split(typed, " ")...)...)
		require.Zero(t, c.code, typed)
		require.NotContains(t, c.stdout.String(), "gone")
		require.Equal(t, 1, strings.Count(c.stderr.String(), "\n"), "cobra says how it ended, and nobody else anything: %s",
			c.stderr.String())
	}
	require.NoDirExists(t, d.state)
}
