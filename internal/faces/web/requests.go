package web

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
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

// answer is a form of a card.
func (s *site) answer(r *http.Request) (page, error) {
	id, back := r.PathValue("session"), returnTo(r)
	a := control.AnswerBody{Action: session.Action(r.PostFormValue("action")), Note: strings.TrimSpace(r.PostFormValue("note"))}
	doc, err := s.Requests.Answer(r.Context(), control.AnswerInput{Session: id, Request: r.PathValue("request"), Body: a})
	switch {
	case failedWith(err, control.Conflict):
		p := problemOf(err)
		p.Title = "The request was not answered"
		return page{}, p
	case err == nil && !doc.Taken:
		return done(back, "left", id), nil
	case err == nil && doc.Answer.Left > 0:
		return done(back, "counted", id), nil
	}
	return done(back, string(a.Action), id), err
}

// supply is a form with the files that stand for the work of an assignment.
func (s *site) supply(r *http.Request) (page, error) {
	id := r.PathValue("session")
	file, _, err := r.FormFile("files")
	if err != nil {
		return page{}, &problem{
			Status: http.StatusUnprocessableEntity, Title: "Please choose the files",
			Text: "The form has no archive.",
		}
	}
	defer file.Close() //nolint:errcheck // only read
	files, err := s.Starts.Upload(r.Context(), control.Recipient{Session: id}, file)
	if err == nil {
		_, err = s.Requests.Answer(r.Context(), control.AnswerInput{
			Session: id, Request: r.PathValue("request"), Body: control.AnswerBody{Action: session.AnswerSupply, Files: files.Workspace},
		})
	}
	return done(returnTo(r), string(session.AnswerSupply), id), err
}

// raise is a form that raises a budget.
func (s *site) raise(r *http.Request) (page, error) {
	id := r.PathValue("session")
	raise := control.Raise{Note: strings.TrimSpace(r.PostFormValue("note"))}
	if err := readAmount(r, &raise); err != nil {
		return page{}, wrongInput("Please correct the amount", err)
	}
	_, err := s.Money.Raise(repeatable(r), id, raise)
	return done(returnTo(r), "raised", id), err
}

// readAmount reads what is added to a budget.
func readAmount(r *http.Request, raise *control.Raise) error {
	if err := readUSD(r, &raise.USD); err != nil {
		return err
	}
	var err error
	if raise.Tokens, err = wholeNumber(r, "tokens", "tokens", 500_000); err != nil {
		return err
	}
	if raise.USD <= 0 && raise.Tokens <= 0 {
		return errors.New("enter an amount in USD or in tokens that is more than 0")
	}
	scope := r.PostFormValue("scope")
	raise.Session = scope == budget.SessionScope
	raise.Phase, raise.Persona = budget.Part(scope)
	return nil
}

// returnTo is the page that a form is on. It is one of this site.
func returnTo(r *http.Request) string {
	back := r.PostFormValue("return")
	if u, err := url.Parse(back); err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(back, "/") ||
		strings.HasPrefix(back, "//") || strings.ContainsAny(back, "\\\r\n") {
		return "/inbox"
	}
	return back
}

// saidTexts say what a form has done. %s is a session.
var saidTexts = map[string]string{
	string(session.AnswerApprove): "Approved. Session %s continues.",
	string(session.AnswerReject):  "Rejected. Session %s does the phase again with your note.",
	string(session.AnswerRetry):   "Session %s tries again.",
	string(session.AnswerSkip):    "Session %s continues as the request says.",
	string(session.AnswerSupply):  "Session %s checks your files.",
	string(session.AnswerAbort):   "Session %s ends.",
	"approved":                    "The chosen phases are approved. Their sessions continue.",
	"counted":                     "Approved. Session %s waits for the approval of others.",
	"left":                        "The answer is stored. Session %s takes it as soon as a worker runs.",
	"resumed":                     "Session %s goes on.",
	"forked":                      "Session %s is started.",
	"raised":                      "The budget of session %s is raised.",
	"cancel":                      "Session %s ends as soon as its agents have stopped.",
	"settled":                     "The cost of session %s is settled.",
	"day":                         "The daily budget of team %s is raised, until midnight UTC.",
	"registered":                  "The version is registered. New sessions of the team get it.",
	"unchanged":                   "This is the newest version already.",
	"examined":                    "Everything was examined again.",
	"trip":                        "The breaker is open.",
	"reset":                       "The breaker is closed.",
}

// done leads from a form to the page that it is on, which says what was done.
func done(back, what, id string) page {
	u, err := url.Parse(back)
	if err != nil {
		u = &url.URL{Path: "/inbox"}
	}
	q := u.Query()
	q.Set("said", what)
	if id != "" {
		q.Set("of", id)
	}
	u.RawQuery = q.Encode()
	return page{Next: u.String()}
}

// said is what the form has done that led to a page; empty: none has.
func said(r *http.Request) string {
	q := r.URL.Query()
	text := saidTexts[q.Get("said")]
	if id := q.Get("of"); strings.Contains(text, "%s") {
		if spec.CheckSession(id) != nil {
			return ""
		}
		return strings.Replace(text, "%s", id, 1)
	}
	return text
}
