package web

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/models/config"
	"github.com/maestro-hive/maestro/internal/ops/control"
)

// maxTeamFile bounds a team file in a form, in bytes.
const maxTeamFile = 1 << 20

// teamText is a team file in a form, and what is wrong with it.
type teamText struct {
	Text     string
	Problem  string
	Problems []config.Problem
}

// choicePage is the content of the page that asks for the team of a session.
type choicePage struct {
	Teams []control.ListedTeam
	teamText
}

// startPage is the content of the page that starts a session of a team.
type startPage struct {
	startForm
	Form control.TeamForm
	// Main are the fields that most starts need, Phases those that select some of the work.
	Main, Phases, More []formField
	// Plan is what the session would do; nil: that was not asked.
	Plan *control.Plan
	// Problem is what is wrong and belongs to no field.
	Problem string
	// Errors are what is wrong with fields, by their names.
	Errors map[string]string
	// Once is the key of the form's session: a form that is sent again starts no other one.
	Once string
}

// start shows the form of a team, or asks for the team.
func (s *site) start(w http.ResponseWriter, r *http.Request) {
	f := startFormOf(r)
	if f.Team != "" {
		s.showStart(w, r, startPage{startForm: f})
		return
	}
	teams, err := s.Teams.List(r.Context())
	if err == nil && len(teams.Teams) == 1 && !r.URL.Query().Has("choose") {
		f.Team = teams.Teams[0].Name
		s.showStart(w, r, startPage{startForm: f})
		return
	}
	s.showChoice(w, r, teamText{})
}

func (s *site) showChoice(w http.ResponseWriter, r *http.Request, text teamText) {
	teams, err := s.Teams.List(r.Context())
	if err != nil && !unavailable(err) {
		s.failed(w, r, err, "/sessions")
		return
	}
	s.show(w, r, text.status(), page{View: "choose", Title: "Start a session", Tab: "sessions", Content: choicePage{Teams: teams.Teams, teamText: text}})
}

// showStart shows a form with what was entered into it.
func (s *site) showStart(w http.ResponseWriter, r *http.Request, p startPage) {
	form, err := s.Teams.Form(r.Context(), p.team())
	if err != nil {
		s.noForm(w, r, p.startForm, err)
		return
	}
	p.Form, p.Once = form, rand.Text()
	p.layOut()
	status := http.StatusOK
	if p.Problem != "" || len(p.Errors) > 0 {
		status = http.StatusUnprocessableEntity
	}
	s.show(w, r, status, page{View: "start", Title: "Start a session of " + form.Team, Tab: "sessions", Content: &p})
}

// noForm asks for another team where one has no form.
func (s *site) noForm(w http.ResponseWriter, r *http.Request, f startForm, err error) {
	if f.File == "" || !failedWith(err, control.Invalid) {
		s.failed(w, r, err, "/start?choose")
		return
	}
	s.showChoice(w, r, wrongTeamText(f.File, err))
}

// startNow is the form's answer: the form of a team file, a preview, or a session.
func (s *site) startNow(w http.ResponseWriter, r *http.Request) {
	p := startPage{startForm: startFormOf(r)}
	if text, err := uploadedText(r, "team_file"); err != nil {
		s.showChoice(w, r, teamText{Problem: err.Error()})
		return
	} else if text != "" {
		p.Team, p.File = "", text
	}
	if p.Team == "" && p.File == "" {
		s.showChoice(w, r, teamText{Problem: "Choose a team file, or paste its text."})
		return
	}
	form, err := s.Teams.Form(r.Context(), p.team())
	if err != nil {
		s.noForm(w, r, p.startForm, err)
		return
	}
	started, err := s.begin(r, form, &p)
	switch wrong, _ := errors.AsType[*control.Error](err); {
	case err == nil && started != "":
		lead(w, r, sessionURL(started))
		return
	case failedWith(err, control.Invalid, control.Conflict):
		p.wrong(wrong.Field, err)
	case err != nil:
		s.failed(w, r, err, "/start?choose")
		return
	}
	s.showStart(w, r, p)
}

// wrong says at a field what is wrong with it, or above the form where it has no such field.
func (p *startPage) wrong(field string, err error) {
	if labelOf[field] == "" {
		p.Problem = err.Error()
		return
	}
	p.Errors = map[string]string{field: err.Error()}
}

// begin shows the form, previews its session, or starts it and returns its id.
func (s *site) begin(r *http.Request, form control.TeamForm, p *startPage) (started string, err error) {
	action := r.FormValue("action")
	if action == "" { // the team was chosen
		return "", nil
	}
	if field, err := s.upload(r, &p.startForm); err != nil {
		if failedWith(err, control.Invalid) {
			p.wrong(field, err)
			return "", nil
		}
		return "", err
	}
	in, field, err := p.input(form.Schema)
	if err != nil {
		p.wrong(field, err)
		return "", nil
	}
	if action == "start" {
		doc, err := s.Starts.Start(repeatable(r), in)
		return doc.Session, err
	}
	plan, err := s.Starts.Preview(r.Context(), in)
	if err == nil {
		p.Plan = &plan
	}
	return "", err
}

