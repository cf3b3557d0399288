package control

import (
	"cmp"
	"context"
	"errors"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/models/config"
	"github.com/maestro-hive/maestro/internal/ops/launch"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/cas"
)

// MaxRequirement limits a requirement, in bytes.
const MaxRequirement = 256 * 1024

// Starts starts sessions: new ones, the next runs of those that have ended, and forks. A start and
// its preview both need [access.Operate] for the team, because a preview also stores data and
// repairs a damaged store.
type Starts struct{ *Base }

// TeamInput selects the team of a session.
type TeamInput struct {
	// Name is that of a registered team, or NAME@DIGEST with the beginning of a version's digest.
	Name string `json:"name,omitempty"`
	// File is the text of a team file, which names no other files.
	File string `json:"file,omitempty"`
	// Loaded is a team that a caller in this process has read.
	Loaded *spec.Team `json:"-"`
}

// NewSession is a session that is to start.
type NewSession struct {
	// Session is its id; empty: one is chosen.
	Session     string    `json:"session,omitempty" doc:"the id of the session; one is chosen if left out"`
	Team        TeamInput `json:"team"`
	Requirement string    `json:"requirement,omitempty" doc:"what the team is to do"`
	// Workspace is the manifest of the files at its start; empty: none.
	Workspace spec.Digest `json:"workspace,omitempty" doc:"the digest of stored files that the session starts from"`
	// Directory names a directory of the server's host whose files are used instead.
	Directory string `json:"directory,omitempty"`
	PhaseSelection
	// Supplied are manifests of files that are used as the work of phases.
	Supplied map[string]spec.Digest `json:"supplied,omitempty"`
	// Decisions are those that it starts with, by name.
	Decisions map[string]string `json:"decisions,omitempty" doc:"decisions that the session starts with, by name"`
	// Labels are its labels, by key.
	Labels map[string]string `json:"labels,omitempty" doc:"labels by which the session is found, 16 at most"`

	// Commit is the git commit that the workspace was taken from; empty: none, or unknown.
	Commit string `json:"commit,omitempty" pattern:"^([0-9a-f]{40}|[0-9a-f]{64})$" doc:"the git commit that the workspace was taken from"`
	// LeftOut says, in sentences, what the caller has not taken of the workspace. What an upload has left out is added.
	LeftOut []string `json:"left_out,omitempty" maxItems:"10"`

	// Source is the directory from which the workspace was taken, and ReportTo the key of the
	// ticket with the requirement. Only callers in this process set them.
	Source   *session.Source `json:"-"`
	ReportTo string          `json:"-"`
	// unattended: the caller does not wait for the admission.
	unattended bool
}

// commitName is the full name of a git commit.
var commitName = regexp.MustCompile("^([0-9a-f]{40}|[0-9a-f]{64})$")

// Foreseen is the document of a preview of a resume or a fork.
type Foreseen struct {
	Session string `json:"session"`
	Run     int    `json:"run"`
	// Plan lists for each assignment whether it is restored or runs, with the reason; empty for a
	// session that starts from the beginning.
	Plan []session.PlanEntry `json:"plan,omitempty"`
	// Continued are the phases after which a paused session continues.
	Continued []string `json:"continued,omitempty"`
	// Unchanged is the state that the session keeps, because it is at work, or completed with
	// nothing left to run.
	Unchanged session.State `json:"unchanged,omitempty"`
	// Faults list the damaged data of the session, and what was repaired.
	Faults []string `json:"faults,omitempty"`
}

// Started is the document of a session that was started, resumed or forked.
type Started struct {
	Foreseen
	RunID string `json:"run_id"`
	// Store is the id of the session's store.
	Store string `json:"store"`
	// Admitted is false if no worker has answered in time; the session runs, or continues, as soon
	// as one does.
	Admitted bool `json:"admitted"`
	// LeftOut says, in sentences, what was not taken of the workspace of a new session.
	LeftOut []string `json:"left_out,omitempty"`
}

// Check rejects a session that cannot start, before its files are stored.
func (s Starts) Check(ctx context.Context, in NewSession) error {
	t, err := s.permittedTeam(ctx, in.Team)
	if err != nil {
		return err
	}
	_, _, err = s.prepareStart(ctx, t, in)
	return err
}

