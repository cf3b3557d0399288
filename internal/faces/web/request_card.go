package web

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/ops/control"
)

// RequestCard is a request and the form that answers it.
type RequestCard struct {
	control.InboxEntry
	Look
	// Key names the card's elements on the page.
	Key string
	// Subject is whose work it is about, and Need what it is for.
	Subject, Need        string
	Answers, FurtherOnes []AnswerButton
	Supply, Notice       bool
	// Raise is the budget that can be raised here; nil: none can.
	Raise *session.BudgetRaise
	// Scope names it in the form.
	Scope string
	// Command answers it where the page cannot.
	Command string
	// Denied: the person who looks may not answer it.
	Denied bool
	// Return is the page that the form returns to.
	Return string
	Now    time.Time
	// OwnPage: the card is on its session's page, or with Review on that of its phase.
	OwnPage, Review bool
	// Bulk: it can be approved together with others. Unfolded: its row in the inbox is open at first.
	Bulk, Unfolded bool
	// Title and About are what a line of the inbox says of it: what the session is about, and what was done or has happened.
	Title, About string
}

// AnswerButton is an answer that a request takes.
type AnswerButton struct {
	session.Choice
	Class string
}

// maxTitle is how many characters of a requirement the line of a request has.
const maxTitle = 100

// answerClasses are how the buttons of answers look.
var answerClasses = map[session.Action]string{
	session.AnswerApprove: "primary", session.AnswerReject: "danger", session.AnswerRetry: "primary", session.AnswerAbort: "danger",
}

// card makes a card of an entry of the inbox.
func (s *site) card(ctx context.Context, e control.InboxEntry, back string) RequestCard {
	c := RequestCard{
		InboxEntry: e, Look: lookOf(e.Kind), Key: keyOf(e.Session, e.ID), Subject: subject(e.Request), Need: e.Need(),
		Notice: e.NoticeOnly(), Return: back, Now: s.Now(),
	}
	if e.ID == "" {
		c.Subject, c.Need = "session "+e.Session, e.Kind.Rule().Need
	}
	if e.Stuck {
		c.Need = "makes no progress"
	}
	c.Denied = isForOthers(ctx, e)
	if e.Raise != nil && e.Raise.Scope != session.BudgetOfDay {
		c.Raise, c.Scope = e.Raise, strings.TrimSpace(string(e.Raise.Scope)+" "+e.Raise.Name)
	}
	for _, choice := range e.Choices {
		button := AnswerButton{choice, answerClasses[choice.Action]}
		if c.Notice || c.Raise != nil && button.Class == "primary" {
			button.Class = ""
		}
		switch {
		case choice.NeedsFiles:
			c.Supply = true
		case len(c.Answers) == 0 || choice.NeedsNote:
			c.Answers = append(c.Answers, button)
		default:
			c.FurtherOnes = append(c.FurtherOnes, button)
		}
	}
	if len(e.Commands) > 0 {
		c.Command = e.Commands[0]
	}
	c.Bulk = !c.Denied && slices.ContainsFunc(e.Choices,
		func(choice session.Choice) bool { return choice.Action == session.AnswerApprove })
	about, said := e.Requirement, e.Message
	if e.Kind.OfPhase() {
		said = cmp.Or(e.Summary, e.Message)
	}
	if about, _, _ = strings.Cut(strings.TrimSpace(about), "\n"); about == "" {
		about = c.Subject + " " + c.Need
	}
	c.Title, c.About = safetext.Clip(about, maxTitle), safetext.Clip(said, 2*maxTitle)
	return c
}

// isForOthers reports whether others than the person who looks have to answer a request.
func isForOthers(ctx context.Context, e control.InboxEntry) bool {
	return !may(ctx, control.PermissionToAnswer(e.Kind.OfPhase()), e.Team) ||
		e.Quorum != nil && len(e.Actions) > 0 && len(e.Choices) == 0
}

// pageOf is the page on which a request is answered.
func pageOf(e control.InboxEntry) string {
	switch {
	case e.Kind.OfPhase() && e.Phase != "":
		return phaseURL(e.Session, e.Phase) + "#changes"
	case e.Persona != "":
		return assignmentURL(e.Session, e.Phase, e.Persona)
	}
	return sessionURL(e.Session)
}

// keyOf is a short name for what other names identify, fit for an element's id.
func keyOf(names ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(names, "\x00")))
	return hex.EncodeToString(sum[:5])
}

// cardsOf are the cards of a session's own page.
func (s *site) cardsOf(ctx context.Context, v session.Status, back string) []RequestCard {
	var cards []RequestCard
	for _, e := range control.EntriesOf(v) {
		e.Choices = control.ChoicesFor(ctx, e.Quorum, e.Choices)
		c := s.card(ctx, e, back)
		c.OwnPage = true
		cards = append(cards, c)
	}
	return cards
}
