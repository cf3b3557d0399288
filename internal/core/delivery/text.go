package delivery

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// Branch is the name of the branch with a session's work. A session has one, so that a repeated step finds it.
func Branch(sessionID string) string { return branchPrefix + sessionID }

const branchPrefix = "maestro/"

// SessionOf is the session whose work a branch has, as its name says; empty: it is no such branch.
func SessionOf(branch string) string {
	if sessionID, ok := strings.CutPrefix(branch, branchPrefix); ok {
		return sessionID
	}
	return ""
}

// Title is the title of a pull request: the first line of the requirement.
func Title(requirement, sessionID string) string {
	title := safetext.Clip(textfmt.FirstLine(strings.TrimSpace(requirement)), 72)
	if title == "" {
		return "The work of session " + sessionID
	}
	return title
}

// The marks around what Maestro writes into the description of a pull request. It replaces that part only: people may write
// before and after it.
const (
	bodyBegins = "<!-- maestro: this part is updated -->"
	bodyEnds   = "<!-- maestro: end -->"
)

// Description is what the description of a pull request says.
type Description struct {
	Session, Team, Requirement string
	// Work has the finished assignments, Checks the names of the checks that the work has passed.
	Work   []session.CheckpointAssignment
	Checks []string
	Usage  cost.Usage
	// Address is that of the session's page; empty: unknown.
	Address string
	// Issue is the number of the issue of the same repository that the session was started from; empty: none.
	Issue string
}

const (
	// maxWork and maxSaid bound what the description says of the work: its summaries, and the bytes of each.
	maxWork = 20
	maxSaid = 300
	// maxAnswer bounds what an answer says of the work, in bytes.
	maxAnswer = 1500
	// maxBody is the length of a description that every host takes, in bytes.
	maxBody = 60_000
)

// Body returns a description in which the part of Maestro is replaced. One that would be too long stays as it is.
func (d Description) Body(before string) string {
	var b strings.Builder
	b.WriteString(bodyBegins + "\n")
	fmt.Fprintf(&b, "%s\n\n", Markdown(textfmt.Shorten(strings.TrimSpace(d.Requirement), 2000)))
	said := slices.DeleteFunc(slices.Clone(d.Work), func(a session.CheckpointAssignment) bool {
		return a.Summary == "" || a.Files == 0
	})
	for _, a := range said[max(0, len(said)-maxWork):] {
		text := textfmt.Shorten(safetext.Line(a.Summary), maxSaid)
		fmt.Fprintf(&b, "- **%s**: %s\n", Markdown(safetext.Clip(a.String(), 100)), Markdown(text))
	}
	b.WriteString("\n")
	if len(d.Checks) > 0 {
		fmt.Fprintf(&b, "Checked before this: %s. ", Markdown(safetext.Clip(textfmt.FirstOf(d.Checks, maxWork), maxSaid)))
	}
	fmt.Fprintf(&b, "Cost so far: %s. Made by team %s in ", spent(d.Usage), Markdown(safetext.Clip(d.Team, 100)))
	if d.Address != "" {
		fmt.Fprintf(&b, "[session %s](%s)", d.Session, d.Address)
	} else {
		fmt.Fprintf(&b, "session %s", d.Session)
	}
	fmt.Fprintf(&b, " of Maestro. Reviews with requested changes, comments on lines, and comments that begin with `%s` are "+
		"worked in.\n", Mention)
	if d.Issue != "" {
		fmt.Fprintf(&b, "\nCloses #%s\n", d.Issue)
	}
	b.WriteString(bodyEnds)
	head, rest, begun := strings.Cut(before, bodyBegins)
	_, tail, ended := strings.Cut(rest, bodyEnds)
	whole := head + b.String() + tail
	if !begun || !ended {
		whole = strings.TrimSpace(b.String() + "\n\n" + before)
	}
	if before != "" && len(whole) > maxBody {
		return before
	}
	return whole
}

