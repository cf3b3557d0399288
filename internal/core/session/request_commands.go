package session

import (
	"fmt"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/spec"
)

// Command is a command line that answers a request.
type Command struct {
	// Line is without the program's name.
	Line string
	Does string
}

// Subject is the work that a request is about: an assignment, or a phase.
func (h Request) Subject() string {
	if h.Persona == "" {
		return h.Phase
	}
	return spec.AssignmentID{Phase: h.Phase, Persona: h.Persona}.String()
}

// Commands lists the commands that answer one of a session's open requests. The one that continues
// the session is first.
func (h Request) Commands(sessionID string, open []Request) []Command {
	selector, several := h.Selector(), false
	if len(open) > 1 && selector == "" {
		selector = " --for " + h.Subject()
	}
	for _, o := range open {
		several = several || h.Raise != nil && o.Raise != nil && *o.Raise != *h.Raise
	}
	return h.commands(sessionID, selector, h.Selector(), several)
}

// LastingCommands lists the commands that answer the request and, whenever they run, no other one.
func (h Request) LastingCommands(sessionID string) []Command {
	id := " --request " + h.ID
	return h.commands(sessionID, id, id, true)
}

// Again reports whether there may have been an earlier request about the same work, because it was done again or the
// session was continued: a command without the request's id may mean the first one, at which its reader looked.
func (h Request) Again() bool {
	n := h.ID[strings.LastIndexByte(h.ID, '.')+1:]
	return n != "1" && n != ""
}

// Selector is what an answering command needs, so that it answers this request and no earlier or later one.
func (h Request) Selector() string {
	if h.Again() {
		return " --request " + h.ID
	}
	return ""
}

// commands has all commands. selector and ofPhase follow the session of `resolve`, and the phase of `approve` and `reject`;
// several: the session waits for several budgets, or may wait for several.
func (h Request) commands(sessionID, selector, ofPhase string, several bool) []Command {
	var all []Command
	if h.Raise != nil {
		all = append(all, Command{h.Raise.Command(sessionID, several), "continues where it stopped"})
	}
	for _, c := range h.Choices() {
		switch {
		case c.Action == AnswerApprove:
			all = append(all, Command{fmt.Sprintf("approve %s %s%s", sessionID, h.Phase, ofPhase), c.Effect})
			continue
		case c.Action == AnswerReject:
			all = append(all, Command{fmt.Sprintf("reject %s %s%s --note TEXT", sessionID, h.Phase, ofPhase), c.Effect},
				Command{fmt.Sprintf("artifacts diff %s %s", sessionID, h.Phase), "shows its changes"})
			continue
		case c.NeedsFiles:
			c.Action += " PATH"
		case c.Action == AnswerRetry && !h.Kind.NoticeOnly():
			c.Effect += "; --note TEXT gives it a hint"
		}
		all = append(all, Command{fmt.Sprintf("resolve %s %s%s", sessionID, c.Action, selector), c.Effect})
	}
	return all
}

// BudgetScope is the kind of a budget.
type BudgetScope string

// The scopes of budgets.
const (
	BudgetOfSession BudgetScope = "session"
	BudgetOfPhase   BudgetScope = "phase"
	BudgetOfPersona BudgetScope = "persona"
	// BudgetOfDay: the budget of a team for one day, shared by its sessions.
	BudgetOfDay BudgetScope = "day"
)

// BudgetRaise is a budget that a person can raise, and the units in which it can be raised.
type BudgetRaise struct {
	Scope BudgetScope `json:"scope"`
	// Name is that of the phase, the persona or the team; empty: the budget is the session's.
	Name string `json:"name,omitempty"`
	// Tokens and USD: the budget limits them, so they can be raised.
	Tokens bool `json:"tokens"`
	USD    bool `json:"usd"`
}

// Command is the command line that raises the budget, without the program's name. It names the
// session's budget if the session waits for several.
func (b BudgetRaise) Command(sessionID string, several bool) string {
	line := "budget raise " + sessionID
	switch b.Scope {
	case BudgetOfDay:
		line = "budget raise --team " + b.Name
	case BudgetOfPhase, BudgetOfPersona:
		line += fmt.Sprintf(" --%s %s", b.Scope, b.Name)
	case BudgetOfSession:
		if several {
			line += " --session"
		}
	}
	if b.Tokens {
		line += " --tokens N"
	}
	if b.USD {
		line += " --usd N"
	}
	return line
}
