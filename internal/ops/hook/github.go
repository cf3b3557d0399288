package hook

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// The events of GitHub that can start a session, in the form of the option --on.
const (
	onOpened  = "issues.opened"
	onLabeled = "issues.labeled:"
	onComment = "issue_comment.created:"
)

const (
	maxEvents = 20
	maxOn     = 200
)

// trusted are the associations of authors whose texts may start a session. On a public repository
// anyone may open issues and write comments.
var trusted = []string{"OWNER", "MEMBER", "COLLABORATOR"}

// checkEvents refuses events that do not exist, or that have no label or command.
func checkEvents(events []string) error {
	if len(events) > maxEvents {
		return fmt.Errorf("there are %d events; %d at most are taken", len(events), maxEvents)
	}
	for _, on := range events {
		if len(on) > maxOn || safetext.Line(on) != on {
			return fmt.Errorf("%q is longer than %d bytes, or no line of text", textfmt.Shorten(on, 80), maxOn)
		}
		label, labeled := strings.CutPrefix(on, onLabeled)
		command, commented := strings.CutPrefix(on, onComment)
		switch {
		case on == onOpened:
		case labeled && strings.TrimSpace(label) != "":
		case commented && command != "" && !strings.ContainsFunc(command, unicode.IsSpace):
		case commented:
			return errors.New("a command is one word, like /maestro")
		default:
			return fmt.Errorf("%q is not an event that starts a session; use issues.opened, issues.labeled:LABEL or "+
				"issue_comment.created:COMMAND", textfmt.Shorten(on, 80))
		}
	}
	return nil
}

// readGitHub returns the session that an event starts, or why it starts none. The name of the event
// is not signed, so the body must have the fields of this event.
func readGitHub(h access.Hook, event string, p payload) (start *Start, ignored string) {
	hasComment := p.has("/comment")
	var rest string
	switch {
	case event == "ping":
		return nil, ""
	case event == "issues" && p.has("/issue") && !hasComment:
		ignored = issueIgnored(h, p)
	case event == "issue_comment" && p.has("/issue") && hasComment:
		rest, ignored = commentIgnored(h, p)
	default:
		return nil, "only events of issues and of their comments start sessions"
	}
	if ignored != "" {
		return nil, ignored
	}
	number, _ := p.at("/issue/number")
	n, isNumber := number.(float64)
	labels := map[string]string{
		labelRepository: textfmt.Shorten(p.string("/repository/full_name"), session.MaxLabelValue),
		labelIssue:      strconv.FormatFloat(n, 'f', -1, 64),
	}
	if !isNumber || p.string("/issue/title") == "" || session.CheckLabels(labels) != nil {
		return nil, "the event has no repository, number and title of an issue"
	}
	texts := []string{strings.TrimSpace(p.string("/issue/title")), strings.TrimSpace(p.string("/issue/body")), rest}
	texts = slices.DeleteFunc(texts, func(text string) bool { return text == "" })
	start = &Start{Requirement: strings.Join(texts, "\n\n"), Labels: labels}
	if !hasComment && !h.EachEvent { // GitHub sends opened and labeled for an issue that is opened with a label
		start.Subject = "issue " + labels[labelRepository] + "#" + labels[labelIssue]
	}
	return start, ""
}

// issueIgnored returns why an event of an issue starts no session; empty: it starts one.
func issueIgnored(h access.Hook, p payload) string {
	if p.has("/issue/pull_request") {
		return "it is a pull request"
	}
	author, sender := p.string("/issue/user/login"), p.string("/sender/login")
	switch p.string("/action") {
	case "labeled":
		label := p.string("/label/name")
		wanted := func(on string) bool {
			want, ok := strings.CutPrefix(on, onLabeled)
			return ok && label != "" && strings.EqualFold(want, label)
		}
		switch {
		case !slices.ContainsFunc(h.On, wanted):
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
	switch {
	case p.string("/action") != "created":
		return "", "only new comments start sessions"
	case p.has("/issue/pull_request"):
		return "", "it is a comment on a pull request"
	}
	text, found := p.string("/comment/body"), false
	for _, on := range h.On {
		command, ok := strings.CutPrefix(on, onComment)
		if after, begins := strings.CutPrefix(text, command); ok && begins && (after == "" || unicode.IsSpace(rune(after[0]))) {
			rest, found = strings.TrimSpace(after), true
		}
	}
	switch {
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
