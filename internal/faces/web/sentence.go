package web

import (
	"fmt"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
)

// Sentence says what a session does or waits for.
type Sentence struct {
	Look
	Text string
	// Request is the id of the request that it waits with; empty: none.
	Request string
}

const (
	// maxWhy is how many characters of a reason a sentence has.
	maxWhy = 240
	// shownNames is how many of the assignments at work a sentence names.
	shownNames = 3
)

// sentenceOf says what a session does or waits for at a moment.
func sentenceOf(s session.Status, now time.Time) Sentence {
	say := func(format string, args ...any) Sentence {
		return Sentence{Look: lookOf(s.Status), Text: fmt.Sprintf(format, args...)}
	}
	switch s.Status {
	case session.Admitted:
		return say("Waits for a worker to begin the first phase.")
	case session.Completed:
		return say("Completed %s%s%s.", phases(len(s.Phases)), spent(s, now), costOf(s))
	case session.Failed:
		return say("Failed%s: %s", spent(s, now), why(s.Reason, "the reason is not known"))
	case session.WasCancelled:
		return say("Cancelled%s. %s", spent(s, now), doneOf(s))
	case session.HelpIsNeeded, session.AwaitingApproval:
		return waitsForPerson(s, now)
	case session.WaitingForBreaker:
		return waitsForBreaker(s, now)
	case session.Running, session.Pending, session.Waiting, session.Restored, session.Supplied, session.Skipped:
	}
	return works(s, now)
}

// waitsForPerson is about the request that has waited longest.
func waitsForPerson(s session.Status, now time.Time) Sentence {
	var first *session.Request
	open := 0
	for i, h := range s.Help {
		if h.Kind.NoticeOnly() {
			continue
		}
		open++
		if first == nil || h.Since.Before(first.Since) {
			first = &s.Help[i]
		}
	}
	if first == nil {
		return Sentence{Look: lookOf(s.Status), Text: "Waits for a person: " + why(s.Reason, "what for is not known yet")}
	}
	text := "Waits for a person" + since(first.Since, now) + ": " + subject(*first) + " " + first.Need()
	if first.Message != "" && !first.Kind.OfPhase() {
		text += ": " + why(first.Message, "")
	}
	text = strings.TrimRight(text, ".") + "."
	if open > 1 {
		text += fmt.Sprintf(" %s open.", terminal.Verbed(open-1, "further request", "is", "are"))
	}
	if !first.Until.IsZero() {
		text += " Without an answer the session fails in " + terminal.Age(first.Until.Sub(now)) + "."
	}
	return Sentence{Look: lookOf(s.Status), Text: text, Request: first.ID}
}

// subject names what a request is about.
func subject(h session.Request) string {
	if h.Persona == "" {
		return "phase " + h.Phase
	}
	return h.Phase + "/" + h.Persona
}

func waitsForBreaker(s session.Status, now time.Time) Sentence {
	for _, p := range s.Phases {
		for _, a := range p.Assignments {
			if a.Awaits == nil {
				continue
			}
			until := ", until it is reset"
			if a.Awaits.Until != nil {
				until = ", for another " + terminal.Age(a.Awaits.Until.Sub(now))
			}
			return Sentence{Look: lookOf(s.Status), Text: fmt.Sprintf("%s/%s waits for breaker %s%s%s: %s. It continues by itself.",
				p.Name, a.Persona, a.Awaits.Breaker, since(a.Awaits.Since, now), until, why(a.Awaits.Why, "the agent has failed"))}
		}
	}
	return Sentence{Look: lookOf(s.Status), Text: "Waits for a breaker: " + why(s.Reason, "the agent has failed") +
		". It continues by itself."}
}

// works names who works on what, and what is waited for besides.
func works(s session.Status, now time.Time) Sentence {
	var at, waits []string
	for _, p := range s.Phases {
		atWork, done := 0, 0
		for _, a := range p.Assignments {
			switch {
			case a.Awaits != nil:
				waits = append(waits, p.Name+"/"+a.Persona+" waits for breaker "+a.Awaits.Breaker)
			case a.Status == session.Running:
				atWork++
				at = append(at, a.Persona+" on "+p.Name+attemptOf(a))
			case a.Status == session.Waiting && a.Progress != "":
				waits = append(waits, p.Name+"/"+a.Persona+": "+why(session.WithoutNextLook(a.Progress), ""))
			case a.Status == session.Waiting:
				waits = append(waits, p.Name+"/"+a.Persona+" waits for its next attempt")
			case a.Status.Done():
				done++
			}
		}
		if p.Status == session.Running && atWork == 0 && done == len(p.Assignments) {
			at = append(at, "the merge of "+p.Name)
		}
	}
	look := lookOf(session.Running)
	switch {
	case len(at) > 0:
		text := "Works: " + textfmt.FirstOf(at, shownNames) + ". " + doneOf(s)
		if len(waits) > 0 {
			text += " " + textfmt.FirstOf(waits, shownNames) + "."
		}
		return Sentence{Look: look, Text: text}
	case len(waits) > 0:
		return Sentence{Look: lookOf(session.Waiting), Text: strings.TrimRight(textfmt.FirstOf(waits, shownNames), ".") + ". " +
			doneOf(s)}
	}
	return Sentence{Look: look, Text: "Begins its next phase. " + doneOf(s)}
}

func attemptOf(a session.AssignmentStatus) string {
	if a.Attempts == 0 {
		return ""
	}
	return fmt.Sprintf(" (attempt %d)", a.Attempts+1)
}

func doneOf(s session.Status) string {
	done := 0
	for _, p := range s.Phases {
		if p.Status.Done() {
			done++
		}
	}
	return fmt.Sprintf("%d of %s done.", done, phases(len(s.Phases)))
}

func phases(n int) string { return textfmt.Count(n, "phase") }

func since(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return " since " + terminal.Age(now.Sub(t))
}

func spent(s session.Status, now time.Time) string {
	if s.StartedAt == nil {
		return ""
	}
	return " after " + took(s.StartedAt, s.ClosedAt, now)
}

func costOf(s session.Status) string {
	switch {
	case s.Usage.CostUSD > 0:
		return ", for " + dollars(s.Usage.CostUSD)
	case s.Usage.Tokens() > 0:
		return ", with " + terminal.Number(s.Usage.Tokens()) + " tokens"
	}
	return ""
}

// why is a text of others in a sentence.
func why(text, otherwise string) string {
	if text = safetext.Clip(text, maxWhy); text == "" {
		return otherwise
	}
	return text
}
