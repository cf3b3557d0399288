package hook_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/ops/hook"
	"github.com/maestro-hive/maestro/internal/testkit/hooktest"
)

type fields = map[string]any

// user is a user of GitHub as events have one.
func user(login, kind string) fields {
	return fields{"login": login, "id": len(login), "type": kind, "site_admin": false, "html_url": "https://github.example/" + login}
}

// event is an event in GitHub's shape: "stranger" opened the issue, and "maria", a member, sends it.
func event(action string, change func(e, issue fields)) fields {
	issue := fields{
		"id": 301, "number": 7, "title": "Prices", "body": "Add a page on prices.", "state": "open", "locked": false, "comments": 0,
		"user": user("stranger", "User"), "author_association": "NONE",
		"labels":     []any{fields{"id": 9, "name": "maestro", "color": "ededed"}},
		"created_at": "2026-11-20T10:00:00Z", "updated_at": "2026-11-23T10:00:00Z", "pull_request": nil,
	}
	e := fields{
		"action": action, "issue": issue, "sender": user("maria", "User"),
		"repository": fields{
			"id": 1, "name": "site", "full_name": "octo/site", "private": false,
			"owner": user("octo", "Organization"),
		},
	}
	if change != nil {
		change(e, issue)
	}
	return e
}

// comment is an event of a comment by somebody.
func comment(action, text, login, kind, association string) fields {
	return event(action, func(e, _ fields) {
		e["comment"] = fields{
			"id": 5, "body": text, "user": user(login, kind), "author_association": association,
			"created_at": "2026-11-23T10:00:00Z",
		}
		e["sender"] = user(login, kind)
	})
}

func labeled(change func(e, issue fields)) fields {
	return event("labeled", func(e, issue fields) {
		e["label"] = fields{"id": 9, "name": "Maestro", "color": "ededed"}
		if change != nil {
			change(e, issue)
		}
	})
}

func github(on ...string) access.Hook {
	return hook.Complete(access.Hook{
		Name: "gh", Kind: access.HookGitHub, Team: "web", On: on,
		Labels: map[string]string{"from": "github"},
	})
}

func read(t *testing.T, h access.Hook, name string, e fields) hook.Call {
	t.Helper()
	body, err := json.Marshal(e)
	require.NoError(t, err)
	c, err := hook.Read(h, http.Header{"X-Github-Event": {name}}, body)
	require.NoError(t, err)
	return c
}

