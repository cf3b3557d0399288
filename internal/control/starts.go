package control

import (
	"cmp"
	"context"
	"errors"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/config"
	"github.com/maestro-hive/maestro/internal/launch"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/store"
)

// MaxRequirement bounds a requirement, in bytes.
const MaxRequirement = 256 * 1024

// Starts are the beginnings of sessions: new ones, the next runs of those that have ended, and
// forks. Each needs [access.Operate] for the team, and so does its preview: what it computes is
// stored, and a damaged store is repaired.
type Starts struct{ *Base }

// TeamInput says which team a session is to have.
type TeamInput struct {
	// Name is that of a registered team, or NAME@DIGEST with the beginning of a version's digest.
	Name string `json:"name,omitempty"`
	// File is the text of a team file, which names no other files.
	File string `json:"file,omitempty"`
	// Loaded is a team that a caller in this process has read itself.
	Loaded *spec.Team `json:"-"`
}

// NewSession is a session that is to start.
type NewSession struct {
	// Session is its id; empty: one is chosen.
	Session     string    `json:"session,omitempty"`
	Team        TeamInput `json:"team"`
	Requirement string    `json:"requirement,omitempty"`
	// Workspace is the manifest of the files that it starts from; empty: there are none.
	Workspace spec.Digest `json:"workspace,omitempty"`
	// Directory names a directory of the server's host whose files it starts from instead.
	Directory string `json:"directory,omitempty"`
	PhaseSelection
	// Supplied are manifests of files that stand for the work of phases.
	Supplied map[string]spec.Digest `json:"supplied,omitempty"`
	// Decisions are those that it starts with, by name.
	Decisions map[string]string `json:"decisions,omitempty"`
	// Labels are those by which it is found, by key.
	Labels map[string]string `json:"labels,omitempty"`

	// Commit is the git commit that the workspace was taken from; empty: none, or nobody knows.
	Commit string `json:"commit,omitempty" pattern:"^([0-9a-f]{40}|[0-9a-f]{64})$" doc:"the git commit that the workspace was taken from"`

	// Source says where on a machine the workspace was taken from, and ReportTo is the key of
	// the ticket that the requirement came from. Only callers in this process know them.
	Source   *session.Source `json:"-"`
	ReportTo string          `json:"-"`
	// unattended: the caller does not wait until it is admitted.
	unattended bool
}

// commitName is the full name of a git commit.
var commitName = regexp.MustCompile("^([0-9a-f]{40}|[0-9a-f]{64})$")

// Foreseen is the document of a preview of a resume or a fork.
type Foreseen struct {
	Session     string `json:"session"`
	Incarnation int    `json:"incarnation"`
	// Plan says of each assignment whether it is restored or runs, and why; empty for a session
	// that just begins at its beginning.
	Plan []session.PlanEntry `json:"plan,omitempty"`
	// Continued are the phases after which a paused session continues.
	Continued []string `json:"continued,omitempty"`
	// Unchanged is the state that the session stays in, because it is at work, or completed with
	// nothing left to run.
	Unchanged session.State `json:"unchanged,omitempty"`
	// Faults say what of the session's data is damaged, and what was repaired.
	Faults []string `json:"faults,omitempty"`
}

// Started is the document of a session that was started, resumed or forked.
type Started struct {
	Foreseen
	RunID string `json:"run_id"`
	// Store is the id of the session's store.
	Store string `json:"store"`
	// Admitted is false where no worker has answered in time; the session runs, or continues, as
	// soon as one does.
	Admitted bool `json:"admitted"`
}

// Check refuses a session that cannot start, before its files are stored.
func (s Starts) Check(ctx context.Context, in NewSession) error {
	t, err := s.permitted(ctx, in.Team)
	if err != nil {
		return err
	}
	_, _, err = s.prepared(ctx, t, in)
	return err
}

// Preview says what a session would do. It needs neither Temporal nor workers, and no requirement.
func (s Starts) Preview(ctx context.Context, in NewSession) (Plan, error) {
	t, err := s.permitted(ctx, in.Team)
	if err != nil {
		return Plan{}, err
	}
	st, err := s.stored()
	if err != nil {
		return Plan{}, err
	}
	next, err := s.fresh(ctx, st, t, in)
	if err == nil {
		err = s.files(ctx, st, in, &next)
	}
	if err != nil {
		return Plan{}, err
	}
	l := launch.Launcher{Store: st, Now: s.Now}
	entries, err := l.Plan(ctx, next)
	if err != nil {
		return Plan{}, startError(err)
	}
	return planned(t, next.Course, entries), nil
}

// Start starts a session, and waits until it is admitted. With an error, the document names a
// session only if it was started.
func (s Starts) Start(ctx context.Context, in NewSession) (doc Started, err error) {
	t, err := s.team(ctx, in.Team)
	if err != nil {
		return doc, err
	}
	in.Session = cmp.Or(in.Session, launch.NewID(t.Name, s.Now()))
	event := access.Event{Action: "session.start", Session: in.Session, Team: t.Name, Subject: in.Directory}
	err = s.Audit.Change(ctx, access.Operate, event, func(ctx context.Context) error {
		if err := CheckRequirement(in.Requirement); err != nil {
			return err
		}
		l, next, err := s.prepared(ctx, t, in)
		if err != nil {
			return err
		}
		doc, err = begin(ctx, l, next, !in.unattended)
		return startError(err)
	})
	return doc, err
}

