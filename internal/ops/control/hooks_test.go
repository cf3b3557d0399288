package control_test

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/delivery"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/state"
	"github.com/maestro-hive/maestro/internal/store/state/statetest"
	"github.com/maestro-hive/maestro/internal/testkit/temporalfake"
	"github.com/maestro-hive/maestro/workflows"
)

// TestAWorkspaceThatIsGone is the server's, not the caller's: nothing starts, and health names it.
func TestAWorkspaceThatIsGone(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	dir := filepath.Join(t.TempDir(), "site")
	s.Directories = []control.Directory{{
		Name:   "site",
		Source: func(context.Context) session.Source { return session.Source{Dir: dir} },
	}}
	crew := team()
	start := func() error {
		_, err := control.Starts{Base: s.Base}.Preview(s.ctx, control.NewSession{
			Team:      control.TeamInput{Loaded: &crew},
			Directory: "site",
		})
		return err
	}
	s.Examiner = func(context.Context, *store.Store, *temporalutil.Connection, func() time.Time) ([]control.Finding, error) {
		return nil, nil
	}
	failed := start()
	require.Equal(t, control.Unavailable, kind(failed))
	require.Equal(t, "directory site of this server cannot be read: no such file or directory; bring it back, or start the server "+
		"with --workspace site=DIR", failed.Error())
	found, err := control.Health{Base: s.Base}.Examine(s.ctx, control.ExamineInput{Again: true})
	require.NoError(t, err)
	require.Len(t, found.Findings, 1)
	require.Equal(t, "workspace site", found.Findings[0].Check)
	require.Contains(t, found.Findings[0].Message, dir+" cannot be read: no such file or directory")
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, start())
}

func TestTheNewestSessionOfAHookIsOfItsTeam(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	for i, name := range []string{"first", "second", "other"} {
		started := time.Unix(int64(1000+i), 0)
		statetest.Put(t, s.Store.State, session.Key{Namespace: "default", Session: name}, func(e *session.Execution) {
			e.Team, e.StartedAt, e.Labels = map[string]string{"other": "api"}[name], &started, map[string]string{"hook": "tickets"}
			if e.Team == "" {
				e.Team = "web"
			}
		})
	}
	of := []access.Hook{{Name: "tickets", Team: "web"}, {Name: "unused", Team: "web"}}
	newest, err := control.Hooks{Base: s.Base}.Newest(s.ctx, of)
	require.NoError(t, err)
	require.Len(t, newest, 1)
	require.Equal(t, "second", newest["tickets"].Session)
	stranger := access.With(t.Context(), access.Actor{Name: "eve", Roles: access.Roles{"api": {access.RoleAdmin}}})
	newest, err = control.Hooks{Base: s.Base}.Newest(stranger, of)
	require.NoError(t, err)
	require.Empty(t, newest)
}

// post is a shelf with a hook of team craft, to which GitHub sends events.
type post struct {
	*shelf
	temporal *temporalfake.Temporal
	receiver *control.Receiver
	secret   string
}

func newPost(t *testing.T) *post {
	t.Helper()
	p := &post{shelf: newShelf(t), temporal: temporalfake.New()}
	p.Temporal = control.Connected(p.temporal.Connection())
	_, err := control.Teams{Base: p.Base}.Register(p.ctx, control.Registration{Text: `
version: 1
name: craft
personas: {ann: {role: Writer, agent: coder, instructions: "Write."}}
phases: [{name: build, personas: [ann]}]
`})
	require.NoError(t, err)
	require.NoError(t, p.Store.State.PutOffer(t.Context(), spec.Offer{
		Worker: "w", Agents: map[string]spec.OfferedAgent{"coder": {Kind: "command"}}, StartedAt: time.Now(), RenewedAt: time.Now(),
	}))
	made, err := control.Hooks{Base: p.Base}.Add(p.ctx, control.NewHook{Name: "gh", Kind: access.HookGitHub, Team: "craft"})
	require.NoError(t, err)
	p.secret, p.receiver = made.Secret, control.NewReceiver(p.Base)
	return p
}

