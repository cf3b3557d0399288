package llm_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/testkit/providertest"
)

// TestSecrets plants a secret in everything that a conversation is made of, and
// looks for it in everything that comes of it.
func TestSecrets(t *testing.T) {
	t.Parallel()
	call := providertest.Tool
	escaped := `{"path":"leak2","content":"` + strings.ReplaceAll(secret, "s", `\u0073`) + `"}`
	script := plays(
		providertest.Reply{Thinking: "the key is " + secret, Text: "I saw " + secret, Calls: []providertest.Call{
			call("read", args{"path": "env"}), call("search", args{"pattern": "KEY"}), call("list", args{}),
			call("read", args{"path": "long", "from": 1, "to": 1}),
			call("write", args{"path": "leak", "content": "key=" + secret}),
			{Name: "write", Arguments: escaped},
			call("write", args{"path": secret, "content": "x"}),
			call("run_check", args{"name": "test"}), call("decide", args{"name": "key", "value": secret}),
			call("read", args{"path": "/" + secret}), call(secret, args{}),
		}},
		use("edit", args{"path": "env", "old": "other", "new": "another"}),
		providertest.Use(call("finish", args{"summary": "the key is " + secret})),
	)
	files := map[string]string{
		"env": "KEY=" + secret + "\nother\n", "long": strings.Repeat("x", 48<<10-110) + secret + "\n",
		secret + ".txt": "",
	}
	each(t, script, files, func(t *testing.T, b *bench, s *providertest.Server) {
		b.job.Brief.Requirement += " The key is " + secret
		b.job.Brief.Instructions += secret
		b.job.Brief.Decisions["key"] = secret
		b.job.Brief.Feedback = &session.Feedback{Category: failures.TestFailure, Message: secret, Output: secret, Diff: "+" + secret}
		b.job.Deliver.Checks = []string{"test"}
		b.job.Try = func(context.Context, string) ([]byte, error) {
			return []byte("using " + secret), failures.Failf(failures.TestFailure, "no %s", secret)
		}
		out := b.done()
		require.Equal(t, 3, s.Count())
		clean := func(where, text string) {
			t.Helper()
			require.NotContains(t, text, secret, where)
			require.NotContains(t, text, secret[:len(secret)-2], where)
		}
		clean("what the provider got", s.Log())
		clean("the stored calls", b.calls.Text())
		clean("the transcript", string(out.Log))
		clean("the summary", out.Summary)
		clean("progress", strings.Join(b.said, "\n"))
		require.NotContains(t, out.Decisions, "key")
		require.Contains(t, b.files()["leak"], "key=***")
		require.Contains(t, b.files()["leak2"], "***")
		require.Equal(t, files["env"], b.files()["env"], "what holds a secret is not changed")
		require.Contains(t, s.Requests()[2].Last().Results[0].Text, "env holds a secret")
	})
	// In the words of an error.
	each(t, plays(providertest.Failing(providertest.Fault{Status: 500, Type: "api_error", Message: "bad key " + secret})), nil,
		func(t *testing.T, b *bench, _ *providertest.Server) {
			out, err := b.run()
			f := failed(t, err)
			require.NotContains(t, f.Message+f.Output+string(out.Log), secret)
			require.Contains(t, f.Message, "bad key ***")
		})
}