func TestEventsOfGitHub(t *testing.T) {
	t.Parallel()
	opened := github("issues.opened")
	own := func(association, kind string) func(e, issue fields) {
		return func(e, issue fields) {
			issue["author_association"], e["sender"], issue["user"] = association, user("stranger", kind), user("stranger", kind)
		}
	}
	said := func(text string) fields { return comment("created", text, "maria", "User", "MEMBER") }
	const issue = "Prices\n\nAdd a page on prices."
	for name, c := range map[string]struct {
		h    access.Hook
		body fields
		// starts is the requirement; empty: the event is ignored, with a reason that has the words of why.
		starts, why string
	}{
		"a member labels a stranger's issue": {github(), labeled(nil), issue, ""},
		"another label":                      {github("issues.labeled:agent"), labeled(nil), "", "this label"},
		"a bot labels": {
			github(), labeled(func(e, _ fields) { e["sender"] = user("labeler[bot]", "Bot") }), "", "a bot",
		},
		"nobody sends a label": {github(), labeled(func(e, _ fields) { delete(e, "sender") }), "", "a bot"},
		"a pull request is labeled": {
			github(), labeled(func(_, issue fields) { issue["pull_request"] = fields{"url": "x"} }), "", "pull request",
		},
		"an issue without a text": {github(), labeled(func(_, issue fields) { issue["body"] = nil }), "Prices", ""},
		"opened, not by default":  {github(), event("opened", own("OWNER", "User")), "", "every new issue"},
		"opened by a bot":         {opened, event("opened", own("MEMBER", "Bot")), "", "a bot"},
		"edited":                  {opened, event("edited", own("OWNER", "User")), "", "only issues that are opened"},
		"a member's command":      {github(), said("@maestro\nUse euros."), issue + "\n\nUse euros.", ""},
		"another command":         {github("issue_comment.created:/build"), said("@maestro"), "", "does not begin"},
		"a bot's command":         {github(), comment("created", "@maestro do it", "x[bot]", "Bot", "MEMBER"), "", "a bot"},
		"a quoted command":        {github(), said("> @maestro do it"), "", "does not begin"},
		"a word after a colon":    {github(), said("@maestro: use euros."), issue + "\n\nuse euros.", ""},
		"a longer word":           {github(), said("@maestros do it"), "", "does not begin"},
		"an edited comment": {
			github(), comment("edited", "@maestro do it", "maria", "User", "MEMBER"), "", "only new comments",
		},
		"a push": {github(), fields{"ref": "refs/heads/main", "sender": user("maria", "User")}, "", "about no issue"},
		"a comment on a discussion": {
			github(), fields{"action": "created", "discussion": fields{}, "comment": fields{"body": "@maestro"}}, "", "about no issue",
		},
		"a comment on a pull request": {github(), event("created", func(e, issue fields) {
			e["comment"] = fields{"body": "@maestro", "user": user("maria", "User"), "author_association": "MEMBER"}
			issue["pull_request"] = fields{"url": "x"}
		}), "", "pull request"},
	} {
		kind := "issues"
		if c.body["comment"] != nil {
			kind = "issue_comment"
		} else if c.body["ref"] != nil {
			kind = "push"
		}
		got := read(t, c.h, kind, c.body)
		if c.starts == "" {
			require.Nil(t, got.Start, name)
			require.Contains(t, got.Ignored, c.why, name)
			continue
		}
		require.NotNil(t, got.Start, "%s: %s", name, got.Ignored)
		require.Equal(t, c.starts, got.Start.Requirement, name)
		require.Equal(t, "issue octo/site#7", got.Start.Subject, name)
		labels := map[string]string{"hook": "gh", "from": "github", "repository": "octo/site", "issue": "7"}
		if kind == "issue_comment" {
			labels["comment"] = "5"
		}
		require.Equal(t, labels, got.Start.Labels, name)
		require.NoError(t, session.CheckLabels(got.Start.Labels), name)
	}
	for association, may := range map[string]bool{
		"OWNER": true, "MEMBER": true, "COLLABORATOR": true, "CONTRIBUTOR": false, "FIRST_TIME_CONTRIBUTOR": false, "NONE": false,
	} {
		for name, got := range map[string]hook.Call{
			"labels the own issue": read(t, github(), "issues", labeled(own(association, "User"))),
			"opens one":            read(t, opened, "issues", event("opened", own(association, "User"))),
			"commands":             read(t, github(), "issue_comment", comment("created", "@maestro go", "eve", "User", association)),
		} {
			require.Equal(t, may, got.Start != nil, "%s %s", association, name)
			require.Equal(t, may, got.Ignored == "", "%s %s", association, name)
		}
	}
	ping := read(t, github(), "ping", fields{"zen": "Speak like a human.", "hook_id": 1, "sender": user("maria", "User")})
	require.Equal(t, hook.Call{}, ping)
}