// Start starts a session, and waits until it is admitted. With an error, the document names a
// session only if it was started.
func (s Starts) Start(ctx context.Context, in NewSession) (doc Started, err error) {
	t, err := s.team(ctx, in.Team)
	if err != nil {
		return doc, err
	}
	own := ""
	if in.Session == "" {
		own = s.repeatedID(ctx, t.Name, in)
	}
	in.Session = cmp.Or(in.Session, own, launch.NewID(t.Name, s.Now()))
	event := access.Event{Action: "session.start", Session: in.Session, Team: t.Name, Subject: in.Directory}
	err = s.Audit.Change(ctx, access.Operate, event, func(ctx context.Context) error {
		if err := CheckRequirement(in.Requirement); err != nil {
			return err
		}
		l, next, err := s.prepareStart(ctx, t, in)
		if err == nil {
			doc, err = startAndAwait(ctx, l, next, !in.unattended)
		}
		if isTaken(err, own) {
			doc, err = s.startedBefore(ctx, l, own)
		}
		if err == nil {
			doc.LeftOut = next.Start.Course.LeftOut()
		}
		return startError(err)
	})
	return doc, err
}

// team is the team of an input.
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
		return t, invalid("team", err)
	}
	return spec.Team{}, invalidf("team", "missing; name a registered team, or give the text of a team file")
}

// prepareStart is a new session of a team, and its launcher. Files are stored only for a session that
// can start.
func (s Starts) prepareStart(ctx context.Context, t spec.Team, in NewSession) (*launch.Launcher, launch.Session, error) {
	l, err := s.launcher(ctx)
	if err != nil {
		return l, launch.Session{}, err
	}
	next, err := s.newSession(ctx, t, in)
	if err == nil {
		err = startError(l.Check(ctx, next))
	}
	if err == nil {
		err = s.files(ctx, l.Store, in, &next)
	}
	return l, next, err
}

// launcher starts sessions of the store for the caller.
func (s Starts) launcher(ctx context.Context) (*launch.Launcher, error) {
	conn, err := s.connected()
	who, _ := access.Of(ctx)
	return &launch.Launcher{Conn: conn, Store: s.Store, By: session.Starter{
		StartedBy: who.Person(), StartedByID: who.PersonID,
		StartedOver: who.Over(),
	}, Now: s.Now}, err
}

// newSession is a new session of a team, without its files.
func (s Starts) newSession(ctx context.Context, t spec.Team, in NewSession) (next launch.Session, err error) {
	next = launch.Session{
		ID: cmp.Or(in.Session, launch.NewID(t.Name, s.Now())), Team: t, Requirement: in.Requirement,
		Start: session.Start{ReportTo: in.ReportTo, Labels: in.Labels},
	}
	err = cmp.Or(
		invalid("session", spec.CheckSession(next.ID)),
		checkChosen(ctx, "session", t.Name, next.ID),
		invalid("labels", session.CheckLabels(in.Labels)),
		invalid("decisions", session.CheckDecisions(in.Decisions)),
	)
	if err != nil {
		return next, err
	}
	if next.Start.Course, err = in.course(t); err != nil {
		return next, err
	}
	next.Start.Course.Given, next.Start.Course.Source = in.Decisions, in.Source
	if in.Source == nil && (in.Commit != "" || len(in.LeftOut) > 0) {
		if in.Commit != "" && !commitName.MatchString(in.Commit) {
			return next, invalidf("commit", "not the full name of a git commit")
		}
		if err := invalid("left_out", session.CheckLeftOut(in.LeftOut)); err != nil {
			return next, err
		}
		next.Start.Course.Source = &session.Source{Commit: in.Commit, LeftOut: in.LeftOut}
	}
	return next, s.supply(ctx, t, &next.Start.Course, in.Supplied)
}

