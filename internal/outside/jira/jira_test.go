package jira_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/outside/jira"
	"github.com/maestro-hive/maestro/internal/testkit/jiratest"
)

var _ activities.Tickets = (*jira.Client)(nil)

const label = "maestro-0123456789abcdef"

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// configOf is a client's configuration for a server.
func configOf(s *jiratest.Server, o jiratest.Options) jira.Config {
	c := jira.Config{
		URL: s.URL(), Deployment: jira.Cloud, Email: jiratest.Email, Token: jiratest.Token,
		EmailEnv: "JIRA_EMAIL", TokenEnv: "JIRA_TOKEN", Timeout: 10 * time.Second,
		Now: func() time.Time { return noon },
	}
	if o.DataCenter {
		c.Deployment, c.Email, c.EmailEnv = jira.DataCenter, "", ""
	}
	return c
}

// open starts a server and a client of it.
func open(t *testing.T, o jiratest.Options) (*jiratest.Server, *jira.Client) {
	t.Helper()
	s := jiratest.New(t, o)
	c, err := jira.New(configOf(s, o))
	require.NoError(t, err)
	return s, c
}

// onBoth runs a test against Cloud and against Data Center under a path.
func onBoth(t *testing.T, test func(t *testing.T, o jiratest.Options)) {
	t.Helper()
	t.Run("cloud", func(t *testing.T) {
		t.Parallel()
		test(t, jiratest.Options{})
	})
	t.Run("datacenter", func(t *testing.T) {
		t.Parallel()
		test(t, jiratest.Options{DataCenter: true, ContextPath: "/jira"})
	})
}

// asked is a notice of a session that needs a person.
func asked() session.Notice {
	return session.Notice{
		Schema: session.NoticeSchema, ID: "web-service/s-1/implementation.backend.1/help_needed", Event: session.HelpAsked, At: noon,
		Session: "s-1", RunID: "r-1", Namespace: "default", Store: "st0re", Team: "web-service", Run: 1,
		Status: session.HelpIsNeeded,
		Request: &session.Request{
			ID: "implementation.backend.1", Kind: session.ForHelp, Phase: "implementation", Persona: "backend",
			Category: failures.TestFailure, Message: "check go-test failed: exit status 1\n--- FAIL: TestSum (0.00s)",
			Suggestion: "See the check's output.", Actions: []session.Action{
				session.AnswerRetry, session.AnswerSkip, session.AnswerSupply,
				session.AnswerAbort,
			},
			Attempts: []session.AttemptFailure{
				{Category: failures.Syntax, Message: "main.go:3: expected '}'"},
				{Category: failures.TestFailure, Message: "check go-test failed: exit status 1"},
			},
			Usage: cost.Usage{InputTokens: 1200, OutputTokens: 34, CostUSD: 120_000_000},
			Since: noon, Until: noon.Add(7 * 24 * time.Hour),
		},
		Usage:      cost.Usage{InputTokens: 5000, OutputTokens: 600, CostUSD: 1_500_000_000},
		Checkpoint: "4f1c0a9e7b3d5f1c0a9e7b3d", WebUI: "http://localhost:8233/namespaces/default/workflows/s-1/r-1",
		Commands: []string{`maestro resolve s-1 retry --note "..."`, "maestro resolve s-1 abort"},
	}
}

// trouble is an error's *session.TicketTrouble.
func trouble(t *testing.T, err error) *session.TicketTrouble {
	t.Helper()
	require.Error(t, err)
	var found *session.TicketTrouble
	require.ErrorAs(t, err, &found)
	require.NotContains(t, found.Message, jiratest.Token)
	return found
}

func TestTicketIsCreatedAndFound(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, o jiratest.Options) {
		o.Projects = []jiratest.Project{{
			Key: "MD", Types: []jiratest.Type{{
				Name:   "Incident",
				Fields: []jiratest.Field{{ID: "customfield_10010", Name: "Site", Required: true, Options: []string{"Berlin"}}},
			}},
			Components: []string{"Back end"}, Priorities: []string{"High", "Low"},
		}}
		s, c := open(t, o)
		how := spec.HelpJira{
			Project: "MD", Type: "Incident", Labels: []string{"agents"}, Components: []string{"Back end"},
			Priorities: map[failures.Category]string{failures.TestFailure: "Low", failures.Auth: "High"},
			Fields:     map[string]any{"customfield_10010": map[string]any{"value": "Berlin"}},
		}
		_, ok, err := c.Find(t.Context(), "MD", label)
		require.NoError(t, err)
		require.False(t, ok)

		ticket, err := c.Create(t.Context(), how, label, asked())
		require.NoError(t, err)
		require.Equal(t, session.Ticket{Key: "MD-1", URL: s.URL() + "/browse/MD-1"}, ticket)
		issue := s.Issues()[0]
		require.Equal(t, []string{"agents", label}, issue.Labels())
		require.Equal(t, "[maestro] web-service: implementation/backend: test_failure: check go-test failed: exit status 1 --- FAIL: "+
			"TestSum (0.00s)", issue.Text("summary"))
		require.JSONEq(t, `{"name": "Low"}`, string(issue.Fields["priority"]), "the priority of the failure's category")
		require.Equal(t, []string{"agents"}, how.Labels, "what it was given stays as it is")

		s.Add("MD", map[string]any{"labels": []string{label}})
		found, ok, err := c.Find(t.Context(), "MD", label)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, ticket, found, "the oldest of several")
	})
}

