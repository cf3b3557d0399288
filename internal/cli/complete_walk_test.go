package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// free are the flags whose values nothing could list, and why.
var free = map[string]string{
	"address":           "a host and port of the user's own",
	"api-key":           "a secret",
	"grpc-meta":         "a header of the user's own",
	"tls-cert-data":     "a certificate",
	"tls-key-data":      "a secret",
	"tls-ca-data":       "a certificate",
	"tls-server-name":   "a name of the user's own",
	"as":                "a new name",
	"cursor":            "what the page before has ended with",
	"session":           "a new name",
	"branch":            "a new name",
	"by":                "a person",
	"note":              "a sentence",
	"why":               "a sentence",
	"decision":          "a name and value of the user's own",
	"include":           "a pattern",
	"drain":             "a duration",
	"for":               "a duration, with `breaker trip`",
	"older-than":        "a duration",
	"interval":          "a duration",
	"cost-usd":          "an amount",
	"usd":               "an amount",
	"tokens":            "a number",
	"input-tokens":      "a number",
	"output-tokens":     "a number",
	"cache-read-tokens": "a number", "cache-write-tokens": "a number", "reasoning-tokens": "a number",
	"keep":            "a number",
	"limit":           "a number",
	"tail":            "a number",
	"lines":           "a number",
	"port":            "a number",
	"ui-port":         "a number",
	"health-port":     "a number",
	"metrics-address": "a host and port of the user's own",
	"project":         "a key in a Jira that completion does not ask",
	"type":            "a name in a Jira that completion does not ask",
}

// TestEveryFlagThatTakesAValueIsCompleted walks the whole tree of commands.
func TestEveryFlagThatTakesAValueIsCompleted(t *testing.T) {
	t.Parallel()
	a := &app{}
	byName := a.flagCompletions()
	bare, seen := map[string]bool{}, map[string]bool{}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Runnable() && !cmd.HasSubCommands() {
			require.NotNil(t, cmd.ValidArgsFunction, "%s completes files as its arguments", cmd.CommandPath())
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			seen["--"+f.Name] = true
			ofCommand := strings.TrimPrefix(cmd.CommandPath(), "maestro ") + " --" + f.Name
			seen[ofCommand] = true
			if f.NoOptDefVal != "" || completesFiles(f) {
				return
			}
			complete, ok := cmd.GetFlagCompletionFunc(f.Name)
			require.True(t, ok, "%s --%s", cmd.CommandPath(), f.Name)
			words, directive := complete(cmd, nil, "")
			if len(words) == 0 && directive == cobra.ShellCompDirectiveNoFileComp && byName["--"+f.Name] == nil && byName[ofCommand] == nil && !depends[f.Name] {
				bare[f.Name] = true
			}
		})
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(newRoot(a))
	for name := range bare {
		require.NotEmpty(t, free[name], "nothing completes --%s; add it to flagCompletions, or say here why nothing could", name)
	}
	for name := range byName {
		require.True(t, seen[name], "flagCompletions has %s, which no command has", name)
	}
}

// depends are flags that complete once a session or a team is named.
var depends = map[string]bool{"only": true, "from": true, "until": true, "pause-after": true, "input": true}

func TestListsAreCompletedAtTheirEnd(t *testing.T) {
	t.Parallel()
	complete := listOf(func(*cobra.Command, []string) []string { return []string{"design", "build", "test"} })
	for begun, want := range map[string][]string{
		"":            {"design", "build", "test"},
		"b":           {"build"},
		"design,":     {"design,build", "design,test"},
		"design,te":   {"design,test"},
		"design,test": {"design,test"},
		"design,x":    {},
	} {
		got, directive := complete(nil, nil, begun)
		require.Equal(t, want, slices.Clone(got), begun)
		require.Equal(t, cobra.ShellCompDirectiveNoFileComp, directive)
	}
}