func TestTextsOfGenericCalls(t *testing.T) {
	t.Parallel()
	h := access.Hook{Name: "t", Kind: access.HookGeneric, Map: map[string]string{
		"requirement": "/items/1/a~1b", "decision.shape": "/m~0n", "label.ticket": "/key",
	}}
	got, err := hook.Read(h, nil, []byte(`{"items": [0, {"a/b": "Build \"it\".\n"}], "m~n": "round", "key": "WEB-7"}`))
	require.NoError(t, err)
	require.Equal(t, &hook.Start{
		Requirement: "Build \"it\".\n", Decisions: map[string]string{"shape": "round"},
		Labels: map[string]string{"hook": "t", "ticket": "WEB-7"},
	}, got.Start)
	long := strings.Repeat("x", 5000)
	for body, pointer := range map[string]string{
		`{"items": [0, {"a/b": "x"}], "m~n": "round"}`:                               "/key",
		`{"items": [0, {"a/b": "x"}], "m~n": "round", "key": 7}`:                     "/key",
		`{"items": [0, {"a/b": "x"}], "m~n": "round", "key": null}`:                  "/key",
		`{"items": [0, {"a/b": "x"}], "m~n": "round", "key": "` + `\u202e\n` + `"}`:  "/key",
		`{"items": [0, {"a/b": "x"}], "m~n": "` + long + `", "key": "k"}`:            "/m~0n",
		`{"items": [{"a/b": "x"}], "m~n": "round", "key": "k"}`:                      "/items/1/a~1b",
		`{"items": {"1": {"a/b": ["x"]}}, "m~n": "round", "key": "k"}`:               "/items/1/a~1b",
		`{"items": [0, {"a/b": "x"}], "m~n": "round", "key": "k", "key": "other"}`:   "",
		`{"items": [0, {"a/b": "x"}], "m~n": "round", "key": "k"} {}`:                "",
		"{\"items\": [0, {\"a/b\": \"\xff\"}], \"m~n\": \"round\", \"key\": \"k\"}":  "",
		"{\"items\": [0, {\"a/b\": \"\x00\"}], \"m~n\": \"round\", \"key\": \"k\"}":  "",
		`{"x": ` + strings.Repeat("[", 1<<19) + strings.Repeat("]", 1<<19-10) + `}`:  "",
		`{"x": ` + strings.Repeat(`{"x":`, 1<<17) + `1` + strings.Repeat("}", 1<<17): "",
		`[]`: "", `null`: "", `"x"`: "", ``: "", `{`: "", `{"items": 1e999999}`: "",
	} {
		_, err := hook.Read(h, nil, []byte(body))
		var wrong *hook.PayloadError
		require.ErrorAs(t, err, &wrong, "%.80s", body)
		require.Equal(t, pointer, wrong.Pointer, "%.80s", body)
		require.Less(t, len(wrong.Error()), 500)
	}
}

// TestWhatIsSignedNamesTheSession finds one session for all that a caller may change without the
// secret.
func TestWhatIsSignedNamesTheSession(t *testing.T) {
	t.Parallel()
	mac := hmac.New(sha256.New, []byte("whsec_secret"))
	mac.Write([]byte("{}"))
	signature := "sha256=" + hex.EncodeToString(mac.Sum(nil))
	header := func(delivery string) http.Header {
		return http.Header{"X-Hub-Signature-256": {signature}, "X-Github-Delivery": {delivery}}
	}
	first, err := hook.Verify(access.HookGitHub, "whsec_secret", header("1"), []byte("{}"), time.Now())
	require.NoError(t, err)
	again, err := hook.Verify(access.HookGitHub, "whsec_secret", header("2"), []byte("{}"), time.Now())
	require.NoError(t, err)
	h := access.SecretHook{Hook: access.Hook{Name: "gh", Kind: access.HookGitHub}, Secret: "whsec_secret"}
	id := hook.SessionID(h, first)
	require.Equal(t, id, hook.SessionID(h, again))
	other := h
	other.Kind = access.HookGeneric
	require.NotEqual(t, id, hook.SessionID(other, first))
	h.Secret = "whsec_other"
	require.NotEqual(t, id, hook.SessionID(h, first), "who does not have the secret does not know the id")

	twice := header("1")
	twice.Add("X-Hub-Signature-256", signature)
	for _, wrong := range []http.Header{
		{},
		{"X-Hub-Signature-256": {signature[7:]}},
		{"X-Hub-Signature-256": {"sha256="}},
		{"X-Hub-Signature": {"sha1=x"}},
		twice,
	} {
		_, err := hook.Verify(access.HookGitHub, "whsec_secret", wrong, []byte("{}"), time.Now())
		require.ErrorIs(t, err, access.ErrSignature)
	}
}

// in is an event in a repository of GitHub.
func in(action string, more fields) fields {
	e := fields{"action": action, "sender": user("eve", "User"), "repository": fields{"full_name": "octo/site"}}
	for k, v := range more {
		e[k] = v
	}
	return e
}