// ReplyMark marks the answer to a comment, so that it is written once.
func ReplyMark(sessionID, item string) string {
	return markBegins(sessionID) + item + " -->"
}

func markBegins(sessionID string) string { return "<!-- maestro " + sessionID + " answers " }

// Answered reports whether Maestro has answered an item.
func Answered(sessionID string, p PullRequest, item string) bool {
	return slices.Contains(answeredItems(sessionID, p), item)
}

// answeredItems lists the items that a session has answered.
func answeredItems(sessionID string, p PullRequest) (items []string) {
	all := slices.Clone(p.Comments)
	for _, t := range p.Threads {
		all = append(all, t.Comments...)
	}
	for _, c := range all {
		_, rest, ok := strings.Cut(c.Body, markBegins(sessionID))
		if item, _, ended := strings.Cut(rest, " -->"); ok && ended && c.By.Self {
			items = append(items, item)
		}
	}
	return items
}

// ReplyText answers a comment after its rework. commit is empty if no file has changed: the summary is the answer then.
func ReplyText(to, commit, summary string) string {
	text := Markdown(textfmt.Shorten(safetext.Line(summary), maxAnswer))
	switch {
	case commit != "":
		text = strings.TrimSpace("Done in " + commit + ". " + text)
	case text == "":
		text = "No file had to change."
	}
	if to == "" {
		return text
	}
	return Markdown(to) + ": " + text
}

// Feedback puts the feedback of a step into reasons for which work is sent back. logs has the log of each failed check. The
// texts of others are quoted, and all together fit into [session.MaxReasons].
func Feedback(p PullRequest, s Step, logs map[string]CheckLog) []string {
	var reasons []string
	for _, c := range s.Checks {
		log := logs[c.ID]
		text := fmt.Sprintf("check %s fails on commit %s of %s", safetext.Clip(c.Name, 80), short(p.Head), p.URL)
		if log.Step != "" {
			text += " in step " + safetext.Clip(log.Step, 80)
		}
		for _, a := range log.Annotations {
			text += "\n" + quote(a)
		}
		if log.Tail != "" {
			text += "\n" + quote(log.Tail)
		}
		reasons = append(reasons, text)
	}
	if reasons = append(reasons, s.Notes...); len(s.Notes) > 0 {
		reasons = append(reasons, "The work answers a question in its summary, and changes files only where a change is asked for.")
	}
	left := session.MaxReasons - 200
	for i, text := range reasons {
		share := left / (len(reasons) - i)
		if i < len(s.Checks) {
			reasons[i] = keepEnds(text, share)
		} else {
			reasons[i] = textfmt.Shorten(text, share)
		}
		left -= len(reasons[i])
	}
	return reasons
}

// keepEnds shortens a text in its middle: the beginning says which check it is, and the end of a log why it failed.
func keepEnds(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	head := textfmt.Shorten(text, limit/4)
	return head + "\n" + textfmt.Tail(text, limit-len(head)-1)
}

func spent(u cost.Usage) string {
	if u.CostUSD > 0 {
		return u.CostUSD.Rounded().String() + " USD"
	}
	return textfmt.Count(int(u.Tokens()), "token")
}

func short(commit string) string { return commit[:min(len(commit), 10)] }

// Markdown is a text of others as it looks in Markdown: nothing in it is markup, a link, an image, a mention of a person or a
// reference to an issue.
func Markdown(text string) string {
	return command.ReplaceAllString(inMarkdown.Replace(safetext.Block(text)), `$1\/`)
}

// command is how a line begins that hosts and their bots execute.
var command = regexp.MustCompile(`(?m)^(\s*)/`)

// A zero-width space ends what a host would make a link of.
var inMarkdown = strings.NewReplacer(
	`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "<", "&lt;", ">", "&gt;", "&", "&amp;", "|", `\|`, "~", `\~`,
	"@", "@\u200b", "#", "#\u200b", "!", "!\u200b", "://", ":\u200b//", "www.", "www.\u200b", "GH-", "GH-\u200b", "$", `\$`,
)
