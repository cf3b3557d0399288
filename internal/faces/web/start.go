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
	"github.com/maestro-hive/maestro/internal/core/spec"
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
	// Crew is the team, and Version the digest of its version.
	Crew    spec.Team
	Version spec.Digest
	// Main are the fields that most starts need, Phases those that select some of the work.
	Main, Phases, More []formField
	// Plan is what the session would do; nil: that was not asked.
	Plan *control.Plan
	// Problem is what is wrong, at the field of the name problemAt; empty: nothing. Wrong is that field; nil: it has none.
	Problem, problemAt string
	Wrong              *formField
	// Once is the key of the form's session: a form that is sent again starts no other one.
	Once string
}

// fieldError is what is wrong with a field of the form.
type fieldError struct {
	field string
	error
}

// start shows the form of a team, or asks for the team.
func (s *site) start(r *http.Request) (page, error) {
	f := startFormOf(r)
	if f.Team == "" {
		teams, err := s.Teams.List(r.Context())
		if err != nil || len(teams.Teams) != 1 || r.URL.Query().Has("choose") {
			return s.chooseTeam(r, teamText{})
		}
		f.Team = teams.Teams[0].Name
	}
	return s.fillIn(r, f, "")
}

// startNow is the form's answer: the form of a team file, a preview, or a session.
func (s *site) startNow(r *http.Request) (page, error) {
	f := startFormOf(r)
	if text, err := uploadedText(r, "team_file"); err != nil {
		return s.chooseTeam(r, teamText{Problem: err.Error()})
	} else if text != "" {
		f.Team, f.File = "", text
	}
	if f.Team == "" && f.File == "" {
		return s.chooseTeam(r, teamText{Problem: noTeamText})
	}
	return s.fillIn(r, f, r.FormValue("action"))
}

// chooseTeam asks for the team of a session.
func (s *site) chooseTeam(r *http.Request, text teamText) (page, error) {
	teams, err := s.Teams.List(r.Context())
	if unavailable(err) {
		err = nil
	}
	content := choicePage{Teams: teams.Teams, teamText: text}
	return page{View: "choose", Title: "Start a session", Status: text.status(), Content: content}, err
}

// fillIn shows a form with what was entered into it. First it does the action: preview or start; an empty one does nothing.
func (s *site) fillIn(r *http.Request, f startForm, action string) (page, error) {
	crew, version, err := s.Teams.Crew(r.Context(), f.team())
	if f.File != "" && failedWith(err, control.Invalid) {
		return s.chooseTeam(r, wrongTeamText(f.File, err))
	}
	if err != nil {
		return page{}, err
	}
	p := &startPage{startForm: f, Crew: crew, Version: version, Once: rand.Text()}
	started, err := s.begin(r, p, action)
	ofField, _ := errors.AsType[*fieldError](err)
	refused, _ := errors.AsType[*control.Error](err)
	switch {
	case ofField != nil:
		p.Problem, p.problemAt = err.Error(), ofField.field
	case failedWith(err, control.Invalid, control.Conflict):
		p.Problem, p.problemAt = err.Error(), refused.Field
	case err != nil:
		return page{}, err
	case started != "":
		return page{Next: sessionURL(started)}, nil
	}
	p.layOut(s.Starts.Directories)
	shown := page{View: "start", Title: "Start a session of " + crew.Name, Content: p}
	if p.Problem != "" {
		shown.Status = http.StatusUnprocessableEntity
	}
	return shown, nil
}

// begin previews the session of a form, or starts it and returns its id.
func (s *site) begin(r *http.Request, p *startPage, action string) (started string, err error) {
	if action == "" { // the team was chosen
		return "", nil
	}
	if err := s.upload(r, &p.startForm); err != nil {
		return "", err
	}
	in, err := p.input()
	if err != nil {
		return "", err
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

// upload stores the files that a form brings.
func (s *site) upload(r *http.Request, f *startForm) error {
	if r.MultipartForm == nil {
		return nil
	}
	for name, headers := range r.MultipartForm.File {
		place, ok := strings.CutPrefix(name, uploadPrefix)
		if !ok || len(headers) == 0 || headers[0].Size == 0 {
			continue
		}
		var err error
		if f.Stored[place], err = s.store(r.Context(), f.team(), headers[0]); failedWith(err, control.Invalid) {
			field, _, _ := strings.Cut(place, "/")
			return &fieldError{field, err}
		} else if err != nil {
			return err
		}
	}
	return nil
}

// store stores the files of an archive.
func (s *site) store(ctx context.Context, team control.TeamInput, header *multipart.FileHeader) (storedFiles, error) {
	file, err := header.Open()
	if err != nil {
		return storedFiles{}, err
	}
	defer file.Close() //nolint:errcheck // only read
	doc, err := s.Starts.Upload(ctx, control.Recipient{Team: team}, file)
	note := textfmt.Count(doc.Files, "file") + ", " + textfmt.Size(doc.Bytes)
	for _, left := range doc.LeftOut() {
		note += "; left out, " + left
	}
	return storedFiles{string(doc.Workspace), note}, err
}

// noTeamText asks for the text of a team file.
const noTeamText = "Choose a team file, or paste its text."

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

// status is that of the page that shows it.
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
func (s *site) register(r *http.Request) (page, error) {
	p := registerPage{Team: r.URL.Query().Get("team")}
	if p.Team != "" {
		doc, err := s.Teams.Read(r.Context(), p.Team, "")
		if err != nil {
			return page{}, err
		}
		if safetext.Block(doc.File) == doc.File { // a person edits only what can be seen
			p.Text = doc.File
		}
	}
	return p.page(r)
}

func (p registerPage) page(r *http.Request) (page, error) {
	if p.Team != "" {
		if err := access.Check(r.Context(), access.Admin, p.Team); err != nil {
			return page{}, err
		}
	}
	return page{View: "register", Title: "Register a team", Status: p.status(), Content: p}, nil
}

// registerNow registers a team.
func (s *site) registerNow(r *http.Request) (page, error) {
	p := registerPage{Team: r.FormValue("team")}
	text, err := uploadedText(r, "team_file")
	if p.Text = text; text == "" {
		p.Text = unixLines(r.FormValue("file"))
	}
	switch {
	case err != nil:
		p.Problem = err.Error()
		return p.page(r)
	case strings.TrimSpace(p.Text) == "":
		p.Problem = noTeamText
		return p.page(r)
	}
	doc, err := s.Teams.Register(r.Context(), control.Registration{Name: p.Team, Text: p.Text})
	if failedWith(err, control.Invalid) {
		p.teamText = wrongTeamText(p.Text, err)
		return p.page(r)
	}
	what := "unchanged"
	if doc.Changed {
		what = "registered"
	}
	return done(teamURL(doc.Name), what, ""), err
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