// send sends an event of the repository octo/site.
func (p *post) send(event, body string) (control.Delivered, bool, error) {
	body = `{"sender": {"login": "ann", "type": "User"}, "repository": {"full_name": "octo/site"}, ` + body[1:]
	mac := hmac.New(sha256.New, []byte(p.secret))
	mac.Write([]byte(body))
	header := http.Header{
		"X-Github-Event": {event}, "X-Hub-Signature-256": {"sha256=" + hex.EncodeToString(mac.Sum(nil))},
	}
	d, err := p.receiver.Verify(p.ctx, "gh", header, []byte(body))
	if err != nil {
		return control.Delivered{}, false, err
	}
	return p.receiver.Deliver(access.With(p.t.Context(), d.Actor()), d)
}

// delivers puts a session into store and Temporal that delivers by a pull request, of octo/site if it says nothing else.
func (p *post) delivers(id, team string, in enumspb.WorkflowExecutionStatus, pull session.PullRequest) {
	p.t.Helper()
	pull.Repository = cmp.Or(pull.Repository, "octo/site")
	key := session.Key{Namespace: "default", Session: id}
	statetest.Put(p.t, p.Store.State, key, func(e *session.Execution) { e.Team, e.Status.Status = team, session.Running })
	require.NoError(p.t, p.Store.State.PutDelivery(p.t.Context(), state.Fence{Run: 1}, "delivery", state.Delivery{
		Key: key, Phase: "ship", Record: delivery.Record{PullRequest: pull, Branch: delivery.Branch(id)},
	}))
	p.temporal.Put(id, in, time.Now(), nil)
}

func TestEventsWakeTheSessionOfTheirPullRequest(t *testing.T) {
	t.Parallel()
	const running, ended = enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED
	p := newPost(t)
	p.delivers("one", "craft", running, session.PullRequest{Number: 12, State: session.PullOpen})
	p.delivers("unopened", "craft", running, session.PullRequest{})
	p.delivers("closed", "craft", running, session.PullRequest{Number: 13, State: session.PullClosed})
	p.delivers("merged", "craft", running, session.PullRequest{Number: 14, State: session.PullMerged})
	p.delivers("over", "craft", ended, session.PullRequest{Number: 15, State: session.PullOpen})
	p.delivers("others", "api", running, session.PullRequest{Number: 16, State: session.PullOpen})
	pull := func(number int) string {
		return fmt.Sprintf(`{"action": "closed", "pull_request": {"number": %d, "head": {"ref": "x"}}}`, number)
	}
	said := `{"action": "created", "issue": {"number": %d, "title": "x", "pull_request": {}}, "comment": {"id": 5, "body": "@maestro go"}}`
	for name, c := range map[string]struct{ event, body, woken, why string }{
		"by its number":            {"pull_request", pull(12), "one", ""},
		"a comment":                {"issue_comment", fmt.Sprintf(said, 12), "one", ""},
		"a comment of no session":  {"issue_comment", fmt.Sprintf(said, 99), "", "it is a pull request"},
		"by its branch":            {"push", `{"ref": "refs/heads/maestro/one"}`, "one", ""},
		"not open yet":             {"push", `{"ref": "refs/heads/maestro/unopened"}`, "unopened", ""},
		"closed, to be reopened":   {"pull_request", pull(13), "closed", ""},
		"merged":                   {"pull_request", pull(14), "", "it is a pull request"},
		"merged, by its branch":    {"push", `{"ref": "refs/heads/maestro/merged"}`, "", "no session of the hook's team"},
		"the session has ended":    {"pull_request", pull(15), "", "session over has ended"},
		"another team's":           {"pull_request", pull(16), "", "it is a pull request"},
		"another team's branch":    {"push", `{"ref": "refs/heads/maestro/others"}`, "", "no session of the hook's team"},
		"a branch of no session":   {"push", `{"ref": "refs/heads/maestro/nobody"}`, "", "no session of the hook's team"},
		"a branch of another form": {"push", `{"ref": "refs/heads/maestro/../one"}`, "", "no session of the hook's team"},
	} {
		doc, again, err := p.send(c.event, c.body)
		require.NoError(t, err, name)
		require.False(t, again, name)
		require.Equal(t, c.woken, doc.Woken, name)
		require.Empty(t, doc.Session, name)
		if c.woken == "" {
			require.Contains(t, doc.Ignored, c.why, name)
			require.Empty(t, p.temporal.Sent(), name)
			continue
		}
		text, err := json.Marshal(doc)
		require.NoError(t, err)
		require.JSONEq(t, `{"hook": "gh", "woken": "`+c.woken+`"}`, string(text), name)
		require.Equal(t, []temporalfake.Message{{
			Session: c.woken, Name: workflows.PullRequestSignal, Content: workflows.PullRequestNews{Phase: "ship"},
		}}, p.temporal.Sent(), name)
	}
	require.Empty(t, p.temporal.Started())

	// Another repository has a branch of this name, too.
	p.delivers("forked", "craft", running, session.PullRequest{Repository: "octo/other"})
	doc, _, err := p.send("push", `{"ref": "refs/heads/maestro/forked"}`)
	require.NoError(t, err)
	require.Contains(t, doc.Ignored, "no session of the hook's team")
	require.Empty(t, p.temporal.Sent())

	p.Temporal = nil
	_, _, err = p.send("pull_request", pull(12))
	require.Equal(t, control.Unavailable, control.ProblemOf(err).Kind, "GitHub shows that it was not delivered")
}

