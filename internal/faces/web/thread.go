package web

import (
	"fmt"
	"slices"
	"time"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/ops/sessionstatus"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
)

// threadEntry is an entry of a session's discussion: what a person has decided, why an agent sent work back, or
// what an agent says of its work.
type threadEntry struct {
	Look
	At time.Time
	// By is who it is from, and What what that person or agent did.
	By, What string
	// Of is what it is about, with the address of its page; both are empty for the session as a whole.
	Of, URL string
	Text    string
}

// maxThread bounds the discussion that a page shows: the newest.
const maxThread = 150

// threadOf is the discussion of a session, the oldest first.
func threadOf(id string, work control.Work) []threadEntry {
	var all []threadEntry
	for _, i := range work.Interventions {
		all = append(all, interventionEntry(id, i))
	}
	for _, a := range work.Attempts {
		if a.Summary != "" && !a.Supplied {
			p := threadEntry{
				Look: lookOf(a.Status), At: a.Ended(), By: a.AssignmentID.String(), URL: attemptURL(id, a), Text: a.Summary,
				What: "finished",
			}
			if p.Word = ""; a.Pass > 1 {
				p.What = fmt.Sprintf("finished pass %d", a.Pass)
			}
			all = append(all, p)
		}
	}
	slices.SortStableFunc(all, func(a, b threadEntry) int { return a.At.Compare(b.At) })
	return all[max(len(all)-maxThread, 0):]
}

// ofPhase is the part of the work, and of what was said of it, that is about a phase.
func ofPhase(work control.Work, phase string) control.Work {
	work.Attempts = slices.DeleteFunc(slices.Clone(work.Attempts), func(a control.Attempt) bool { return a.Phase != phase })
	work.Interventions = slices.DeleteFunc(slices.Clone(work.Interventions),
		func(i sessionstatus.Intervention) bool { return i.Phase != phase })
	return work
}

// did are what people and agents did to the course of a session, as the words between who and what.
var did = map[session.Action]Look{
	session.AnswerApprove:  {"good", "check", "approved"},
	session.AnswerReject:   {"bad", "cross", "rejected"},
	session.AnswerRetry:    {"active", "reuse", "let try again"},
	session.AnswerSkip:     {"quiet", "skip", "let go on without"},
	session.AnswerSupply:   {"good", "person", "supplied the files of"},
	session.AnswerAbort:    {"bad", "stop", "ended the session at"},
	sessionstatus.SendBack: {"slow", "reuse", "sent back"},
	sessionstatus.Raise:    {"slow", "money", "raised the budget"},
}

func interventionEntry(id string, i sessionstatus.Intervention) threadEntry {
	p := threadEntry{Look: did[i.Action], At: i.At, By: i.By, Of: i.Subject(), Text: i.Text}
	p.What = p.Word
	switch {
	case i.Action == sessionstatus.Raise:
		p.What = "raised the budget by " + terminal.Amount(i.Added) + " of"
	case i.Left > 0:
		p.What = fmt.Sprintf("approved, with %d to go,", i.Left)
	}
	if p.Of == "" {
		p.Of = "the session"
	}
	switch {
	case i.Persona != "":
		p.URL = assignmentURL(id, i.Phase, i.Persona)
	case i.Phase != "":
		p.URL = phaseURL(id, i.Phase)
	}
	return p
}

// told is what an attempt got as feedback, the newest cause first: why the attempt before failed, why the
// work was sent back, and what a person added.
func told(work control.Work, a control.Attempt) (feedback []threadEntry) {
	var before *control.Attempt
	for i, other := range work.Attempts {
		if other.AssignmentID == a.AssignmentID && other.StartedAt.Before(a.StartedAt) {
			before = &work.Attempts[i]
		}
	}
	if before != nil && before.Status == session.Failed && before.Pass == a.Pass {
		text := before.Message
		if before.Output != "" {
			text += "\n" + before.Output
		}
		feedback = append(feedback, threadEntry{
			Look: lookOf(session.Failed), At: before.Ended(), By: attemptName(*before), What: "failed: " + string(before.Category),
			Text: text,
		})
	}
	for _, i := range slices.Backward(work.Interventions) {
		if i.At.After(a.StartedAt) || i.Text == "" || !concerns(i, a.AssignmentID) {
			continue
		}
		again := i.Action == session.AnswerReject || i.Action == sessionstatus.SendBack
		if again && a.Pass > 1 || i.Action == session.AnswerRetry && (before == nil || i.At.After(before.StartedAt)) {
			feedback = append(feedback, interventionEntry(work.Session, i))
		}
		if again {
			break
		}
	}
	return feedback
}

// concerns reports whether an agent that works on an assignment learns of an intervention.
func concerns(i sessionstatus.Intervention, id spec.AssignmentID) bool {
	if i.Action == session.AnswerReject || i.Action == sessionstatus.SendBack {
		return true // what needs the phase is done again, too
	}
	return i.Phase == id.Phase && (i.Persona == "" || i.Persona == id.Persona)
}