func TestEventsOfPullRequestsOfGitHub(t *testing.T) {
	t.Parallel()
	pull := fields{"number": 12, "head": fields{"ref": "fix"}, "title": "@maestro", "body": "refs/heads/maestro/other"}
	onPull := fields{"number": 12, "pull_request": fields{"url": "x"}, "title": "x", "user": user("eve", "User")}
	said := fields{"id": 5, "body": "@maestro add a test", "user": user("eve", "User"), "author_association": "NONE"}
	number := &hook.News{Repository: "octo/site", Number: 12}
	branch := &hook.News{Repository: "octo/site", Branches: []string{"maestro/web-1"}}
	const none = "about no issue"
	about := func(what string, more fields) fields { more["pull_request"] = pull; return in(what, more) }
	ended := func(what string, more any) fields { return in("completed", fields{what: more}) }
	on := fields{"head_branch": "maestro/web-1"}
	named := []any{fields{"name": "main"}, fields{"name": "maestro/web-1"}}
	queue := "gh-readonly-queue/main/pr-12-95e6"
	for name, c := range map[string]struct {
		event string
		body  fields
		news  *hook.News
		why   string
	}{
		"opened":               {"pull_request", about("opened", fields{}), number, ""},
		"labeled":              {"pull_request", about("labeled", fields{"label": fields{"name": "maestro"}}), number, ""},
		"labeled, as an issue": {"issues", in("labeled", fields{"issue": onPull, "label": fields{"name": "maestro"}}), number, ""},
		"reviewed":             {"pull_request_review", about("submitted", fields{"review": fields{"body": "no"}}), number, ""},
		"a comment on a line":  {"pull_request_review_comment", about("created", fields{"comment": said}), number, ""},
		"a thread":             {"pull_request_review_thread", about("resolved", fields{"thread": fields{}}), number, ""},
		"a comment":            {"issue_comment", in("created", fields{"issue": onPull, "comment": said}), number, ""},
		"a comment of Maestro again": {
			"issue_comment", in("edited", fields{"issue": onPull, "comment": said}), nil, "comments that are new",
		},
		"a check": {"check_run", ended("check_run", fields{"check_suite": on}), branch, ""},
		"a check begins": {
			"check_run", in("created", fields{"check_run": fields{"check_suite": on}}), nil, "checks that have ended",
		},
		"a suite":             {"check_suite", ended("check_suite", on), branch, ""},
		"a workflow":          {"workflow_run", ended("workflow_run", on), branch, ""},
		"a status":            {"status", in("", fields{"state": "failure", "branches": named}), branch, ""},
		"a status to come":    {"status", in("", fields{"state": "pending", "branches": named}), nil, "checks that have ended"},
		"a push":              {"push", in("", fields{"ref": "refs/heads/maestro/web-1"}), branch, ""},
		"a push to main":      {"push", in("", fields{"ref": "refs/heads/main"}), nil, none},
		"a tag":               {"push", in("", fields{"ref": "refs/tags/maestro/web-1"}), nil, none},
		"a branch of nothing": {"push", in("", fields{"ref": "refs/heads/maestro/"}), nil, none},
		"in the merge queue": {"merge_group", in("checks_requested", fields{
			"merge_group": fields{"head_ref": "refs/heads/gh-readonly-queue/release/2.0/pr-12-95e6"},
		}), number, ""},
		"a suite in the merge queue": {"check_suite", ended("check_suite", fields{"head_branch": queue}), number, ""},
		"another name of the event":  {"deployment", about("opened", fields{}), number, ""},
		"no repository":              {"pull_request", fields{"action": "opened", "pull_request": pull}, nil, none},
		"no number":                  {"pull_request", in("opened", fields{"pull_request": fields{"number": "12"}}), nil, none},
		"half a number":              {"pull_request", in("opened", fields{"pull_request": fields{"number": 1.5}}), nil, none},
	} {
		got := read(t, github(), c.event, c.body)
		require.Nil(t, got.Start, name)
		require.Equal(t, c.news, got.News, name)
		require.NotEmpty(t, got.Ignored, name)
		require.Contains(t, got.Ignored, c.why, name)
		if c.news == number {
			require.Contains(t, got.Ignored, "it is a pull request", name)
		}
	}
}

// lab is an event of GitLab by somebody.
func lab(kind, by string, more fields) fields {
	e := fields{"object_kind": kind, "user": fields{"username": by}, "project": fields{"path_with_namespace": "octo/web/site"}}
	for k, v := range more {
		e[k] = v
	}
	return e
}

