package web

import (
	"fmt"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/ops/control"
)

// Look is how a state is shown: a tone of the stylesheet, an icon, and a word. None of them is
// needed to understand the others.
type Look struct{ Tone, Icon, Word string }

// looks are those of what has one, by its state.
var looks = map[any]Look{
	session.Completed:         {"good", "check", "Completed"},
	session.Restored:          {"good", "reuse", "Reused"},
	session.Supplied:          {"good", "person", "Supplied"},
	session.Skipped:           {"quiet", "skip", "Skipped"},
	session.Running:           {"active", "run", "Running"},
	session.Admitted:          {"active", "run", "Starting"},
	session.Waiting:           {"slow", "clock", "Waiting"},
	session.WaitingForBreaker: {"slow", "breaker", "Waiting for breaker"},
	session.AwaitingApproval:  {"ask", "person", "Needs approval"},
	session.HelpIsNeeded:      {"bad", "help", "Needs help"},
	session.Failed:            {"bad", "cross", "Failed"},
	session.WasCancelled:      {"quiet", "stop", "Cancelled"},
	session.Pending:           {"quiet", "circle", "Pending"},

	session.ForApproval: {"ask", "person", "Approval"},
	session.ForBudget:   {"slow", "money", "Budget"},
	session.ForOutage:   {"slow", "clock", "Outage"},
	session.ForHelp:     {"bad", "help", "Help"},

	session.BreakerIsOpen:   {"bad", "breaker", "Open"},
	session.BreakerHalfOpen: {"slow", "clock", "Probing"},
	session.BreakerClosed:   {"good", "check", "Closed"},

	control.ResultBad:     {"bad", "cross", "Bad"},
	control.ResultWarning: {"slow", "help", "Warning"},
	control.ResultOK:      {"good", "check", "OK"},

	access.Done:    {"good", "check", "Done"},
	access.Failed:  {"bad", "cross", "Failed"},
	access.Denied:  {"slow", "stop", "Denied"},
	access.Unknown: {"quiet", "circle", "Unknown"},
}

// lookOf is the look of a state. An assignment that waits for a breaker says so.
func lookOf(state any) Look {
	if a, ok := state.(session.AssignmentStatus); ok {
		state = a.Status
		if a.Awaits != nil {
			state = session.WaitingForBreaker
		}
	}
	if l, known := looks[state]; known {
		return l
	}
	return Look{"quiet", "circle", safetext.Clip(fmt.Sprint(state), 40)}
}

// icons are drawn in a square of 16 by 16.
var icons = map[string]string{
	"check":   "M3 8.5l3.2 3.2L13 5",
	"cross":   "M4 4l8 8M12 4l-8 8",
	"run":     "M13.5 8a5.5 5.5 0 1 1-2-4.2",
	"clock":   "M8 2.5a5.5 5.5 0 1 0 0 11a5.5 5.5 0 0 0 0-11zM8 5v3.2l2 1.3",
	"breaker": "M2 11h3l5-6M11 11h3M10 5.2V5",
	"person":  "M8 8a2.6 2.6 0 1 0 0-5.2A2.6 2.6 0 0 0 8 8zM3 13.5c.6-2.3 2.5-3.4 5-3.4s4.4 1.1 5 3.4",
	"help":    "M8 2l6.5 11.500h-13zM8 6.500v3M8 11.600v.1",
	"circle":  "M8 3a5 5 0 1 0 0 10A5 5 0 0 0 8 3z",
	"stop":    "M8 2.500a5.5 5.5 0 1 0 0 11a5.5 5.5 0 0 0 0-11zM4.2 4.200l7.6 7.6",
	"skip":    "M3 4l5 4-5 4zM9 4l4 4-4 4",
	"reuse":   "M3 7.500A5 5 0 0 1 12 5M13 2.500V5.500H10M13 8.500A5 5 0 0 1 4 11M3 13.500v-3h3",
	"money": "M8 1.800v12.400M11 4.700c-.5-1-1.6-1.5-3-1.500c-1.8 0-3 .8-3 2.300c0 3.2 6 1.5 6 4.800c0 1.5-1.3 2.4-3 " +
		"2.400c-1.6 0-2.8-.6-3.2-1.7",
	"inbox":   "M2 9.500V12.500h12V9.500M2 9.500L4 3.500h8l2 6M2 9.500h3.500l1 1.500h3l1-1.500H14",
	"list":    "M5.5 4H14M5.5 8H14M5.5 12H14M2.3 4v.01M2.3 8v.01M2.3 12v.01",
	"history": "M2.5 8A5.5 5.5 0 1 0 4.3 3.900M2.5 2.500v2.700h2.700M8 5v3.200l2 1.3",
	"operate": "M2 4.500h7M12.5 4.500H14M2 11.500h1.500M7 11.500h7M10.7 2.700v3.600M5.3 9.700v3.6",
	"plus":    "M8 3v10M3 8h10",
	"sun": "M8 5.200a2.8 2.8 0 1 0 0 5.600a2.8 2.8 0 0 0 0-5.600zM8 1.500v1.200M8 13.300v1.200M1.5 8h1.200M13.3 8h1.200M3.4 " +
		"3.400l.8.8M11.8 11.800l.8.8M3.4 12.600l.8-.8M11.8 4.200l.8-.8",
	"search":   "M7 2.500a4.5 4.5 0 1 0 0 9a4.5 4.5 0 0 0 0-9zM10.3 10.300L14 14",
	"copy":     "M5.5 5.500h8v8h-8zM3.5 10.500h-1v-8h8v1",
	"file":     "M4 1.800h5l3.5 3.500v9H4zM9 1.800v3.500h3.5",
	"fork":     "M4.5 3.500v9M4.5 8.500c0-2 7-1 7-4.500M11.5 2.500v1.500M4.5 2.500v1M4.5 12.500v1",
	"flag":     "M4 14V2.500h8l-1.8 2.800L12 8H4",
	"info":     "M8 2.500a5.5 5.5 0 1 0 0 11a5.5 5.5 0 0 0 0-11zM8 7.300v3.400M8 5v.1",
	"tool":     "M9.5 6.5l-6 6M13.5 5a3 3 0 0 1-4.300 2.700A3 3 0 0 1 11 2.500l.300 2.200z",
	"external": "M6.5 3.500h-3v9h9v-3M9 2.500h4.500V7M13.5 2.500L7.5 8.5",
}
