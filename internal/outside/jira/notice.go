package jira

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// noticeMark begins the last line of a comment, which names its notice.
const noticeMark = "maestro notice "

// maxBy bounds the name of who answered, in bytes.
const maxBy = 100

// The bounds of what is repeated of a notice's texts: all together are shorter than maxText, also where each
// character is escaped.
const (
	// maxQuote bounds a text that is repeated as it is, and maxLine one that is escaped, in bytes.
	maxQuote = 4500
	maxLine  = 300
	// maxAttempts is how many attempts a ticket reports, the newest.
	maxAttempts = 12
	// maxPullRequests is how many pull requests a text links.
	maxPullRequests = 3
)

// summary is the ticket's title: whose work it is about and what is wrong.
func summary(n session.Notice) string {
	parts := []string{"[maestro] " + n.Team, "session " + n.Session, string(n.Status), safetext.Line(n.Reason)}
	if r := n.Request; r != nil {
		parts = []string{parts[0], subject(*r), string(r.Category), safetext.Line(r.Message)}
	}
	parts = slices.DeleteFunc(parts, func(part string) bool { return part == "" })
	return textfmt.Shorten(safetext.Line(strings.Join(parts, ": ")), maxSummary)
}

// subject is whose work a request is about.
func subject(r session.Request) string {
	if r.Persona == "" {
		return r.Phase
	}
	return spec.AssignmentID{Phase: r.Phase, Persona: r.Persona}.String()
}

// description is what the ticket of a notice says.
func description(n session.Notice) string { return asked(n, "").String() }

// asked says what a person is needed for, and how to answer. before is the beginning, as markup.
func asked(n session.Notice, before string) document {
	d := document{before + strong(opening(n)) + plain(" "+quorumText(n)+sessionText(n)+".")}
	d = append(d, happened(n)...)
	d = append(d, tried(n)...)
	d = append(d, costText(n)...)
	d = append(d, goingOn(n)...)
	return append(d, artifacts(n)...)
}

// comment is the text of a comment.
func comment(c session.TicketComment) string {
	n := c.Notice
	var d document
	switch n.Event {
	case session.HelpAsked, session.ApprovalAsked:
		before := ""
		if n.Event == session.HelpAsked && c.Occurrences > 1 {
			before = strong(fmt.Sprintf("This happened again, %d times so far.", c.Occurrences)) + " "
		}
		d = asked(n, before)
	case session.RequestClosed:
		d = wentOn(n)
	default:
		d = append(ended(n), costText(n)...)
		if n.Event == session.SessionFailed || n.Event == session.SessionCancelled {
			d = append(d, goingOn(n)...)
		}
		d = append(d, artifacts(n)...)
	}
	if c.Omitted > 0 {
		d = append(d, plain(fmt.Sprintf("%d later notices are left out here: Jira did not take comments then.", c.Omitted)))
	}
	return append(d, plain(mark(n.ID))).String()
}

// mark is the line that names a comment's notice.
func mark(id string) string { return noticeMark + safetext.Line(id) }

// isNotice reports whether a comment's text is that of any notice.
func isNotice(text string) bool {
	text = strings.TrimSpace(text)
	return strings.HasPrefix(strings.TrimSpace(text[strings.LastIndex(text, "\n")+1:]), noticeMark)
}