func titles(of ...string) (list []any) {
	for _, title := range of {
		list = append(list, fields{"id": 1, "title": title})
	}
	return list
}

// relabeled is an event of an issue whose labels have changed.
func relabeled(action, by string, before, after []any) fields {
	return lab("issue", by, fields{
		"object_attributes": fields{"action": action, "iid": 7, "title": "Prices", "description": "Add a page on prices."},
		"labels":            after, "changes": fields{"labels": fields{"previous": before, "current": after}},
	})
}

// noted is an event of a comment on an issue.
func noted(action, by, text string) fields {
	return lab("note", by, fields{
		"object_attributes": fields{"action": action, "id": 5, "note": text},
		"issue":             fields{"iid": 7, "title": "Prices", "description": "Add a page on prices."},
	})
}

func TestEventsOfGitLab(t *testing.T) {
	t.Parallel()
	h := hook.Complete(access.Hook{Name: "gl", Kind: access.HookGitLab, Team: "web", Users: []string{"maria"}})
	require.NoError(t, hook.Check(h))
	merge := fields{"iid": 12, "source_branch": "maestro/web-1"}
	ended := fields{"ref": "maestro/web-1", "iid": 3, "finished_at": "2026-11-23 10:00:00 UTC"}
	both := &hook.News{Repository: "octo/web/site", Number: 12, Branches: []string{"maestro/web-1"}}
	branch := &hook.News{Repository: "octo/web/site", Branches: []string{"maestro/web-1"}}
	number := &hook.News{Repository: "octo/web/site", Number: 12}
	const issue = "Prices\n\nAdd a page on prices."
	for name, c := range map[string]struct {
		body fields
		// starts is the requirement, news what wakes a session; neither: the event is ignored, with a reason that has the words of why.
		starts string
		news   *hook.News
		why    string
	}{
		"a label is set":               {relabeled("update", "root", titles("a"), titles("a", "Maestro")), issue, nil, ""},
		"another label is set":         {relabeled("update", "root", titles("maestro"), titles("maestro", "a")), "", nil, "this label"},
		"the label is removed":         {relabeled("update", "root", titles("maestro"), nil), "", nil, "this label"},
		"a guest opens with the label": {relabeled("open", "eve", nil, titles("maestro")), "", nil, "opened with"},
		"a bot sets it":                {relabeled("update", "project_7_bot_1f", nil, titles("maestro")), "", nil, "a bot"},
		"labels of another shape": {lab("issue", "root", fields{
			"object_attributes": fields{"action": "update"},
			"changes":           fields{"labels": 1},
		}), "", nil, "this label"},
		"a command":                  {noted("create", "Maria", "@maestro\nUse euros."), issue + "\n\nUse euros.", nil, ""},
		"a command of an old GitLab": {noted("", "maria", "@maestro"), issue, nil, ""},
		"a stranger's command":       {noted("create", "eve", "@maestro do it"), "", nil, "not among the users"},
		"nobody's command":           {noted("create", "", "@maestro do it"), "", nil, "not among the users"},
		"a command is edited":        {noted("update", "maria", "@maestro do it"), "", nil, "only new"},
		"another comment":            {noted("create", "maria", "use @maestro"), "", nil, "does not begin"},
		"a merge request":            {lab("merge_request", "eve", fields{"object_attributes": merge}), "", both, ""},
		"a comment on one": {lab("note", "eve", fields{
			"object_attributes": fields{"action": "create", "note": "@maestro"}, "merge_request": merge,
		}), "", both, ""},
		"an edited comment on one": {lab("note", "eve", fields{
			"object_attributes": fields{"action": "update", "note": "@maestro"}, "merge_request": merge,
		}), "", nil, "comments that are new"},
		"a pipeline": {lab("pipeline", "eve", fields{"object_attributes": ended}), "", branch, ""},
		"a pipeline of a merge request": {lab("pipeline", "eve", fields{
			"object_attributes": fields{"ref": "refs/merge-requests/12/head", "finished_at": "x"}, "merge_request": nil,
		}), "", number, ""},
		"a pipeline begins": {lab("pipeline", "eve",
			fields{"object_attributes": fields{"ref": "maestro/web-1", "finished_at": nil}}), "", nil, "have ended"},
		"a job":        {lab("build", "eve", fields{"ref": "maestro/web-1", "build_finished_at": "x"}), "", branch, ""},
		"a job begins": {lab("build", "eve", fields{"ref": "maestro/web-1", "build_finished_at": nil}), "", nil, "have ended"},
		"a push":       {lab("push", "eve", fields{"ref": "refs/heads/maestro/web-1"}), "", branch, ""},
		"a comment on a commit": {
			lab("note", "maria", fields{"object_attributes": fields{"action": "create", "note": "@maestro"}}), "",
			nil, "about no issue",
		},
		"a task": {
			lab("work_item", "maria", fields{"object_attributes": fields{"action": "update", "iid": 7}}), "", nil,
			"about no issue",
		},
	} {
		got := read(t, h, "", c.body)
		require.Equal(t, c.news, got.News, name)
		if c.starts == "" {
			require.Nil(t, got.Start, name)
			require.Contains(t, got.Ignored, c.why, name)
			require.NotEmpty(t, got.Ignored, name)
			continue
		}
		require.NotNil(t, got.Start, "%s: %s", name, got.Ignored)
		require.Equal(t, c.starts, got.Start.Requirement, name)
		require.Equal(t, "issue octo/web/site#7", got.Start.Subject, name)
		require.Equal(t, "octo/web/site", got.Start.Labels["repository"], name)
	}
}