// upload stores the files that a form brings. Of a failure it returns the field.
func (s *site) upload(r *http.Request, f *startForm) (field string, err error) {
	if r.MultipartForm == nil {
		return "", nil
	}
	for name, headers := range r.MultipartForm.File {
		place, ok := strings.CutPrefix(name, uploadPrefix)
		if !ok || len(headers) == 0 || headers[0].Size == 0 {
			continue
		}
		if f.Stored[place], err = s.store(r.Context(), f.team(), headers[0]); err != nil {
			field, _, _ = strings.Cut(place, "/")
			return field, err
		}
	}
	return "", nil
}

// store stores the files of an archive.
func (s *site) store(ctx context.Context, team control.TeamInput, header *multipart.FileHeader) (storedFiles, error) {
	file, err := header.Open()
	if err != nil {
		return "", err
	}
	defer file.Close() //nolint:errcheck // only read
	doc, err := s.Starts.Upload(ctx, control.Recipient{Team: team}, file)
	if err != nil {
		return "", err
	}
	note := textfmt.Count(doc.Files, "file") + ", " + textfmt.Size(doc.Bytes)
	for _, left := range doc.LeftOut() {
		note += "; left out, " + left
	}
	return storedFiles(string(doc.Workspace) + " " + note), nil
}

// wrongTeamText is a team file with what is wrong with it.
func wrongTeamText(text string, err error) teamText {
	t := teamText{Text: text, Problem: "The team file is not right."}
	var found *config.Problems
	if errors.As(err, &found) {
		t.Problems = found.List
	} else {
		t.Problem = err.Error()
	}
	return t
}

func (t teamText) status() int {
	if t.Problem != "" {
		return http.StatusUnprocessableEntity
	}
	return http.StatusOK
}

// registerPage is the content of the page that registers a team.
type registerPage struct {
	teamText
	// Team is the registered one that gets another version; empty: any.
	Team string
}

// register shows the form that registers a team, with the newest version of one.
func (s *site) register(w http.ResponseWriter, r *http.Request) {
	p := registerPage{Team: r.URL.Query().Get("team")}
	if p.Team != "" {
		doc, err := s.Teams.Read(r.Context(), p.Team, "")
		if err != nil {
			s.failed(w, r, err, "/teams")
			return
		}
		if safetext.Block(doc.File) == doc.File { // a person edits only what can be seen
			p.Text = doc.File
		}
	}
	s.showRegister(w, r, p)
}

func (s *site) showRegister(w http.ResponseWriter, r *http.Request, p registerPage) {
	if !may(r.Context(), access.Admin, p.Team) && p.Team != "" {
		s.failed(w, r, access.Check(r.Context(), access.Admin, p.Team), teamURL(p.Team))
		return
	}
	s.show(w, r, p.status(), page{View: "register", Title: "Register a team", Tab: "sessions", Content: p})
}

// registerNow registers a team.
func (s *site) registerNow(w http.ResponseWriter, r *http.Request) {
	p := registerPage{Team: r.FormValue("team")}
	text, err := uploadedText(r, "team_file")
	if p.Text = text; text == "" {
		p.Text = unixLines(r.FormValue("file"))
	}
	switch {
	case err != nil:
		p.Problem = err.Error()
	case strings.TrimSpace(p.Text) == "":
		p.Problem = "Choose a team file, or paste its text."
	}
	if p.Problem != "" {
		s.showRegister(w, r, p)
		return
	}
	doc, err := s.Teams.Register(r.Context(), control.Registration{Name: p.Team, Text: p.Text})
	switch {
	case failedWith(err, control.Invalid):
		p.teamText = wrongTeamText(p.Text, err)
		s.showRegister(w, r, p)
	case err != nil:
		s.failed(w, r, err, "/teams")
	case doc.Changed:
		done(w, r, teamURL(doc.Name), "registered", "")
	default:
		done(w, r, teamURL(doc.Name), "unchanged", "")
	}
}

// unixLines is a text of a form, whose lines end as browsers have it.
func unixLines(text string) string { return strings.ReplaceAll(text, "\r\n", "\n") }

// uploadedText is a text file in a form; empty: there is none.
func uploadedText(r *http.Request, field string) (string, error) {
	file, _, err := r.FormFile(field)
	if err != nil {
		return "", nil //nolint:nilerr // the form has none
	}
	defer file.Close() //nolint:errcheck // only read
	data, err := io.ReadAll(io.LimitReader(file, maxTeamFile+1))
	switch {
	case err != nil:
		return "", err
	case len(data) > maxTeamFile:
		return "", fmt.Errorf("the team file is larger than %s", textfmt.Size(maxTeamFile))
	case !utf8.Valid(data):
		return "", errors.New("the team file is not text in UTF-8")
	}
	return string(data), nil
}
