package hook

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/delivery"
	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// The events of GitHub and GitLab that can start a session, in the form of the option --on.
const (
	onOpened  = "issues.opened"
	onLabeled = "issues.labeled:"
	onComment = "issue_comment.created:"
)

const (
	maxEvents = 20
	maxOn     = 200
)

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
			return errors.New("a command is one word, like @maestro")
		default:
			return fmt.Errorf("%q is not an event that starts a session; use issues.opened, issues.labeled:LABEL or "+
				"issue_comment.created:COMMAND", textfmt.Shorten(on, 80))
		}
	}
	return nil
}

// startsWith reports whether a hook starts sessions with a label.
func startsWith(h access.Hook, label string) bool {
	return label != "" && slices.ContainsFunc(h.On, func(on string) bool {
		want, ok := strings.CutPrefix(on, onLabeled)
		return ok && strings.EqualFold(want, label)
	})
}

// command returns the text of a comment after the command of a hook that it begins with.
func command(h access.Hook, text string) (rest string, found bool) {
	for _, on := range h.On {
		if word, ok := strings.CutPrefix(on, onComment); ok {
			if rest, found = delivery.Addressed(word, text); found {
				return rest, true
			}
		}
	}
	return "", false
}

// issueEvent says where an event has the parts of its issue, and the id of a comment.
type issueEvent struct{ repository, number, title, body, comment string }

// start returns the session that an event of an issue starts, with the text of a comment.
func (at issueEvent) start(p payload, text string) (start *Start, ignored string) {
	number, repository := p.number(at.number), p.string(at.repository)
	labels := map[string]string{
		labelRepository: textfmt.Shorten(repository, session.MaxLabelValue), labelIssue: strconv.Itoa(number),
	}
	if comment := p.number(at.comment); comment > 0 {
		labels[LabelComment] = strconv.Itoa(comment)
	}
	if number == 0 || p.string(at.title) == "" || session.CheckLabels(labels) != nil {
		return nil, "the event has no repository, number and title of an issue"
	}
	texts := []string{strings.TrimSpace(p.string(at.title)), strings.TrimSpace(p.string(at.body)), text}
	texts = slices.DeleteFunc(texts, func(text string) bool { return text == "" })
	return &Start{
		Requirement: strings.Join(texts, "\n\n"), Labels: labels, Subject: fmt.Sprintf("issue %s#%d", repository, number),
	}, ""
}

// News is what an event says of pull requests: that there is something new. What it is the session finds out by itself.
type News struct {
	// Repository is OWNER/NAME, or GROUP/SUBGROUP/NAME.
	Repository string
	// Number is that of a pull request; 0: unknown. Branches have work of sessions.
	Number   int
	Branches []string
}

// queuedRef is the branch of a pull request in GitHub's merge queue, or the ref of GitLab's pipeline for a merge request.
var queuedRef = regexp.MustCompile(`^(?:gh-readonly-queue/.+/pr-|refs/merge-requests/)([0-9]{1,9})[-/]`)

// newsOf reads what an event says of a pull request, at pointers to its repository, and to branches and refs. Without any, the
// call is ignored.
func newsOf(p payload, repository string, number int, refs []string) Call {
	n := News{Repository: p.string(repository), Number: number}
	for _, at := range refs {
		branch := strings.TrimPrefix(p.string(at), "refs/heads/")
		if found := queuedRef.FindStringSubmatch(branch); found != nil {
			n.Number, _ = strconv.Atoi(found[1]) // digits
		} else if delivery.SessionOf(branch) != "" && !slices.Contains(n.Branches, branch) {
			n.Branches = append(n.Branches, branch)
		}
	}
	switch {
	case n.Repository == "" || n.Number == 0 && len(n.Branches) == 0:
		return Call{Ignored: "it is about no issue, pull request or branch of a session"}
	case n.Number > 0:
		return Call{News: &n, Ignored: "it is a pull request, and no session of the hook's team waits for it"}
	}
	return Call{News: &n, Ignored: "no session of the hook's team waits for the branch"}
}
