package cli_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/store"
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
	noFilesNoSpc  = ":6"
	noFilesSorted = ":36"
	byEnding      = ":8"
	onlyDirs      = ":16"
	anyFiles      = ":0"
)

// withCrew gives a bank sessions in several states, with files.
func (b *bank) withCrew() *bank {
	b.t.Helper()
	b.session("web.v2-done", "crew", 3*time.Hour, cost.Usage{})
	b.asks("judged", session.Running, session.HelpRequest{
		ID: "plan.approval.1", Kind: session.ForApproval, Phase: "plan", Answers: []session.Verb{session.Approving, session.Rejecting},
	})
	b.asks("stuck", session.HelpIsNeeded, session.HelpRequest{
		ID: "build.bob.1", Kind: session.ForHelp, Phase: "build", Persona: "bob", Category: failures.TestFailure,
		Answers: helpVerbs, Ticket: &session.Ticket{Key: "MD-7"},
	})
	ctx := b.t.Context()
	blob, err := b.store.PutBlob(ctx, []byte("x\n"))
	require.NoError(b.t, err)
	entry := store.Entry{SHA256: blob, Size: 2}
	tree, err := b.store.PutManifest(ctx, store.Manifest{"main.go": entry, "docs/a.md": entry, "docs/more/b.md": entry})
	require.NoError(b.t, err)
	require.NoError(b.t, b.store.UpdateExecution(key("web.v2-done"), func(e *session.Execution) { e.Tree = tree }))
	b.pay("stuck", built, "coder", time.Hour, budget.Unsettled, cost.Usage{InputTokens: 10})
	require.NoError(b.t, b.store.PutBreaker(ctx, session.BreakerStatus{Name: "anthropic", State: session.BreakerClosed}))
	return b
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	b := newBank(t).withCrew()
	file := b.file("team.yaml", planTeam)
	b.file("src/main.go", "")
	b.file("src/.hidden", "")
	dir := b.dir + "/"
	b.set("TEMPORAL_CONFIG_FILE", b.file("temporal.toml", "[profile.prod]\naddress = \"127.0.0.1:1\"\n[profile.test]\n"))
	for _, c := range []struct {
		typed     string // words separated by spaces, the last one begun
		want      []string
		directive string
	}{
		{"watch ", []string{"stuck\thelp_needed, team crew", "judged\trunning, team crew", "web.v2-done\tcompleted, team crew"}, noFilesSorted},
		{"status web.", []string{"web.v2-done\tcompleted, team crew"}, noFilesSorted},
		{"status stuck ", nil, noFiles},
		{"logs stuck b", []string{"build/bob\tcompleted"}, noFilesSorted},
		{"checkpoints show stuck ", []string{"plan\tcompleted", "build\tcompleted"}, noFilesSorted},
		{"resolve stuck s", []string{"skip\tbuild/bob needs help", "supply\tbuild/bob needs help"}, noFilesSorted},
		{"resolve stuck supply ", nil, anyFiles},
		{"resolve stuck skip ", nil, noFiles},
		{"resolve --all ", []string{"retry", "skip", "abort"}, noFiles},
		{"resolve --all --team ", []string{"crew"}, noFiles},
		{"resolve --all --phase ", []string{"build", "plan"}, noFiles},
		{"resolve --all --category au", []string{"auth"}, noFiles},
		{"resolve stuck retry --for ", []string{"build/bob\tbuild/bob needs help"}, noFilesSorted},
		{"resolve stuck retry --request ", []string{"build.bob.1\tbuild/bob needs help"}, noFilesSorted},
		{"approve ", []string{"judged\tplan needs approval"}, noFilesSorted},
		{"approve judged --request ", []string{"plan.approval.1\tplan needs approval"}, noFilesSorted},
		{"fork stuck --from ", []string{"plan", "build"}, noFiles},
		{"resume stuck --force plan,", []string{"plan,build"}, noFiles},
		{"resume stuck --edit bu", []string{"build="}, noFilesNoSpc},
		{"budget raise stuck --persona ", []string{"ann", "bob"}, noFiles},
		{"budget raise stuck --phase b", []string{"build"}, noFiles},
		{"budget show --team ", []string{"crew"}, noFiles},
		{"budget settle stuck ", []string{"build/bob"}, noFilesSorted},
		{"budget settle stuck build/bob ", []string{"1\tcoder coder-1"}, noFilesSorted},
		{"artifacts get web.v2-done ", []string{"docs/", "main.go"}, noFilesNoSpc},
		{"artifacts diff stuck b", []string{"build\tcompleted"}, noFilesSorted},
		{"artifacts diff stuck plan..b", []string{"plan..build\tcompleted"}, noFilesSorted},
		{"artifacts diff stuck ..p", []string{"..plan\tcompleted"}, noFilesSorted},
		{"artifacts get web.v2-done main.go docs/", []string{"docs/a.md", "docs/more/"}, noFilesNoSpc},
		{"artifacts get web.v2-done --out ", nil, onlyDirs},
		{"breaker trip ", []string{"anthropic"}, noFiles},
		{"usage --by phase,per", []string{"phase,persona"}, noFiles},
		{"usage --since ", []string{"1d\tsince yesterday", "7d", "30d"}, noFilesSorted},
		{"usage -o ", []string{"table", "json", "csv"}, noFiles},
		{"plan ", []string{"yaml", "yml"}, byEnding},
		{"plan " + file + " --until b", []string{"build"}, noFiles},
		{"plan " + file + " --only design,s", []string{"design,survey"}, noFiles},
		{"plan " + file + " --input build=" + dir + "sr", []string{"build=" + dir + "src/"}, noFilesNoSpc},
		{"run " + file + " --input build=" + dir + "src/", []string{"build=" + dir + "src/main.go"}, noFiles},
		{"run " + file + " ", nil, noFiles},
		{"run " + file + " -f ", nil, anyFiles},
		{"run " + file + " --from-jira ", []string{"MD-7"}, noFiles},
		{"validate " + file + " --agents ", []string{"yaml", "yml"}, byEnding},
		{"checkpoints import ", nil, anyFiles},
		{"checkpoints prune --schedule o", []string{"off\tend the schedule"}, noFilesSorted},
		{"worker --log-format ", []string{"text", "json"}, noFilesSorted},
		{"list --profile ", []string{"prod", "test"}, noFiles},
		{"list --namespace ", []string{"default"}, noFiles},
		{"list --config-file ", []string{"toml"}, byEnding},
		{"list --state-dir ", nil, onlyDirs},
		{"list ", nil, noFiles},
		{"init ", nil, onlyDirs},
		{"init --template bl", []string{"blank\tone persona, one phase"}, noFiles},
		{"completion ", []string{
			"bash\tPrint the completion script for bash", "fish\tPrint the completion script for fish", "zsh\tPrint the completion script for zsh",
		}, noFiles},
		{"help artifacts d", []string{"diff\tCompare a session's files: with what it began with, between phases, with another session or a directory"}, noFiles},
	} {
		words, directive := b.completes(strings.Split(c.typed, " ")...)
		require.ElementsMatch(t, c.want, words, c.typed)
		require.Equal(t, c.directive, directive, c.typed)
	}
}

// TestCompletionNeverComplains: a person who presses a key wants no error.
func TestCompletionNeverComplains(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	broken := d.file("broken.yaml", "version: 1\nphases: nothing\n")
	for _, typed := range []string{"watch ", "resolve ", "resolve gone ", "logs gone ", "artifacts get gone ", "apply gone ", "budget settle gone ", "breaker trip ", "plan " + broken + " --only ", "list --profile "} {
		c := d.run(append([]string{"__complete"}, strings.Split(typed, " ")...)...)
		require.Zero(t, c.code, typed)
		require.NotContains(t, c.stdout.String(), "gone")
		require.Equal(t, 1, strings.Count(c.stderr.String(), "\n"), "cobra says how it ended, and nobody else anything: %s", c.stderr.String())
	}
	require.NoDirExists(t, d.state)
}