func TestHooksOfGitLabNameWhoMayStart(t *testing.T) {
	t.Parallel()
	made := func(users []string, on ...string) access.Hook {
		return hook.Complete(access.Hook{Name: "gl", Kind: access.HookGitLab, Team: "web", Users: users, On: on})
	}
	require.Equal(t, []string{"issues.labeled:maestro"}, made(nil).On)
	require.NoError(t, hook.Check(made(nil)))
	require.Equal(t, []string{"issues.labeled:maestro", "issue_comment.created:@maestro"}, made([]string{"maria"}).On)
	other := made([]string{"maria"})
	other.Kind = access.HookGitHub
	generic := access.Hook{Name: "t", Kind: access.HookGeneric, Team: "web", Users: []string{"maria"}}
	for field, wrong := range map[string][]access.Hook{
		"users": {made(nil, "issue_comment.created:/go"), made(make([]string, 51)), other},
		"on":    {made(nil, "issues.opened"), hook.Complete(generic)},
	} {
		for _, h := range wrong {
			var failed *hook.FieldError
			require.ErrorAs(t, hook.Check(h), &failed)
			require.Equal(t, field, failed.Field, failed.Error())
		}
	}
}

func TestCallsOfGitLabHaveItsTokenOrASignature(t *testing.T) {
	t.Parallel()
	secret := access.HookSecretPrefix + base64.StdEncoding.EncodeToString(make([]byte, 32))
	now, body := time.Now(), []byte("{}")
	signature := func(at time.Time) http.Header { return hooktest.Sign(t, secret, "id-1", at, body) }
	token := http.Header{"X-Gitlab-Token": {secret}, "X-Gitlab-Event-Uuid": {"1"}}
	first, err := hook.Verify(access.HookGitLab, secret, token, body, now)
	require.NoError(t, err)
	again, err := hook.Verify(access.HookGitLab, secret, signature(now), body, now)
	require.NoError(t, err)
	require.Equal(t, first, again, "the identity is that of the body")
	for name, wrong := range map[string]http.Header{
		"nothing": {}, "another": {"X-Gitlab-Token": {secret + "x"}}, "empty": {"X-Gitlab-Token": {""}},
		"two": {"X-Gitlab-Token": {secret, secret}}, "an old signature": signature(now.Add(-time.Hour)),
	} {
		_, err := hook.Verify(access.HookGitLab, secret, wrong, body, now)
		require.ErrorIs(t, err, access.ErrSignature, name)
	}
	for _, kind := range []access.HookKind{access.HookGeneric, access.HookGitHub} {
		_, err := hook.Verify(kind, secret, token, body, now)
		require.ErrorIs(t, err, access.ErrSignature, "%s has no token", kind)
	}
}
