package workflows

import (
	"fmt"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
)

// command returns the shortest command that answers a request. several: the session waits for
// several budgets.
func (s *sessionRun) command(r *request, several bool) string {
	if len(r.Actions) == 0 {
		return ""
	}
	switch r.Kind {
	case session.ForApproval:
		return fmt.Sprintf("maestro approve %s %s%s", s.Status.Session, r.Phase, r.Selector())
	case session.ForBudget:
		return "maestro " + r.Raise.Command(s.Status.Session, several)
	case session.ForHelp, session.ForOutage:
	}
	return fmt.Sprintf("maestro resolve %s %s --request %s", s.Status.Session, r.Actions[0], r.ID)
}

// requestPage returns the page of a request in the Web UI. It is for a person without
// experience: first what happened, then what to click, then the rest.
func (s *sessionRun) requestPage(r *request) []string {
	lines := []string{fmt.Sprintf("## Help needed: %s/%s", r.Phase, r.Persona), ""}
	switch r.Kind {
	case session.ForApproval:
		lines = []string{
			"## Approval needed: phase " + r.Phase, "",
			"The phase is done. Phases that depend on it wait for the approval.", "",
		}
		if r.Quorum != nil {
			lines = append(lines, safetext.Code(r.Quorum.String()), "")
		}
		lines = append(lines, s.workSummary(r)...)
	case session.ForOutage:
		lines = []string{fmt.Sprintf("## Waiting for the %s: %s/%s", r.Category.Awaited(), r.Phase, r.Persona), "", "What happened: " +
			safetext.Code(r.Message), ""}
	case session.ForHelp, session.ForBudget:
		what := "What happened"
		if r.Category != "" {
			what = fmt.Sprintf("What happened (%s)", r.Category)
		}
		lines = append(lines, what+": "+safetext.Code(r.Message), "")
	}
	raising := s.raising(r)
	if r.Suggestion != "" {
		lines = append(lines, capitalize(r.Suggestion), "")
	}
	switch {
	case r.Quorum != nil:
		lines = append(lines, fmt.Sprintf("This page cannot answer it, because it does not know who you are. "+
			"Approve it with `%s`, or reject it with `maestro reject %s %s%s --note \"what to change\"`, or in the dashboard.",
			r.Command, s.Status.Session, r.Phase, r.Selector()), "")
	case len(r.Actions) > 0:
		lines = append(lines, s.answers(r, raising)...)
	}
	if len(r.Attempts) > 0 {
		lines = append(lines, "### Failed attempts", "")
	}
	for i, f := range r.Attempts {
		lines = append(lines, fmt.Sprintf("%d. %s: %s", i+1, f.Category, safetext.Code(f.Message)))
	}
	lines = append(lines, "", fmt.Sprintf("Cost so far: %d tokens, %s USD.", r.Usage.Tokens(), r.Usage.CostUSD.Rounded()))
	switch {
	case r.Until.IsZero():
	case r.Kind.NoticeOnly():
		lines = append(lines, "If the "+r.Category.Awaited()+" is not available by then, the session fails at "+
			r.Until.Format("2006-01-02 15:04 UTC")+".")
	default:
		lines = append(lines, "Without an answer the session fails at "+r.Until.Format("2006-01-02 15:04 UTC")+".")
	}
	if r.Ticket != nil {
		lines = append(lines, "", ticketLine(*r.Ticket))
	}
	return append(lines, "")
}

// workSummary returns the summaries of a phase's personas, and the command that shows their changes.
func (s *sessionRun) workSummary(r *request) []string {
	var lines []string
	for _, p := range s.Status.Phases {
		for _, a := range p.Assignments {
			if p.Name == r.Phase && a.Summary != "" {
				lines = append(lines, fmt.Sprintf("- %s: %s", a.Persona, safetext.Code(a.Summary)))
			}
		}
	}
	if r.Files != "" {
		lines = append(lines, "- files: "+safetext.Code(r.Files))
	}
	return append(lines, "", fmt.Sprintf("Show the changes: `maestro artifacts diff %s %s`.", s.Status.Session, r.Phase), "")
}

// answers returns how to answer a request from the Web UI. The JSON has the format of
// the Web UI's form, so that the form does not change it. Fields for the person are
// empty, so that no example is sent by mistake.
func (s *sessionRun) answers(r *request, raising []string) []string {
	lines := []string{
		"### What to do", "",
		"1. Copy one of the answers below.",
		fmt.Sprintf("2. At the top right, **More Actions**, **Send an Update**. Its **Name** is `%s`.", ResolveUpdate),
		"3. Paste the answer into **Data**, fill in the empty fields, **Submit**.",
		"4. Reload this page to see the result, and before you send another answer: otherwise the form sends nothing.", "",
	}
	lines = append(lines, raising...)
	for _, c := range r.Choices() {
		title := fmt.Sprintf("**%s:** %s.", c.Label, c.Effect)
		switch {
		case c.NeedsFiles: // only the command can store them
			lines = append(lines, title+fmt.Sprintf(" From a terminal: `maestro resolve %s %s PATH --request %s`", s.Status.Session,
				c.Action, r.ID), "")
			continue
		case c.NeedsNote:
			title += " The note is required."
		case c.Action == session.AnswerRetry && !r.Kind.NoticeOnly():
			title += " The note is passed to the next attempt: write what to do differently."
		}
		lines = append(lines, title, "", "```json",
			fmt.Sprintf("{\n  \"request\": %q,\n  \"action\": %q,\n  \"note\": \"\",\n  \"by\": \"\"\n}", r.ID, c.Action), "```", "")
	}
	return append(lines, fmt.Sprintf("The first answer as a command: `%s`", r.Command), "")
}

// raising returns how to raise the budget of a request; nil if the request is about no
// budget, or about a daily budget, which is in the store.
func (s *sessionRun) raising(r *request) []string {
	b := r.Raise
	if b == nil || b.Scope == session.BudgetOfDay {
		return nil
	}
	fields := []string{}
	if b.Tokens {
		fields = append(fields, `"tokens": 0`)
	}
	if b.USD {
		fields = append(fields, `"usd": 0`)
	}
	if b.Name != "" {
		fields = append(fields, fmt.Sprintf("%q: %q", b.Scope, b.Name))
	}
	fields = append(fields, `"by": ""`)
	return []string{
		fmt.Sprintf("**Raise the budget and continue.** The **Name** is `%s` here; replace 0 with the amount to add.", RaiseUpdate), "",
		"```json", "{\n  " + strings.Join(fields, ",\n  ") + "\n}", "```", "",
	}
}

// capitalize begins a sentence with a capital.
func capitalize(sentence string) string {
	return strings.ToUpper(sentence[:1]) + sentence[1:]
}

// ticketLine returns a line with the ticket, or the reason why there is none.
func ticketLine(t session.Ticket) string {
	line := "Ticket: none yet."
	if t.Key != "" {
		line = fmt.Sprintf("Ticket: [%s](%s).", t.Key, t.URL)
	}
	if t.Trouble != "" {
		line += " " + safetext.Code(t.Trouble)
	}
	return line
}

// requestPages returns the pages of the open requests in the Web UI.
func (s *sessionRun) requestPages() []string {
	var lines []string
	for _, r := range s.Requests {
		lines = append(lines, s.requestPage(r)...)
	}
	return lines
}
