package jira

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/testkit/golden"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// notice is one whose texts try to be markup.
func notice(event session.Event) session.Notice {
	n := session.Notice{
		ID: "s-1/implementation.backend.1", Event: event, At: noon,
		Session: "s-1", RunID: "r-1", Namespace: "default", Store: "st0re", Team: "web-service", Run: 2, Status: session.HelpIsNeeded,
		Request: &session.Request{
			ID: "implementation.backend.1", Kind: session.ForHelp, Phase: "implementation", Persona: "backend",
			Category:   failures.TestFailure,
			Message:    "check failed:\n{noformat}\n[~admin] !http://x/y.png! {color:red}*now*{color}",
			Suggestion: "Ask [~admin], see {code}x{code} | *bold* & &#123;macro}",
			Actions:    []session.Action{session.AnswerRetry, session.AnswerAbort},
			Attempts: []session.AttemptFailure{
				{Category: failures.Syntax, Message: "main.go:3: expected '}' in a[i] \\ b"},
				{Category: failures.TestFailure, Message: "h1. not a title\n----\n* no list"},
			},
			Usage: cost.Usage{InputTokens: 1200, OutputTokens: 34, CostUSD: 120_000_000},
			Since: noon, Until: noon.Add(7 * 24 * time.Hour),
		},
		Answer: &session.Answer{
			Request: "implementation.backend.1", Action: session.AnswerRetry, Note: "The port is 8081, not {8080}.", By: "Ada [~x]",
			Phase: "implementation", Persona: "backend", At: noon.Add(time.Hour),
		},
		Usage: cost.Usage{InputTokens: 5000, OutputTokens: 600, CostUSD: 1_500_000_000}, Checkpoint: "4f1c0a9e7b3d5f1c0a9e7b3d",
		Where:    "--address temporal:7233 --namespace default --state-dir /var/maestro/state, as seen from build-1",
		WebUI:    "http://localhost:8233/namespaces/default/workflows/s-1/r-1",
		Commands: []string{`maestro resolve s-1 retry --note "..."`, "maestro resolve s-1 abort"},
	}
	switch event { //nolint:exhaustive // The others are told of with all that there is.
	case session.SessionFailed:
		n.Request, n.Status, n.Reason = nil, session.Failed, "HelpNeeded: nobody answered"
		n.Commands = []string{"maestro resume s-1", "maestro status s-1"}
	case session.ApprovalAsked:
		n.Request.Kind, n.Request.Persona, n.Request.Category, n.Request.Attempts = session.ForApproval, "", "", nil
		n.Request.Actions = []session.Action{session.AnswerApprove, session.AnswerReject}
		n.PullRequests = []string{"https://git.example/acme/web/pull/7|!x!"}
	}
	return n
}

// TestTexts: what a ticket and comments of every kind say.
func TestTexts(t *testing.T) {
	t.Parallel()
	for name, got := range map[string]string{
		"ticket":         description(notice(session.HelpAsked)),
		"recurrence":     comment(session.TicketComment{Notice: notice(session.HelpAsked), Occurrences: 3}),
		"approval":       comment(session.TicketComment{Notice: notice(session.ApprovalAsked)}),
		"request_closed": comment(session.TicketComment{Notice: notice(session.RequestClosed), Occurrences: 1}),
		"failed":         comment(session.TicketComment{Notice: notice(session.SessionFailed), Omitted: 4}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			golden.Compare(t, "testdata/"+name+".wiki", got+"\n")
		})
	}
}

// TestTheLongestCommentFits: one of more than maxText bytes would lose the line by which it is recognised.
func TestTheLongestCommentFits(t *testing.T) {
	t.Parallel()
	n := notice(session.HelpAsked)
	long := strings.Repeat(`\`, 10_000)
	n.Request.Message, n.Request.Suggestion, n.Reason, n.Commands = long, long, long, []string{long}
	n.Request.Attempts = slices.Repeat([]session.AttemptFailure{{Message: long}}, 100)
	n.PullRequests = slices.Repeat([]string{long[:maxLine], long}, 100)
	got := comment(session.TicketComment{Notice: n, Occurrences: 2, Omitted: 4})
	require.LessOrEqual(t, len(got), maxText)
	require.True(t, isComment(got, n.ID))
	require.Contains(t, got, "the first 88 are omitted")
}

func TestSummaries(t *testing.T) {
	t.Parallel()
	long := session.Notice{Team: "web", Request: &session.Request{
		Phase: "build", Persona: "dev", Category: failures.Timeout,
		Message: strings.Repeat("😀", 300),
	}}
	require.LessOrEqual(t, len(summary(long)), 255)
	require.True(t, strings.HasSuffix(summary(long), "😀…"), summary(long))
	for want, n := range map[string]session.Notice{
		"[maestro] web: build/dev: timeout: too slow": {Team: "web", Request: &session.Request{
			Phase: "build", Persona: "dev",
			Category: failures.Timeout, Message: "too\n\tslow\r\n",
		}},
		"[maestro] web: build: Is it good?": {
			Team:    "web",
			Request: &session.Request{Phase: "build", Message: "Is it good?"},
		},
		"[maestro] web: session s-1: failed: nobody has come.": {
			Team: "web", Session: "s-1", Status: session.Failed,
			Reason: "nobody has come.",
		},
	} {
		require.Equal(t, want, summary(n))
	}
}

// unescapedMarks finds what a renderer of wiki markup would act on.
var unescapedMarks = regexp.MustCompile(`(^|[^\\])[{}\[\]()*_+^~?|!#]|(^|[^\\\pL\pN])[-:]|[\pL\pN][-:]($|[^\pL\pN ])|[\pL\pN]- |\\\\|\n`)

func FuzzWikiEscape(f *testing.F) {
	for _, seed := range []string{
		"{code}", `\{code}`, `\\`, "[~user]", "!x.png!", "h1. x", " bq. x", "a&#123;b", "&amp;", "----",
		"||a||", "😀\x00\xff\u202e",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := wikiEscape(text)
		// An entity's own characters are not the text's.
		bare := regexp.MustCompile(`&#(92|46);`).ReplaceAllString(got, "E")
		require.NotRegexp(t, unescapedMarks, bare, "of %q", text)
		require.NotRegexp(t, `^\s*(h[0-9]|bq)\.`, got)
		require.Equal(t, breaksAsSpaces(safetext.Block(text)), wikiUnescape(got), "nothing is lost")

		inside := wikiVerbatim(text)
		require.NotContains(t, strings.ToLower(inside), "{noformat")
	})
}

// wikiUnescape is what a reader of escaped text sees.
func wikiUnescape(text string) string {
	text = regexp.MustCompile(`\\([^a-zA-Z0-9\s])`).ReplaceAllString(text, "$1")
	return strings.NewReplacer("&#92;", `\`, "&#46;", ".", "&amp;", "&").Replace(text)
}
