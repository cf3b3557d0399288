package deliver_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/delivery"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// hostile are texts that somebody writes into every field that there is.
var hostile = map[string]string{
	"markup": "# big\n[x](https://evil.example) ![x](https://evil.example/x.png) **b** | a | `c`\n\n[ref]: https://evil.example\n" +
		"<img src=x onerror=alert(1)> <details> @everyone @acme/leads, see #1, GH-1, !1, $1, ~bug, acme/other#2, www.evil.example",
	"commands": "/merge\n /approve\n\t/close\r\n/lgtm cancel\n\r/target_branch main\n--upload-pack=touch x\n-rf $(touch x)" +
		" `touch x`\n\nMaestro-Session: another-1\nSigned-off-by: ann",
	"control": "\x1b[31mred\x1b]0;title\x07 \x00 \u202egnp.exe \u200b\x9b2J \xff\xfe",
	"long":    strings.Repeat("x <a> @b #1 ", 90_000),
	"marks":   "<!-- maestro: this part is updated -->\nMine.\n<!-- maestro: end --> <!-- maestro shout-1 answers 1001 -->",
}

// control are characters that change how a text looks.
const control = `[\x00-\x08\x0b-\x1f\x7f\x{202e}\x{2066}]`

// ours are the marks that only Maestro writes; actsAs is what a host or its bots would act on in a text of others.
var (
	ours   = regexp.MustCompile(`<!-- maestro(: this part is updated|: end| shout-1 answers \S+) -->`)
	actsAs = regexp.MustCompile(`(?m)^\s*/|@\w|#\d|!\d|GH-\d|<|[^\\]\]\(|://|www\.\w|[^\\]` + "`|" + control)
)

// harmless requires that a host shows a text that Maestro has written, and does nothing else with it.
func harmless(t *testing.T, text string) {
	t.Helper()
	text = ours.ReplaceAllString(text, "")
	text = strings.ReplaceAll(text, "`"+delivery.Mention+"`", "") // of the hint in the description
	require.NotRegexp(t, actsAs, text)
	require.Less(t, len(text), 60_000)
}

// TestHostileTexts has the same text in every field that others write, on both hosts.
func TestHostileTexts(t *testing.T) {
	t.Parallel()
	for host, serve := range map[string]func(*bench) forge{"github": newGitHubForge, "gitlab": newGitLabForge} {
		for name, text := range hostile {
			t.Run(host+"/"+name, func(t *testing.T) {
				t.Parallel()
				to := fixing(spec.MergeNever)
				to.Repository = shop
				b := newWork(t, to)
				f := serve(b)
				code := f.newHost()
				b.d.Host = func(string) (delivery.Host, error) { return code, nil }
				b.order.Checkpoint.Requirement = text
				b.does(1, text, "package main // 1\n")
				b.order.Checkpoint.Team.Name = text
				b.order.Checks = []string{text}
				b.waits("waits for the checks")
				title, body := f.texts()
				require.NotContains(t, title, "\n")
				require.LessOrEqual(t, len([]rune(title)), 90)
				harmless(t, body)
				require.Equal(t, 1, strings.Count(body, "<!-- maestro: end -->"))

				f.check("success")
				f.comment("ben", "@maestro "+text)
				f.line("ben", text)
				f.review("ben", false, text)
				b.waits("further comments")
				b.passes(2 * time.Minute)
				reasons := b.sendsBack()
				require.LessOrEqual(t, len(strings.Join(reasons, "\n")), session.MaxReasons)
				for _, reason := range reasons[:len(reasons)-1] {
					for i, line := range strings.Split(reason, "\n") {
						require.True(t, i == 0 || strings.HasPrefix(line, "> "), "%q", line)
						require.NotRegexp(t, control, line)
					}
				}
				_, _, _, before := f.seen()
				b.does(2, text, "package main // 2\n")
				b.waits("waits for the checks")
				_, open, merged, after := f.seen()
				require.True(t, open && !merged, "it is as it was")
				after = slices.DeleteFunc(after, func(text string) bool { return slices.Contains(before, text) })
				require.NotEmpty(t, after)
				for _, answer := range after {
					require.Contains(t, answer, "Done in")
					harmless(t, answer)
				}
				_, body = f.texts()
				harmless(t, body)
			})
		}
	}
}

// TestHostileNames: a name that the host gives reaches git as a name, or not at all.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	for _, base := range []string{"--upload-pack=touch x", "-", "main\nother", "a b", "refs/heads/main", "main:other", "\x1b[2J"} {
		b := newBench(t, fixing(spec.MergeAuto))
		b.order.Base = base
		_, failure := b.tries()
		require.NotNil(t, failure, base)
		require.NotRegexp(t, "[\x00-\x1f]", failure.Message)
		require.Empty(t, b.repo.Pulls())
	}
	for _, repository := range []string{"acme/shop\nx", "-acme/shop", "../shop", "acme/..", "acme/shop?x=1#y", "acme/shop/issues"} {
		b := newBench(t, fixing(spec.MergeAuto))
		b.order.Repository = repository
		_, failure := b.tries()
		require.NotNil(t, failure, repository)
		require.NotRegexp(t, "[\x00-\x1f]", failure.Message)
		require.Empty(t, b.repo.Pulls())
	}
}