// isComment reports whether a comment's text is that of a notice. Jira may have escaped other characters of it.
func isComment(text, id string) bool {
	lines := strings.Split(strings.TrimSpace(strings.ReplaceAll(text, "\r", "")), "\n")
	unescaped := strings.NewReplacer(`\`, "", "&#92;", "", "&amp;", "&")
	last := strings.TrimSpace(lines[len(lines)-1])
	return last == mark(id) || unescaped.Replace(last) == unescaped.Replace(wikiEscape(mark(id)))
}

// opening says what a person is needed for.
func opening(n session.Notice) string {
	r := n.Request
	if r == nil {
		return fmt.Sprintf("Team %s is %s.", n.Team, words(n.Status))
	}
	switch r.Kind {
	case session.ForApproval:
		return fmt.Sprintf("Phase %s of team %s is done and waits for approval.", r.Phase, n.Team)
	case session.ForBudget:
		return fmt.Sprintf("A budget of team %s is spent, and %s waits.", n.Team, subject(*r))
	case session.ForOutage:
		return fmt.Sprintf("%s of team %s waits for its %s, and continues by itself when it is available again.", subject(*r), n.Team,
			r.Category.Awaited())
	case session.ForHelp:
	}
	return fmt.Sprintf("%s of team %s could not finish and waits for a person.", subject(*r), n.Team)
}

// quorumText says who has approved and who has to; empty where one person does.
func quorumText(n session.Notice) string {
	if n.Request == nil || n.Request.Quorum == nil {
		return ""
	}
	return safetext.Line(n.Request.Quorum.String()) + ". "
}

// sessionText names the notice's session.
func sessionText(n session.Notice) string {
	s := fmt.Sprintf("Session %s in namespace %s, store %s", n.Session, n.Namespace, n.Store)
	if n.Run > 1 {
		s += fmt.Sprintf(", run %d", n.Run)
	}
	return s
}

// words is a state as prose has it.
func words(s session.State) string { return strings.ReplaceAll(string(s), "_", " ") }

func happened(n session.Notice) document {
	d := document{heading("What happened")}
	r := n.Request
	if r == nil {
		return append(d, verbatim(n.Reason))
	}
	if r.Category != "" {
		d = append(d, plain("Failure category: ")+strong(string(r.Category)))
	}
	if r.Message != "" {
		d = append(d, verbatim(r.Message))
	}
	if r.Suggestion != "" {
		d = append(d, plain(textfmt.Shorten(safetext.Line(r.Suggestion), maxLine)))
	}
	var times []string
	if !r.Since.IsZero() {
		times = append(times, "Waiting since "+clock(r.Since)+".")
	}
	if !r.Until.IsZero() {
		times = append(times, "Without an answer the session fails at "+clock(r.Until)+".")
	}
	if len(times) > 0 {
		d = append(d, plain(strings.Join(times, " ")))
	}
	return d
}

func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

func tried(n session.Notice) document {
	if n.Request == nil || len(n.Request.Attempts) == 0 {
		return nil
	}
	attempts := n.Request.Attempts
	left := max(len(attempts)-maxAttempts, 0)
	var items []string
	for i, a := range attempts[left:] {
		head := strong(fmt.Sprintf("Attempt %d, %s", left+i+1, a.Category))
		items = append(items, head+plain(": "+textfmt.Shorten(safetext.Line(a.Message), maxLine)))
	}
	d := document{heading("Failed attempts")}
	if left > 0 {
		d = append(d, plain(fmt.Sprintf("%d attempts; the first %d are omitted.", len(attempts), left)))
	}
	return append(d, bullets(items))
}

func costText(n session.Notice) document {
	items := []string{plain("session so far: " + spent(n.Usage))}
	if r := n.Request; r != nil {
		items = append([]string{plain(subject(*r) + ": " + spent(r.Usage))}, items...)
	}
	return document{heading("Cost"), bullets(items)}
}

func spent(u cost.Usage) string {
	return fmt.Sprintf("%d tokens (%d in, %d out), %s USD", u.Tokens(), u.InputTokens, u.OutputTokens, u.CostUSD.Rounded())
}

// goingOn says how to answer, in a terminal and in Temporal's Web UI.
func goingOn(n session.Notice) document {
	d := document{heading("How to continue")}
	if n.Dashboard != "" {
		d = append(d, plain("In a browser: open ")+link("the dashboard", n.Dashboard)+".")
	}
	if len(n.Commands) > 0 {
		d = append(d,
			plain("In a terminal, one of:"),
			verbatim(strings.Join(n.Commands, "\n")))
		if n.Where != "" {
			d = append(d, plain("Flags for Temporal and the store: "+safetext.Line(n.Where)+"."))
		}
	}
	r := n.Request
	if r == nil || len(r.Actions) == 0 {
		return d
	}
	where := plain("In Temporal's Web UI: open the workflow " + n.Session + " in namespace " + n.Namespace)
	if n.WebUI != "" {
		where = plain("In Temporal's Web UI: open ") + link("the session's page", n.WebUI)
	}
	verbs := make([]string, len(r.Actions))
	for i, v := range r.Actions {
		verbs[i] = string(v)
	}
	where += plain(" and send the Update ") + strong("resolve") +
		plain(" with the JSON below. The action is one of "+strings.Join(verbs, ", ")+"; add a \"note\" for the next attempt.")
	return append(d, where, verbatim(answerJSON(*r)))
}

// answerJSON is the likeliest answer to a request, as the Web UI takes it.
func answerJSON(r session.Request) string {
	data, _ := json.Marshal(struct { // texts only
		Request string         `json:"request"`
		Action  session.Action `json:"action"`
		By      string         `json:"by"`
	}{r.ID, r.Actions[0], "your name"})
	return string(data)
}

func artifacts(n session.Notice) document {
	where := fmt.Sprintf("In store %s, under session %s", n.Store, n.Session)
	if n.Checkpoint != "" {
		where += ", checkpoint " + n.Checkpoint.Short()
	}
	commands := fmt.Sprintf("maestro artifacts list %s\nmaestro artifacts get %s --out DIR", n.Session, n.Session)
	if r := n.Request; r != nil && r.Persona != "" {
		commands += fmt.Sprintf("\nmaestro logs %s %s", n.Session, subject(*r))
	}
	d := document{heading("Artifacts")}
	for _, address := range n.PullRequests[:min(len(n.PullRequests), maxPullRequests)] {
		if len(address) <= maxLine { // a longer one is none that a person would open
			d = append(d, link("Pull request", address))
		}
	}
	return append(d, plain(where+":"), verbatim(commands))
}

// wentOn says who answered what to which request, when and why.
func wentOn(n session.Notice) document {
	if n.Answer == nil {
		return document{strong("Session " + n.Session + " continues.")}
	}
	d := answered(*n.Answer, ": session "+n.Session+" continues.")
	if n.Answer.Action == session.AnswerApprove {
		d[0] += plain(" " + quorumText(n))
	}
	return d
}

// answered tells what a person has answered, when and why, and what follows.
func answered(a session.Answer, then string) document {
	by := cmp.Or(textfmt.Shorten(safetext.Line(a.By), maxBy), "An unnamed person")
	text := fmt.Sprintf(" answered %s", a.Action)
	if about := subject(session.Request{Phase: a.Phase, Persona: a.Persona}); about != "" {
		text += " to " + about
	}
	if !a.At.IsZero() {
		text += " at " + clock(a.At)
	}
	d := document{strong(by) + plain(text+then)}
	if strings.TrimSpace(a.Note) != "" {
		d = append(d, plain("Why:"), verbatim(a.Note))
	}
	return d
}

// ended says how a session ended, and why.
func ended(n session.Notice) document {
	how := map[session.Event]string{
		session.SessionCompleted: "has completed its work",
		session.SessionFailed:    "has failed",
		session.SessionCancelled: "was cancelled",
	}[n.Event]
	if how == "" {
		how = "is " + words(n.Status)
	}
	d := document{strong(fmt.Sprintf("Session %s of team %s %s.", n.Session, n.Team, how))}
	if n.Reason != "" {
		d = append(d, verbatim(n.Reason))
	}
	if n.Answer != nil {
		d = append(d, answered(*n.Answer, ".")...)
	}
	return d
}
