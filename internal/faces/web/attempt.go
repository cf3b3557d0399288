package web

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/models/transcript"
	"github.com/maestro-hive/maestro/internal/ops/control"
)

const (
	// windowLines is how many lines of a conversation a page has.
	windowLines = 1500
	// maxMatches bounds what a search shows.
	maxMatches = 100
)

// AttemptView is an attempt in a list.
type AttemptView struct {
	control.Attempt
	Look
	URL, Name, Started string
	Current            bool
}

// assignmentPage is the content of an assignment's page, and of one of its attempts.
type assignmentPage struct {
	Session  session.Status
	ID       spec.AssignmentID
	Status   session.AssignmentStatus
	Attempts []AttemptView
	Cards    []RequestCard
	// Attempt is the one that is shown; nil: none is.
	Attempt *AttemptView
	// Told is the feedback that it got.
	Told    []threadEntry
	Talk    talk
	Changes Changes

	work control.Work
}

// talk is a conversation, as far as a page shows it.
type talk struct {
	transcript.Window
	// Known: there is a transcript. Running: it grows.
	Known, Running bool
	// Hit is the number of the line that is looked for; zero: none is.
	Hit                  int
	Query                string
	Matches              []transcript.Match
	More                 bool
	EarlierURL, LaterURL string
	Path                 string
}

// Has reports whether the line that is looked for is in an item.
func (t talk) Has(i transcript.Item) bool {
	last := i.Line + len(i.Body) + strings.Count(i.Head, "\n")
	if i.Fold { // its head is no line
		last--
	}
	return t.Hit >= i.Line && t.Hit <= last
}

func (s *site) assignment(r *http.Request) (page, error) {
	content, err := s.assignmentOf(r)
	return page{View: "assignment", Title: content.ID.String() + " of " + content.Session.Session, Content: content}, err
}

// assignmentOf reads what the pages of an assignment and of its attempts have in common.
func (s *site) assignmentOf(r *http.Request) (content assignmentPage, err error) {
	id := r.PathValue("session")
	content = assignmentPage{
		ID: spec.AssignmentID{Phase: r.PathValue("phase"), Persona: r.PathValue("persona")},
	}
	v, err := s.Sessions.Read(r.Context(), id)
	if err != nil {
		return content, err
	}
	content.Session = v.Status
	status := content.Session.Assignment(content.ID)
	if status == nil {
		text := "Session " + id + " has no assignment " + content.ID.String() + "."
		return content, &problem{Status: http.StatusNotFound, Title: "Assignment not found", Text: text, Back: sessionURL(id)}
	}
	content.Status = *status
	work, err := s.Attempts.Work(r.Context(), id)
	if err != nil && !unavailable(err) {
		return content, err
	}
	content.work, content.Attempts = work, attemptViews(id, content.ID, work.Attempts)
	for _, c := range s.cardsOf(r.Context(), v.Status, r.URL.Path) {
		if c.Phase == content.ID.Phase && c.Persona == content.ID.Persona {
			content.Cards = append(content.Cards, c)
		}
	}
	return content, nil
}

var startTexts = map[failures.Start]string{
	failures.FromFiles:        "from the files of the attempt before",
	failures.FromConversation: "in the conversation of the attempt before",
}

// attemptViews are the attempts of one assignment.
func attemptViews(id string, as spec.AssignmentID, all []control.Attempt) []AttemptView {
	var views []AttemptView
	for _, a := range all {
		if a.AssignmentID == as {
			views = append(views, AttemptView{
				Attempt: a, Look: lookOf(a.Status), Started: startTexts[a.From], URL: attemptURL(id, a),
				Name: attemptName(a),
			})
		}
	}
	return views
}

// attemptName names an attempt among those of its assignment: its pass only where there are several.
func attemptName(a control.Attempt) string {
	name := fmt.Sprintf("round %d, attempt %d", a.Round, a.Attempt)
	if a.Again {
		name = fmt.Sprintf("pass %d, %s", a.Pass, name)
	}
	return name
}

func attemptURL(id string, a control.Attempt) string {
	number := fmt.Sprintf("%d.%d", a.Round, a.Attempt)
	if a.Again {
		number = fmt.Sprintf("%d.%s", a.Pass, number)
	}
	return assignmentURL(id, a.Phase, a.Persona) + "/attempts/" + number
}

// refOf reads ROUND.ATTEMPT or PASS.ROUND.ATTEMPT. Without a pass it is the last one that has
// such an attempt.
func refOf(text string) (pass, round, attempt int) {
	if n, _ := fmt.Sscanf(text, "%d.%d.%d", &pass, &round, &attempt); n < 3 {
		pass = 0
		_, _ = fmt.Sscanf(text, "%d.%d", &round, &attempt) // no attempt has the number 0
	}
	return pass, round, attempt
}

func (s *site) attempt(r *http.Request) (page, error) {
	content, err := s.assignmentOf(r)
	if err != nil {
		return page{}, err
	}
	pass, round, n := refOf(r.PathValue("attempt"))
	for i := range slices.Backward(content.Attempts) {
		a := &content.Attempts[i]
		if a.Round == round && a.Attempt.Attempt == n && (pass == 0 || a.Pass == pass) {
			a.Current, content.Attempt = true, a
			break
		}
	}
	if content.Attempt == nil {
		text := content.ID.String() + " has no attempt " + r.PathValue("attempt") + "."
		return page{}, &problem{Status: http.StatusNotFound, Title: "Attempt not found", Text: text}
	}
	content.Told = told(content.work, content.Attempt.Attempt)
	in := control.DiffInput{Session: content.Session.Session, Attempt: &content.Attempt.AttemptRef}
	if patch, err := s.patch(r, in); patch != nil || err != nil {
		return page{File: patch}, err
	}
	if content.Talk, err = s.talk(r.Context(), r, content.Session.Session, content.Attempt.Attempt); err != nil {
		return page{}, err
	}
	if content.Attempt.Status != session.Running {
		if content.Changes, err = s.changes(r.Context(), r, in); err != nil {
			content.Changes = Changes{None: "The changes of this attempt cannot be shown: " + err.Error()}
		}
	}
	return page{View: "attempt", Title: content.Attempt.Name + " of " + content.ID.String(), Content: content}, nil
}

// talk reads the part of a conversation that a request is for.
func (s *site) talk(ctx context.Context, r *http.Request, id string, a control.Attempt) (talk, error) {
	q := r.URL.Query()
	f := filterOf(r, "q")
	t := talk{Running: a.Status == session.Running, Query: f.Get("q"), Path: r.URL.Path}
	text, known, err := s.Attempts.Transcript(ctx, id, a)
	if err != nil || !known {
		return t, err
	}
	t.Known = true
	last, _ := strconv.Atoi(q.Get("upto"))
	t.Hit, _ = strconv.Atoi(q.Get("line"))
	if t.Hit > 0 && last == 0 {
		last = t.Hit + windowLines/2
	}
	t.Window = transcript.WindowOf(text, max(last, 0), windowLines)
	t.Matches, t.More = transcript.Find(text, t.Query, maxMatches)
	upTo := func(line int) string { return f.With("upto", strconv.Itoa(line)) + "#conversation" }
	if t.First > 1 {
		t.EarlierURL = upTo(t.First - 1)
	}
	if t.Last < t.Total {
		t.LaterURL = upTo(t.Last + windowLines)
	}
	return t, nil
}