// permitted is the team that an input names, if the caller may start sessions of it.
func (s Starts) permitted(ctx context.Context, in TeamInput) (spec.Team, error) {
	t, err := s.team(ctx, in)
	if err != nil {
		return t, err
	}
	return t, access.Check(ctx, access.Operate, t.Name)
}

// team is the team that an input names.
func (s Starts) team(ctx context.Context, in TeamInput) (spec.Team, error) {
	switch {
	case in.Loaded != nil:
		return *in.Loaded, nil
	case in.Name != "" && in.File != "":
		return spec.Team{}, invalidf("team", "has both name and file; leave one out")
	case in.Name != "":
		return Teams(s).Named(ctx, in.Name)
	case in.File != "":
		t, err := config.ParseTeam("team", []byte(in.File))
		if err != nil {
			return t, &Error{Kind: Invalid, Field: "team", err: err}
		}
		return t, nil
	}
	return spec.Team{}, invalidf("team", "missing; name a registered team, or give the text of a team file")
}

// launcher starts sessions of the store for the caller.
func (s Starts) launcher(ctx context.Context) (*launch.Launcher, error) {
	st, err := s.stored()
	if err != nil {
		return nil, err
	}
	conn, err := s.connected()
	who, _ := access.Of(ctx)
	return &launch.Launcher{Conn: conn, Store: st, By: who.Person(), Now: s.Now}, err
}

// prepared is a new session of a team, and what starts it. Only of one that can start are files
// stored.
func (s Starts) prepared(ctx context.Context, t spec.Team, in NewSession) (*launch.Launcher, launch.Session, error) {
	l, err := s.launcher(ctx)
	if err != nil {
		return l, launch.Session{}, err
	}
	next, err := s.fresh(ctx, l.Store, t, in)
	if err == nil {
		err = startError(l.Check(ctx, next))
	}
	if err == nil {
		err = s.files(ctx, l.Store, in, &next)
	}
	return l, next, err
}

// fresh is a new session of a team, without the files that it starts from.
func (s Starts) fresh(ctx context.Context, st *store.Store, t spec.Team, in NewSession) (next launch.Session, err error) {
	next = launch.Session{
		ID: cmp.Or(in.Session, launch.NewID(t.Name, s.Now())), Team: t, Requirement: in.Requirement, ReportTo: in.ReportTo, Labels: in.Labels,
	}
	if err := spec.CheckSession(next.ID); err != nil {
		return next, &Error{Kind: Invalid, Field: "session", err: err}
	}
	if err := session.CheckLabels(in.Labels); err != nil {
		return next, &Error{Kind: Invalid, Field: "labels", err: err}
	}
	if err := session.CheckDecisions(in.Decisions); err != nil {
		return next, &Error{Kind: Invalid, Field: "decisions", err: err}
	}
	if next.Course, err = in.course(t); err != nil {
		return next, err
	}
	next.Course.Given, next.Course.Source = in.Decisions, in.Source
	if in.Commit != "" && in.Source == nil {
		if !commitName.MatchString(in.Commit) {
			return next, invalidf("commit", "not the full name of a git commit")
		}
		next.Course.Source = &session.Source{Commit: in.Commit}
	}
	return next, supply(ctx, st, t, &next.Course, in.Supplied)
}

// begin starts a session that can start, and may wait until it is admitted.
func begin(ctx context.Context, l *launch.Launcher, next launch.Session, wait bool) (doc Started, err error) {
	if err := l.Check(ctx, next); err != nil {
		return doc, err
	}
	run, err := l.Start(ctx, next)
	if err != nil {
		return doc, err
	}
	doc = Started{Foreseen: Foreseen{Session: run.Session}, RunID: run.RunID, Store: l.Store.ID()}
	if !wait {
		return doc, nil
	}
	v, err := l.Admitted(ctx, run)
	doc.Incarnation, doc.Plan, doc.Admitted = max(v.Incarnation, 1), v.Plan, err == nil
	// A caller that has left finds that it is started.
	if errors.Is(err, launch.ErrNotAdmitted) || err != nil && errors.Is(err, ctx.Err()) {
		err = nil
	}
	return doc, err
}

// startError is an error of a start with its kind.
func startError(err error) error {
	var taken *launch.TakenError
	var running *launch.RunningError
	var refused *launch.RefusedError
	switch {
	case errors.As(err, &taken):
		return &Error{Kind: Conflict, Field: "session", Session: taken.Session, err: err}
	case errors.As(err, &running):
		return &Error{Kind: Conflict, Field: "run", Session: running.Session, err: err}
	case errors.As(err, &refused):
		return &Error{Kind: Invalid, err: err}
	}
	return err
}

// CheckRequirement refuses a requirement that no team can work on.
func CheckRequirement(text string) error {
	switch {
	case strings.TrimSpace(text) == "":
		return invalidf("requirement", "the requirement is empty; describe what the team should do")
	case len(text) > MaxRequirement:
		return invalidf("requirement", "the requirement is longer than %d KiB; put longer texts into files of the workspace", MaxRequirement/1024)
	case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return invalidf("requirement", "the requirement is not UTF-8 text; save it as UTF-8")
	}
	return nil
}
