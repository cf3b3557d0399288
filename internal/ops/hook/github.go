package hook

import (
	"fmt"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/safetext"
)

// trusted are the associations of authors whose texts may start a session. On a public repository
// anyone may open issues and write comments.
var trusted = []string{"OWNER", "MEMBER", "COLLABORATOR"}

var gitHubIssue = issueEvent{"/repository/full_name", "/issue/number", "/issue/title", "/issue/body", ""}

// gitHubRefs are where events name branches: the newest first commits of a status may be in ten branches.
var gitHubRefs = []string{
	"/pull_request/head/ref", "/check_run/check_suite/head_branch", "/check_suite/head_branch", "/workflow_run/head_branch",
	"/merge_group/head_ref", "/ref", "/branches/0/name", "/branches/1/name", "/branches/2/name", "/branches/3/name",
	"/branches/4/name", "/branches/5/name", "/branches/6/name", "/branches/7/name", "/branches/8/name", "/branches/9/name",
}

// readGitHub returns what an event asks for. The name of the event is not signed, so the body must have the fields of this
// event.
func readGitHub(h access.Hook, event string, p payload) (c Call) {
	at, commented, rest := gitHubIssue, p.has("/comment"), ""
	switch isIssue := p.has("/issue") && !p.has("/issue/pull_request"); {
	case event == "ping":
		return Call{}
	case event == "issues" && isIssue && !commented:
		c.Ignored = issueIgnored(h, p)
	case event == "issue_comment" && isIssue && commented:
		at.comment = "/comment/id"
		rest, c.Ignored = commentIgnored(h, p)
	default:
		return newsOfGitHub(p)
	}
	if c.Ignored == "" {
		c.Start, c.Ignored = at.start(p, rest)
	}
	return c
}

// newsOfGitHub returns what an event says of pull requests. Checks have news when they end, and comments when they are written.
func newsOfGitHub(p payload) Call {
	action := p.string("/action")
	checks := p.has("/check_run") || p.has("/check_suite") || p.has("/workflow_run")
	if checks && action != "completed" || p.has("/comment") && action != "created" || p.string("/state") == "pending" {
		return Call{Ignored: nothingNew}
	}
	number := p.number("/pull_request/number")
	if p.has("/issue/pull_request") {
		number = p.number("/issue/number")
	}
	return newsOf(p, "/repository/full_name", number, gitHubRefs)
}

// nothingNew is why an event wakes no session that may come often.
const nothingNew = "only checks that have ended and comments that are new wake a session"

// issueIgnored returns why an event of an issue starts no session; empty: it starts one.
func issueIgnored(h access.Hook, p payload) string {
	author, sender := p.string("/issue/user/login"), p.string("/sender/login")
	switch p.string("/action") {
	case "labeled":
		switch {
		case !startsWith(h, p.string("/label/name")):
			return "the hook does not start with this label"
		case isBot(p, "/sender"):
			return "a bot has set the label"
		case sender == "" || strings.EqualFold(sender, author):
			// A template of issues sets labels in the name of whoever opens one.
			return untrusted("issue", p)
		}
		return ""
	case "opened":
		switch {
		case !slices.Contains(h.On, onOpened):
			return "the hook does not start with every new issue"
		case isBot(p, "/sender"), isBot(p, "/issue/user"):
			return "a bot has opened the issue"
		}
		return untrusted("issue", p)
	}
	return "only issues that are opened or labeled start sessions"
}

// commentIgnored returns the text of a comment after its command, or why it starts nothing.
func commentIgnored(h access.Hook, p payload) (rest, ignored string) {
	rest, found := command(h, p.string("/comment/body"))
	switch {
	case p.string("/action") != "created":
		return "", "only new comments start sessions"
	case !found:
		return "", "the comment does not begin with the command of the hook"
	case isBot(p, "/sender"), isBot(p, "/comment/user"):
		return "", "a bot has written the comment"
	}
	return rest, untrusted("comment", p)
}

// untrusted returns why the author of an issue or a comment may not start sessions; empty: the author
// may.
func untrusted(what string, p payload) string {
	association := p.string("/" + what + "/author_association")
	if slices.Contains(trusted, association) {
		return ""
	}
	return fmt.Sprintf("the author of the %s is not an owner, member or collaborator of the repository, as GitHub says "+
		"(author_association: %q)."+
		" GitHub does not say so of members whose membership in the organization is private: they can make it public, become "+
		"collaborators,"+
		" or let another person set the label of the hook", what, safetext.Clip(association, 40))
}

func isBot(p payload, user string) bool { return p.string(user+"/type") != "User" }