// files are the files at a session's start: stored files, a directory as it is now, or none.
func (s Starts) files(ctx context.Context, st *store.Store, in NewSession, next *launch.Session) (err error) {
	switch {
	case in.Directory != "" && in.Workspace != "":
		return invalidf("directory", "excludes workspace; leave one out")
	case in.Directory != "":
		next.Start.Workspace, next.Start.Course.Source, err = s.taken(ctx, st, in.Directory, next.Team)
	case in.Workspace != "":
		if next.Start.Workspace, err = in.Workspace, s.checkFiles(ctx, next.Team.Name, "workspace", in.Workspace); err != nil {
			return err
		}
		if notes := s.leftOutOf(ctx, next.Team.Name, in.Workspace); len(notes) > 0 {
			if next.Start.Course.Source == nil {
				next.Start.Course.Source = &session.Source{}
			}
			next.Start.Course.Source.LeftOut = append(next.Start.Course.Source.LeftOut, notes...)
		}
	default:
		next.Start.Workspace, err = st.Content.PutManifest(ctx, cas.Manifest{})
	}
	return err
}

// startAndAwait starts a checked session, and may wait until it is admitted: the admission decides.
func startAndAwait(ctx context.Context, l *launch.Launcher, next launch.Session, wait bool) (Started, error) {
	run, err := l.Start(ctx, next)
	switch {
	case err != nil:
		return Started{}, err
	case !wait:
		return startedDoc(l, run), nil
	}
	return awaitAdmission(ctx, l, run)
}

// awaitAdmission waits until a started session is admitted.
func awaitAdmission(ctx context.Context, l *launch.Launcher, run launch.Started) (Started, error) {
	doc := startedDoc(l, run)
	v, err := l.Admitted(ctx, run)
	doc.Run, doc.Plan, doc.Admitted = max(v.Run, 1), v.Plan, err == nil
	// The session is started also if its caller has disconnected.
	if errors.Is(err, launch.ErrNotAdmitted) || err != nil && errors.Is(err, ctx.Err()) {
		err = nil
	}
	return doc, err
}

func startedDoc(l *launch.Launcher, run launch.Started) Started {
	return Started{Foreseen: Foreseen{Session: run.Session}, RunID: run.RunID, Store: l.Store.ID()}
}

// Preview describes what a session would do. It needs neither Temporal nor workers, and no
// requirement.
func (s Starts) Preview(ctx context.Context, in NewSession) (Plan, error) {
	t, err := s.permittedTeam(ctx, in.Team)
	if err != nil {
		return Plan{}, err
	}
	next, err := s.newSession(ctx, t, in)
	if err == nil {
		err = s.files(ctx, s.Store, in, &next)
	}
	if err != nil {
		return Plan{}, err
	}
	l := launch.Launcher{Store: s.Store, Now: s.Now}
	entries, err := l.Plan(ctx, next)
	if err != nil {
		return Plan{}, startError(err)
	}
	return planned(t, next.Start.Course, entries), nil
}

// permittedTeam is the team of an input, if the caller may start sessions of it.
func (s Starts) permittedTeam(ctx context.Context, in TeamInput) (spec.Team, error) {
	t, err := s.team(ctx, in)
	if err != nil {
		return t, err
	}
	return t, access.Check(ctx, access.Operate, t.Name)
}

// startError adds the kind to an error of a start.
func startError(err error) error {
	if taken, ok := errors.AsType[*launch.TakenError](err); ok {
		return &Error{Problem{Kind: Conflict, Field: "session", Session: taken.Session}, err}
	}
	if running, ok := errors.AsType[*launch.RunningError](err); ok {
		return &Error{Problem{Kind: Conflict, Field: "run", Session: running.Session}, err}
	}
	if _, ok := errors.AsType[*launch.RefusedError](err); ok {
		return invalid("", err)
	}
	return err
}

// CheckRequirement rejects an empty or too large requirement.
func CheckRequirement(text string) error {
	switch {
	case strings.TrimSpace(text) == "":
		return invalidf("requirement", "the requirement is empty; describe what the team should do")
	case len(text) > MaxRequirement:
		return invalidf("requirement", "the requirement is longer than %d KiB; put longer texts into files of the workspace",
			MaxRequirement/1024)
	case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return invalidf("requirement", "the requirement is not UTF-8 text; save it as UTF-8")
	}
	return nil
}
