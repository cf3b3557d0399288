//go:build system

package agent

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/models/agent/preset"
	"github.com/maestro-hive/maestro/internal/models/wire"
	"github.com/maestro-hive/maestro/internal/testkit/providertest"
)

// TestCLITalksOnceInItsTranscript: the programs repeat and rewrite their conversations, and print them, too.
func TestCLITalksOnceInItsTranscript(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		bin, err := installed()
		require.NoError(t, err)
		work := c.answers("printf first-%d 23", "printf second-%d 45")
		server := providertest.New(t, func(r providertest.Request) providertest.Reply {
			if strings.Contains(string(r.Body), "sentence-case title") { // that Claude Code wants for itself
				return providertest.Say("A title")
			}
			return work(r)
		})
		b := newBench(t)
		b.isolation = IsolationNone
		b.vars["PATH"], b.vars["KEY"] = bin+":"+os.Getenv("PATH"), realKey
		url := server.URL()
		format := preset.For(c.preset).API
		if format == wire.OpenAI {
			url += "/v1"
		}
		s := b.set(Config{
			Providers: map[string]Provider{"p": {Format: format, BaseURL: url, KeyEnv: "KEY"}},
			Agents:    map[string]Definition{"x": {Kind: KindCommand, Preset: c.preset, Gateway: []string{"p"}, Model: "gpt-5"}},
		})
		b.calls.Left = 10_000_000
		job := b.job()
		job.Brief.Requirement = "Do as only this requirement says."
		out, err := s.Run(t.Context(), job)
		log := string(out.Log)
		require.NoError(t, err, log)
		for _, once := range []string{
			`^\? user: You are "dev"`, "> .*printf first-", "(?:< |│ ).*first-23", "> .*printf second-",
			"(?:< |│ ).*second-45", "^All is done now\\.",
		} {
			require.Len(t, regexp.MustCompile("(?m)"+once).FindAllString(log, -1), 1, "%s in\n%s", once, log)
		}
		require.NotContains(t, log, "? assistant")
		require.NotContains(t, log, "? earlier")
		require.Equal(t, server.Count(), strings.Count(log, " to p: "), log)
	})
}
