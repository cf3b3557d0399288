package session

import (
	"strings"

	"github.com/maestro-hive/maestro/internal/spec"
)

// Command is a command line that answers a request.
type Command struct {
	// Line is without the program's name.
	Line string
	Does string
}

// Subject is whose work a request is about: an assignment's, or a phase's.
func (h Request) Subject() string {
	if h.Persona == "" {
		return h.Phase
	}
	return spec.AssignmentID{Phase: h.Phase, Persona: h.Persona}.String()
}

// Commands lists the commands that answer one of a session's open requests, the one that
// continues first.
func (h Request) Commands(sessionID string, open []Request) []Command {
	var all []Command
	if h.Kind == ForBudget {
		if line := strings.TrimPrefix(h.Command, "maestro "); line != "" {
			all = append(all, Command{line, "continues where it stopped"})
		}
	}
	of := ""
	if len(open) > 1 {
		of = " --for " + h.Subject()
	}
	for _, action := range h.Actions {
		switch action {
		case AnswerRetry:
			does := "tries again; --note TEXT gives it a hint"
			if h.Kind == ForOutage {
				does = "tries now, without waiting"
			}
			all = append(all, Command{"resolve " + sessionID + " retry" + of, does})
		case AnswerSkip:
			all = append(all, Command{"resolve " + sessionID + " skip" + of, "continues without this work"})
		case AnswerSupply:
			all = append(all, Command{"resolve " + sessionID + " supply PATH" + of, "uses your files, checked like an agent's"})
		case AnswerAbort:
			all = append(all, Command{"resolve " + sessionID + " abort" + of, "ends the session"})
		case AnswerApprove:
			all = append(all, Command{"approve " + sessionID + " " + h.Phase, "starts the dependent phases"})
		case AnswerReject:
			all = append(all, Command{"reject " + sessionID + " " + h.Phase + " --note TEXT", "has it done again with your note"},
				Command{"artifacts diff " + sessionID + " " + h.Phase, "shows its changes"})
		}
	}
	return all
}