// TestOneSessionWorksOnAnIssue at a time, and the same event never starts another one.
func TestOneSessionWorksOnAnIssue(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	const issue = `"issue": {"number": 7, "title": "Prices", "user": {"login": "eve", "type": "User"}, "author_association": "NONE"}`
	labeled := `{"action": "labeled", "label": {"name": "maestro"}, ` + issue + `}`
	comment := func(id int) string {
		return fmt.Sprintf(`{"action": "created", %s, "comment": {"id": %d, "body": "@maestro go",
			"user": {"login": "ann", "type": "User"}, "author_association": "MEMBER"}}`, issue, id)
	}
	send := func(event, body string) (control.Delivered, bool) {
		doc, again, err := p.send(event, body)
		require.NoError(t, err)
		return doc, again
	}

	// Comments at once start one session.
	var wg sync.WaitGroup
	for id := range 8 {
		wg.Go(func() {
			doc, again, err := p.send("issue_comment", comment(1+id/2))
			if assert.NoError(t, err) && doc.Ignored != "" {
				assert.Contains(t, doc.Ignored, "works on this issue")
			} else {
				assert.True(t, again || doc.Session != "")
			}
		})
	}
	wg.Wait()
	started := p.temporal.Started()
	require.Len(t, started, 1)
	first := started[0].Session
	doc, again := send("issues", labeled)
	require.True(t, again)
	require.Equal(t, first, doc.Session, "the label is about the same issue")
	doc, _ = send("issue_comment", comment(9))
	require.Equal(t, control.Delivered{Hook: "gh", Ignored: "session " + first + " works on this issue, and has not ended"}, doc)

	// It delivers: a comment wakes it.
	p.delivers(first, "craft", enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, session.PullRequest{Number: 12, State: session.PullOpen})
	doc, _ = send("issue_comment", comment(9))
	require.Equal(t, control.Delivered{Hook: "gh", Woken: first}, doc)

	// It has ended: a comment starts the next one, once.
	p.temporal.End(first)
	doc, again = send("issue_comment", comment(10))
	require.False(t, again)
	started = p.temporal.Started()
	require.Len(t, started, 1)
	second := started[0].Session
	require.Equal(t, second, doc.Session)
	doc, again = send("issue_comment", comment(10))
	require.True(t, again)
	require.Equal(t, second, doc.Session)
	p.temporal.End(second)
	doc, again = send("issue_comment", comment(10))
	require.True(t, again, "also long after")
	require.Equal(t, second, doc.Session)
	doc, again = send("issues", labeled)
	require.True(t, again)
	require.Equal(t, first, doc.Session)
	require.Empty(t, p.temporal.Started())

	// Temporal has forgotten both; the store has them.
	for _, id := range []string{first, second} {
		statetest.Put(t, p.Store.State, session.Key{Namespace: "default", Session: id}, func(e *session.Execution) {
			e.Team, e.Status.Status = "craft", session.Completed
		})
		p.temporal.Forget(id)
	}
	_, _ = send("issue_comment", comment(11))
	third := p.temporal.Started()
	require.Len(t, third, 1)
	require.NotContains(t, []string{first, second}, third[0].Session)
}
