package workflows

import (
	"fmt"
	"strings"

	"github.com/maestro-hive/maestro/internal/team"
)

// command is the shortest way to go on from a request. A money request's is made of
// its advice, which names the budget.
func (s *session) command(h team.HelpRequest) string {
	switch h.Kind {
	case team.ForApproval:
		return fmt.Sprintf("maestro approve %s %s", s.status.Session, h.Phase)
	case team.ForMoney:
		_, command, _ := strings.Cut(h.Advice, "`")
		command, _, _ = strings.Cut(command, "`")
		return command
	default:
		verb := team.Skipping
		if h.Takes(team.Retrying) {
			verb = team.Retrying
		}
		return fmt.Sprintf("maestro resolve %s %s --request %s", s.status.Session, verb, h.ID)
	}
}

// howToAnswer says what a person can do about a request: what to look at, what to
// type, and what to send from Temporal's Web UI.
func (s *session) howToAnswer(r *request) string {
	if len(r.Answers) == 0 {
		return r.Advice
	}
	if r.Kind == team.ForApproval {
		return fmt.Sprintf("look at it with `maestro artifacts diff %[1]s %[2]s`; go on with `%[3]s`, or send it back with `maestro reject %[1]s %[2]s --note \"what to change\"`; or send the update %[4]s with %[5]s",
			s.status.Session, r.Phase, r.command, ResolveUpdate, paste(r, team.Approving))
	}
	more := fmt.Sprintf("go on with `%s`", r.command)
	if r.Kind == team.ForMoney {
		more = "or answer"
	}
	return fmt.Sprintf("%s; %s (actions: %s), or send the update %s with %s",
		strings.TrimSuffix(r.Advice, "."), more, list(r.Answers), ResolveUpdate, paste(r, r.Answers[0]))
}

// paste is the argument of the update that answers a request.
func paste(r *request, v team.Verb) string {
	if v == team.Rejecting {
		return fmt.Sprintf(`{"request": %q, "action": %q, "note": "what to change", "by": "your name"}`, r.ID, v)
	}
	return fmt.Sprintf(`{"request": %q, "action": %q, "by": "your name"}`, r.ID, v)
}

// requestPage says what a person has to look at, in the Web UI, and what to send
// from there.
func (s *session) requestPage(r *request) []string {
	title := fmt.Sprintf("### Help needed: %s/%s", r.Phase, r.Persona)
	if r.Kind == team.ForApproval {
		title = "### Approval needed: phase " + r.Phase
	}
	lines := []string{title, ""}
	if r.Category != "" {
		lines = append(lines, fmt.Sprintf("%s: %s", r.Category, r.Message), "")
	} else {
		lines = append(lines, r.Message, "")
	}
	for i, f := range r.Attempts {
		lines = append(lines, fmt.Sprintf("%d. %s: %s", i+1, f.Category, f.Message))
	}
	if len(r.Attempts) > 0 {
		lines = append(lines, "")
	}
	lines = append(lines, r.Advice, "", fmt.Sprintf("Cost of it so far: %d tokens, %s USD.", r.Usage.Tokens(), r.Usage.CostUSD))
	if !r.Until.IsZero() {
		lines = append(lines, "Without an answer the session ends at "+r.Until.Format("2006-01-02 15:04 UTC")+".")
	}
	lines = append(lines, "")
	if r.Ticket != nil {
		lines = append(lines, ticketLine(*r.Ticket), "")
	}
	if len(r.Answers) == 0 {
		return lines
	}
	lines = append(lines, fmt.Sprintf("**To go on from here**: More Actions, Send an Update, name `%s`, and as input one of:", ResolveUpdate), "", "```json")
	for _, v := range r.Answers {
		if v != team.Supplying { // needs files, which only the command can store
			lines = append(lines, paste(r, v))
		}
	}
	return append(lines, "```", "")
}

// ticketLine says which ticket there is, or why there is none.
func ticketLine(t team.Ticket) string {
	line := "Ticket: none yet."
	if t.Key != "" {
		line = fmt.Sprintf("Ticket: [%s](%s).", t.Key, t.URL)
	}
	if t.Trouble != "" {
		line += " " + t.Trouble
	}
	return line
}
