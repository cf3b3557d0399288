package hook_test

import (
	"crypto/hmac"
	"crypto/sha256"
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
