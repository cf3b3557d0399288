package hook

import (
	"regexp"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/access"
)

var (
	gitLabIssue = issueEvent{
		"/project/path_with_namespace", "/object_attributes/iid", "/object_attributes/title", "/object_attributes/description", "",
	}
	gitLabNote = issueEvent{
		"/project/path_with_namespace", "/issue/iid", "/issue/title", "/issue/description", "/object_attributes/id",
	}
)

// gitLabBot are the names that GitLab gives the users of access tokens and service accounts.
var gitLabBot = regexp.MustCompile(`^((project|group)_\d+_bot|service_account_)`)

// readGitLab returns what an event asks for.
func readGitLab(h access.Hook, p payload) (c Call) {
	at, rest := gitLabIssue, ""
	switch kind := p.string("/object_kind"); {
	case kind == "issue":
		c.Ignored = gitLabIssueIgnored(h, p)
	case kind == "note" && p.has("/issue"):
		at = gitLabNote
		rest, c.Ignored = gitLabNoteIgnored(h, p)
	default:
		return newsOfGitLab(kind, p)
	}
	if c.Ignored == "" {
		c.Start, c.Ignored = at.start(p, rest)
	}
	return c
}

// newsOfGitLab returns what an event says of merge requests.
func newsOfGitLab(kind string, p payload) Call {
	if kind == "pipeline" && !p.has("/object_attributes/finished_at") || kind == "build" && !p.has("/build_finished_at") ||
		kind == "note" && !isNewNote(p) {
		return Call{Ignored: nothingNew}
	}
	number := p.number("/merge_request/iid")
	if kind == "merge_request" {
		number = p.number("/object_attributes/iid")
	}
	return newsOf(p, "/project/path_with_namespace", number,
		[]string{"/object_attributes/source_branch", "/merge_request/source_branch", "/object_attributes/ref", "/ref"})
}

// gitLabIssueIgnored returns why an event of an issue starts no session. GitLab does not say whether a user is a member of
// the project. But only members who may plan work set labels on an issue that exists: guests do so only when they open one.
func gitLabIssueIgnored(h access.Hook, p payload) string {
	before := labelTitles(p, "/changes/labels/previous")
	added := slices.DeleteFunc(labelTitles(p, "/changes/labels/current"), func(l string) bool { return slices.Contains(before, l) })
	switch {
	case p.string("/object_attributes/action") != "update":
		return "only labels that are set on an existing issue start sessions, not those that it is opened with"
	case !slices.ContainsFunc(added, func(label string) bool { return startsWith(h, label) }):
		return "the hook does not start with this label"
	case gitLabBot.MatchString(p.string("/user/username")):
		return "a bot has set the label"
	}
	return ""
}

// gitLabNoteIgnored returns the text of a comment after its command, or why it starts nothing.
func gitLabNoteIgnored(h access.Hook, p payload) (rest, ignored string) {
	rest, found := command(h, p.string("/object_attributes/note"))
	user := p.string("/user/username")
	switch {
	case !isNewNote(p):
		return "", "only new comments start sessions"
	case !found:
		return "", "the comment does not begin with the command of the hook"
	case user == "" || !slices.ContainsFunc(h.Users,
		func(name string) bool { return strings.EqualFold(strings.TrimPrefix(name, "@"), user) }):
		return "", "the author of the comment is not among the users of the hook (--user)"
	}
	return rest, ""
}

// isNewNote reports whether a comment was written now. Before version 16.11 GitLab has no events of other changes.
func isNewNote(p payload) bool {
	action := p.string("/object_attributes/action")
	return action == "create" || action == ""
}

// labelTitles lists the titles of labels.
func labelTitles(p payload, at string) (titles []string) {
	v, _ := p.at(at)
	labels, _ := v.([]any)
	for _, l := range labels {
		fields, _ := l.(map[string]any)
		if title, ok := fields["title"].(string); ok {
			titles = append(titles, title)
		}
	}
	return titles
}
