package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/maestro-hive/maestro/internal/control"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// Starts begins sessions: new ones, the next runs of those that have ended, and forks.
type Starts interface {
	Upload(ctx context.Context, team string, archive io.Reader) (control.Workspace, error)
	Keep(ctx context.Context, team string, files map[string]string) (control.Workspace, error)
	Preview(context.Context, control.NewSession) (control.Plan, error)
	Start(context.Context, control.NewSession) (control.Started, error)
	PreviewResume(ctx context.Context, session string, in control.Resume) (control.Foreseen, error)
	Resume(ctx context.Context, session string, in control.Resume) (control.Started, error)
	PreviewFork(ctx context.Context, session string, in control.Fork) (control.Foreseen, error)
	Fork(ctx context.Context, session string, in control.Fork) (control.Started, error)
}

// maxTeamFile bounds a team file in a form, in bytes.
const maxTeamFile = 1 << 20

// startPage is the content of the page that starts a session.
type startPage struct {
	startForm
	// Teams are the registered ones.
	Teams []control.ListedTeam
	// Plan is what the session would do; nil: that was not asked.
	Plan    *control.Plan
	Problem string
	CSRF    string
}

// startForm is what a person has entered.
type startForm struct {
	// Team names a registered one; File is the text of a team file instead.
	Team, File              string
	Requirement, Session    string
	From, Until, PauseAfter string
	Decisions, Labels       string
	Workspace, Note         string
}

func startFormOf(r *http.Request) startForm {
	f := startForm{}
	for name, field := range map[string]*string{
		"team": &f.Team, "file": &f.File, "requirement": &f.Requirement, "session": &f.Session, "from": &f.From, "until": &f.Until,
		"pause_after": &f.PauseAfter, "decisions": &f.Decisions, "labels": &f.Labels, "workspace": &f.Workspace, "workspace_note": &f.Note,
	} {
		*field = strings.TrimSpace(strings.ReplaceAll(r.FormValue(name), "\r\n", "\n"))
	}
	return f
}

// input is the session that the form describes.
func (f startForm) input() control.NewSession {
	in := control.NewSession{
		Session: f.Session, Team: f.team(), Requirement: f.Requirement, Workspace: spec.Digest(f.Workspace),
		PhaseSelection: control.PhaseSelection{From: f.From, Until: f.Until, PauseAfter: words(f.PauseAfter)},
	}
	in.Decisions, in.Labels = pairs(f.Decisions), pairs(f.Labels)
	return in
}

// pairs are the lines of a text, each NAME=VALUE; nil: there are none.
func pairs(text string) map[string]string {
	var all map[string]string
	for line := range strings.Lines(text) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), "="); name+value != "" {
			if all == nil {
				all = map[string]string{}
			}
			all[strings.TrimSpace(name)] = strings.TrimSpace(value)
		}
	}
	return all
}

// words are the names in a text, separated by commas or spaces.
func words(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' })
}

// start shows the form.
func (s *site) start(w http.ResponseWriter, r *http.Request) {
	s.showStart(w, r, http.StatusOK, startPage{startForm: startFormOf(r)})
}

func (s *site) showStart(w http.ResponseWriter, r *http.Request, status int, p startPage) {
	teams, err := s.Teams.List(r.Context())
	if err != nil && !unavailable(err) {
		s.failed(w, r, err, "/sessions")
		return
	}
	p.Teams, p.CSRF = teams.Teams, s.csrf(r.Context())
	if p.Team == "" && p.File == "" && len(p.Teams) == 1 {
		p.Team = p.Teams[0].Name
	}
	s.show(w, r, status, page{View: "start", Title: "Start a session", Tab: "sessions", Content: p})
}

// startNow is the form's answer: a preview, or a session.
func (s *site) startNow(w http.ResponseWriter, r *http.Request) {
	p := startPage{startForm: startFormOf(r)}
	if text, err := uploadedText(r, "team_file"); err != nil {
		p.Problem = err.Error()
	} else if text != "" {
		p.Team, p.File = "", text
	}
	if p.Problem == "" {
		started, err := s.begin(r, &p)
		var wrong *control.Error
		switch {
		case err == nil && started != "":
			lead(w, r, sessionURL(started))
			return
		case errors.As(err, &wrong) && (wrong.Kind == control.Invalid || wrong.Kind == control.Conflict):
			p.Problem = err.Error()
			if wrong.Field != "" && !strings.HasPrefix(p.Problem, wrong.Field) {
				p.Problem = strings.ReplaceAll(wrong.Field, "_", " ") + ": " + p.Problem
			}
		case err != nil:
			s.failed(w, r, err, "/start")
			return
		}
	}
	status := http.StatusOK
	if p.Problem != "" {
		status = http.StatusUnprocessableEntity
	}
	s.showStart(w, r, status, p)
}

// begin previews the session of a form, or starts it and returns its id.
func (s *site) begin(r *http.Request, p *startPage) (started string, err error) {
	ctx := r.Context()
	in := p.input()
	plan, err := s.Starts.Preview(ctx, in)
	if err != nil {
		return "", err
	}
	if in.Workspace, err = s.uploaded(r, plan.Team, p); err != nil {
		return "", err
	}
	if r.FormValue("action") == "start" {
		doc, err := s.Starts.Start(ctx, in)
		return doc.Session, err
	}
	p.Plan = &plan
	return "", nil
}

// team is the team that the form names.
func (f startForm) team() control.TeamInput {
	if f.File != "" {
		return control.TeamInput{File: f.File}
	}
	return control.TeamInput{Name: f.Team}
}

// uploaded stores the files that a form brings, or names those that it brought before.
func (s *site) uploaded(r *http.Request, team string, p *startPage) (spec.Digest, error) {
	file, header, err := r.FormFile("files")
	if err != nil || header.Size == 0 {
		return spec.Digest(p.Workspace), nil
	}
	defer file.Close() //nolint:errcheck // only read
	doc, err := s.Starts.Upload(r.Context(), team, file)
	if err != nil {
		return "", err
	}
	p.Workspace, p.Note = string(doc.Workspace), textfmt.Count(doc.Files, "file")+", "+textfmt.Size(doc.Bytes)
	if n := len(doc.Private); n > 0 {
		p.Note += "; left out, because they look like secrets: " + textfmt.FirstOf(doc.Private, 5)
	}
	return doc.Workspace, nil
}

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