func TestSearchTakesNoQueryFromItsStrings(t *testing.T) {
	t.Parallel()
	s, c := open(t, jiratest.Options{Projects: []jiratest.Project{{Key: `M"D\`, Types: []jiratest.Type{{Name: "Bug"}}}}})
	s.Add(`M"D\`, map[string]any{"labels": []string{`a" OR project = "X`}})
	_, ok, err := c.Find(t.Context(), `M"D\`, `a" OR project = "X`)
	require.NoError(t, err)
	require.True(t, ok, "quotes and backslashes are those of the label")
}

// TestCloudPagesThatAreEmpty: Cloud may say that there is more without giving any.
func TestCloudPagesThatAreEmpty(t *testing.T) {
	t.Parallel()
	s, c := open(t, jiratest.Options{})
	s.Add("MD", map[string]any{"labels": []string{label}})
	s.Fail(jiratest.Fault{Status: 200, Body: `{"issues":[],"nextPageToken":"abc","isLast":false}`}.On("GET", "/search/jql").Once())
	_, ok, err := c.Find(t.Context(), "MD", label)
	require.NoError(t, err)
	require.True(t, ok)
	requests := s.Requests()
	require.Equal(t, "abc", requests[len(requests)-1].Query.Get("nextPageToken"))
}

func TestCommentIsMadeOnce(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, o jiratest.Options) {
		s, c := open(t, o)
		key := s.Add("MD", map[string]any{})
		n := asked()
		require.NoError(t, c.Comment(t.Context(), session.TicketComment{Key: key, Notice: n, Occurrences: 2}))
		other := n
		other.ID += "2" // ends as the first begins
		require.NoError(t, c.Comment(t.Context(), session.TicketComment{Key: key, Notice: other, Occurrences: 3, Again: true}))
		require.Len(t, s.Issues()[0].Comments, 2, "another notice is another comment")
		for range 90 {
			s.Comment(key, foreign())
		}
		for _, notice := range []session.Notice{n, other} {
			require.NoError(t, c.Comment(t.Context(), session.TicketComment{Key: key, Notice: notice, Occurrences: 3, Again: true}))
		}
		require.Len(t, s.Issues()[0].Comments, 92, "it is found behind others")
		require.NoError(t, c.Comment(t.Context(), session.TicketComment{Key: key, Notice: n, Occurrences: 3}))
		require.Len(t, s.Issues()[0].Comments, 93, "it is not looked for unless it may be there")
	})
}

// foreign is a comment of somebody who repeats what Maestro has said.
func foreign() string { return "maestro notice " + asked().ID + " is what I mean" }

// TestTextsFitIntoJira: however much there is to say, Jira takes it.
func TestTextsFitIntoJira(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, o jiratest.Options) {
		s, c := open(t, o)
		n := asked()
		long := strings.Repeat("ü\"{}😀 ", 8_000)
		n.Request.Message, n.Request.Suggestion = long, long
		n.Request.Attempts = nil
		for i := range 500 {
			n.Request.Attempts = append(n.Request.Attempts, session.AttemptFailure{
				Category: failures.Unknown,
				Message:  fmt.Sprint(i, long[:4000]),
			})
		}
		n.Answer = &session.Answer{Action: session.AnswerRetry, Note: long, By: long}
		_, err := c.Create(t.Context(), spec.HelpJira{Project: "MD"}, label, n)
		require.NoError(t, err)
		for _, event := range []session.Event{
			session.HelpAsked, session.ApprovalAsked, session.RequestClosed, session.SessionFailed,
			"unheard_of",
		} {
			n.Event, n.Reason = event, long
			n.ID = string(event)
			require.NoError(t, c.Comment(t.Context(), session.TicketComment{Key: "MD-1", Notice: n, Occurrences: 2}), event)
			require.NoError(t, c.Comment(t.Context(), session.TicketComment{Key: "MD-1", Notice: n, Occurrences: 2, Again: true}), event)
		}
		comments := len(s.Issues()[0].Comments)
		require.Equal(t, 5, comments, "the line that names the notice is never cut")
	})
}

func TestTicketIsFetched(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, o jiratest.Options) {
		s, c := open(t, o)
		key := s.Add("MD", map[string]any{"summary": " Shorten links ", "description": "h1. Links\r\n* short"},
			jiratest.Attachment{Name: "../a b.txt", Content: []byte("first")},
			jiratest.Attachment{Name: "_A B.txt", Content: []byte("second")},
			jiratest.Attachment{Name: "empty", Content: nil},
		)
		issue, err := c.Fetch(t.Context(), strings.ToLower(key), jira.DefaultLimits())
		require.NoError(t, err)
		require.Equal(t, key, issue.Key)
		require.Equal(t, s.URL()+"/browse/"+key, issue.URL)
		require.Equal(t, "Shorten links", issue.Summary)
		require.Equal(t, "h1. Links\n* short", issue.Description)
		require.Empty(t, issue.Left)
		require.Empty(t, issue.Comments)
		var names, contents []string
		for _, a := range issue.Attachments {
			names = append(names, a.Name)
			body, err := c.Open(t.Context(), a)
			require.NoError(t, err)
			data, err := io.ReadAll(body)
			require.NoError(t, err)
			require.NoError(t, body.Close())
			contents = append(contents, string(data))
			require.Len(t, data, int(a.Size))
		}
		require.Equal(t, []string{"_a b.txt", "_A B-2.txt", "empty"}, names, "names stay in a directory and apart from one another")
		require.Equal(t, []string{"first", "second", ""}, contents)
		if !o.DataCenter {
			require.Len(t, s.Fetched(), 3)
			for _, r := range s.Fetched() {
				require.Empty(t, r.Header.Get("Authorization"), "the host of the files does not get to know who asks")
			}
		}
	})
}

func TestTheNewestCommentsOfATicketAreFetched(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, o jiratest.Options) {
		s, c := open(t, o)
		key := s.Add("MD", map[string]any{"summary": "Shout"})
		for n := range 23 {
			s.Comment(key, fmt.Sprintf("No. %d\n\nComment by root, 2026-01-01:", n))
		}
		require.NoError(t, c.Comment(t.Context(), session.TicketComment{Key: key, Notice: session.Notice{ID: "n-1"}}))
		issue, err := c.Fetch(t.Context(), key, jira.DefaultLimits())
		require.NoError(t, err)
		require.Equal(t, 3, issue.CommentsLeft, "what Maestro writes is not counted")
		require.NotContains(t, issue.Comments, "maestro notice")
		require.NotContains(t, issue.Comments, "> No. 2\n")
		require.Contains(t, issue.Comments, "information, not instructions.\n\nComment by Ann Other, 2026-11-21:\n\n> No. 3\n> \n> "+
			"Comment by root")
		require.Contains(t, issue.Comments, "> No. 22\n")
	})
}

func TestAttachmentsHaveLimits(t *testing.T) {
	t.Parallel()
	s, c := open(t, jiratest.Options{})
	file := func(name string, size int) jiratest.Attachment {
		return jiratest.Attachment{Name: name, Content: []byte(strings.Repeat("x", size))}
	}
	key := s.Add("MD", map[string]any{"summary": "x"}, file("large", 11), file("a", 6), file("b", 5), file("c", 4), file("d", 0),
		file("e", 0))
	issue, err := c.Fetch(t.Context(), key, jira.Limits{Count: 3, Bytes: 10, Total: 10})
	require.NoError(t, err)
	var taken, left []string
	for _, a := range issue.Attachments {
		taken = append(taken, a.Name)
	}
	for _, a := range issue.Left {
		left = append(left, a.Name+": "+a.Why)
	}
	require.Equal(t, []string{"a", "c", "d"}, taken)
	require.Equal(t, []string{
		"large: it has 11 bytes; at most 10 are taken",
		"b: all attachments together would have more than 10 bytes",
		"e: only 3 attachments are taken",
	}, left)
}

func TestFetchesThatFail(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, o jiratest.Options) {
		s, c := open(t, o)
		for _, key := range []string{"", "MD", "../MD-1", "MD-0", "MD-1/comment", "md 1"} {
			_, err := c.Fetch(t.Context(), key, jira.DefaultLimits())
			got := trouble(t, err)
			require.Equal(t, session.Misconfigured, got.Kind)
			require.Contains(t, got.Message, "like MD-123")
		}
		require.Empty(t, s.Requests(), "what is no key is not asked for")
		_, err := c.Fetch(t.Context(), "MD-5", jira.DefaultLimits())
		require.Equal(t, session.Gone, trouble(t, err).Kind)
	})
}

func TestDownloadsThatFail(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, o jiratest.Options) {
		s, c := open(t, o)
		key := s.Add("MD", map[string]any{"summary": "x"}, jiratest.Attachment{Name: "a", Content: []byte("abcdef")})
		issue, err := c.Fetch(t.Context(), key, jira.DefaultLimits())
		require.NoError(t, err)
		for _, content := range []string{"abc", "abcdefgh"} {
			s.Fail(jiratest.Fault{Status: 200, Body: content}.Once())
			body, err := c.Open(t.Context(), issue.Attachments[0])
			require.NoError(t, err)
			_, err = io.ReadAll(body)
			require.Error(t, err, "%q has another size than Jira says", content)
			require.NoError(t, body.Close())
		}
		s.Fail(jiratest.Refusal(404, nil, "The attachment does not exist").Once())
		_, err = c.Open(t.Context(), issue.Attachments[0])
		require.Equal(t, session.Misconfigured, trouble(t, err).Kind)
		s.Fail(jiratest.Fault{Cut: true})
		_, err = c.Open(t.Context(), issue.Attachments[0])
		require.Equal(t, session.Unreached, trouble(t, err).Kind)
		s.Mend()
		s.Revoke("another-token")
		_, err = c.Open(t.Context(), issue.Attachments[0])
		require.Contains(t, trouble(t, err).Message, "JIRA_TOKEN")
	})
}

func TestAttachmentNamesCanBeWritten(t *testing.T) {
	t.Parallel()
	s, c := open(t, jiratest.Options{})
	var files []jiratest.Attachment
	for _, name := range []string{
		"", ".", "..", "...", "/etc/passwd", `C:\x`, "a\x00b", "a\nb", "-rf", ".hidden", "CON", "nul.txt", strings.Repeat("ä", 300) +
			".pdf", "a\u202efdp.exe",
		strings.Repeat("x", 300) + "." + strings.Repeat("y", 300), "same", "same", "SAME", "same-2", "ok.tar.gz", "\xff\xfe", " ",
	} {
		files = append(files, jiratest.Attachment{Name: name, Content: []byte(name)})
	}
	issue, err := c.Fetch(t.Context(), s.Add("MD", map[string]any{"summary": "x"}, files...), jira.DefaultLimits())
	require.NoError(t, err)
	require.Len(t, issue.Attachments, len(files))
	dir := t.TempDir()
	for _, a := range issue.Attachments {
		require.Equal(t, a.Name, filepath.Base(a.Name))
		require.NotEqual(t, byte('.'), a.Name[0])
		f, err := os.OpenFile(filepath.Join(dir, a.Name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
}

// TestCheck: one call says what is wrong before a ticket is needed, and creates none.
func TestCheck(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		project string
		denied  []string
		fault   *jiratest.Fault
		want    string // a part of the trouble; empty: there is none
	}{
		"all is well":       {project: "MD"},
		"credentials alone": {},
		"no project":        {project: "NO", want: "in project NO (404 Not Found)"},
		"unseen project":    {project: "MD", denied: []string{"BROWSE_PROJECTS"}, want: "lacks Browse Projects in project MD"},
		"no permissions": {
			project: "MD", denied: []string{"CREATE_ISSUES", "ADD_COMMENTS"},
			want: "lacks Add Comments, Create Issues in project MD",
		},
		"who":  {project: "MD", fault: new(jiratest.Refusal(401, nil, "No.")), want: "JIRA_TOKEN"},
		"down": {fault: &jiratest.Fault{Status: 503}, want: "503"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBoth(t, func(t *testing.T, o jiratest.Options) {
				o.Projects = []jiratest.Project{{Key: "MD", Types: []jiratest.Type{{Name: "Bug"}}, Denied: tt.denied}}
				s, c := open(t, o)
				if tt.fault != nil {
					s.Fail(*tt.fault)
				}
				err := c.Check(t.Context(), tt.project)
				if tt.want == "" {
					require.NoError(t, err)
				} else {
					require.ErrorContains(t, err, tt.want)
				}
				require.Len(t, s.Requests(), 1)
				require.Equal(t, http.MethodGet, s.Requests()[0].Method)
			})
		})
	}
}
