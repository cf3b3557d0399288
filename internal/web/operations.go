package web

import (
	"context"
	"errors"
	"net/http"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/control"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/sessionstatus"
	"github.com/maestro-hive/maestro/internal/state"
	"github.com/maestro-hive/maestro/internal/workerpool"
)

// Operations are what pages show and do: those of the control plane.
type Operations struct {
	Sessions    Sessions
	Requests    Requests
	Money       Money
	Pool        Pool
	Reviews     Reviews
	Attempts    Attempts
	Audit       Audit
	Checkpoints Checkpoints
	Starts      Starts
	Teams       Teams
	Health      Health
	Alerts      Alerts
	Hooks       Hooks
}

// Sessions lists, reads and ends sessions.
type Sessions interface {
	List(context.Context, control.SessionFilter) (control.SessionList, error)
	Read(ctx context.Context, session string) (sessionstatus.Session, error)
	Cancel(ctx context.Context, session string) (control.Cancellation, error)
	Statistics(context.Context, control.HistoryFilter) (control.Statistics, error)
}

// Requests lists and answers what waits for people.
type Requests interface {
	Inbox(context.Context) (control.Inbox, error)
	Answer(context.Context, control.AnswerInput) (control.Answered, error)
}

// Money raises budgets, settles calls, and adds costs up.
type Money interface {
	Budgets(ctx context.Context, session string) (control.Budgets, error)
	Days(context.Context) (control.DayList, error)
	RaiseDay(ctx context.Context, team string, r control.DayRaise) (control.Day, error)
	Settle(context.Context, control.SettleInput) (control.Settled, error)
	SettleAll(ctx context.Context, session string, as control.Settlement) (control.SettledCalls, error)
	Raise(ctx context.Context, session string, r control.Raise) (control.Raised, error)
	Usage(context.Context, control.UsageFilter) (control.Usage, error)
}

// Pool has the workers and breakers.
type Pool interface {
	Workers(context.Context) (workerpool.Roster, error)
	Breakers(context.Context) (control.BreakerList, error)
	Trip(ctx context.Context, name string, r control.Trip) (workerpool.Breaker, error)
	Reset(ctx context.Context, name string, r control.Reset) (workerpool.Breaker, error)
}

// Health examines the installation.
type Health interface {
	Examine(context.Context, control.ExamineInput) (control.Examination, error)
	Size(context.Context) (control.StoreSize, error)
}

// Alerts lists the alerts of sessions.
type Alerts interface {
	List(context.Context) (control.AlertList, error)
}

// Hooks lists the hooks of teams that the person is an admin of.
type Hooks interface {
	List(context.Context) (control.HookList, error)
	Newest(ctx context.Context, of []access.Hook) (map[string]state.Session, error)
}

// Audit reads the audit log.
type Audit interface {
	Events(context.Context, access.EventFilter) (access.EventPage, error)
}

// Reviews compares trees of files.
type Reviews interface {
	Diff(context.Context, control.DiffInput) (control.Diff, error)
	DiffFile(context.Context, control.FileDiffInput) (control.FileDiff, error)
}

// Attempts lists what assignments have tried, and reads what attempts have written.
type Attempts interface {
	Work(ctx context.Context, session string) (control.Work, error)
	Transcript(ctx context.Context, session string, a control.Attempt) (text string, known bool, err error)
}

// Checkpoints lists the states of sessions after their phases.
type Checkpoints interface {
	List(ctx context.Context, session string) (control.CheckpointList, error)
}

// Teams lists, reads and registers teams.
type Teams interface {
	List(context.Context) (control.TeamList, error)
	Form(context.Context, control.TeamInput) (control.TeamForm, error)
	Register(context.Context, control.Registration) (control.TeamChange, error)
	Read(ctx context.Context, name, version string) (control.RegisteredTeam, error)
}

// NewOperations are those of a control plane.
func NewOperations(base *control.Base) Operations {
	return Operations{
		Sessions: control.Sessions{Base: base}, Requests: control.Requests{Base: base}, Money: control.Money{Base: base}, Pool: control.Pool{Base: base}, Reviews: control.Reviews{Base: base}, Attempts: control.Attempts{Base: base}, Audit: base.Audit,
		Checkpoints: control.Checkpoints{Base: base}, Starts: control.Starts{Base: base}, Teams: control.Teams{Base: base}, Health: control.Health{Base: base}, Alerts: control.Alerts{Base: base}, Hooks: control.Hooks{Base: base},
	}
}

// failed shows why an operation did not succeed.
func (s *site) failed(w http.ResponseWriter, r *http.Request, err error, back string) {
	p := problem{Status: http.StatusInternalServerError, Title: "This did not work", Text: err.Error(), Command: "maestro doctor", Back: back}
	var known *control.Error
	var denied *access.DeniedError
	switch {
	case errors.As(err, &denied):
		p.Status, p.Title, p.Command = http.StatusForbidden, "You may not do this", ""
	case errors.As(err, &known):
		p = problemOf(err, known, back)
	case errors.Is(err, session.ErrNotFound):
		p.Status, p.Title, p.Command = http.StatusNotFound, "Not found", "maestro list"
	case errors.Is(err, context.Canceled):
		return // nobody reads it
	default:
		s.Log.ErrorContext(r.Context(), "an operation failed", "path", r.URL.Path, "error", err)
	}
	s.problem(w, r, p)
}

// problemOf says what an error of the control plane means to a person.
func problemOf(err error, e *control.Error, back string) problem {
	p := problem{Status: http.StatusInternalServerError, Title: "This did not work", Text: err.Error(), Back: back}
	switch e.Kind {
	case control.Invalid:
		p.Status, p.Title = http.StatusUnprocessableEntity, "Please correct the input"
		if e.Field != "" {
			p.Text = e.Field + ": " + p.Text
		}
	case control.NotFound:
		p.Status, p.Title, p.Command = http.StatusNotFound, "Not found", "maestro list"
	case control.Conflict:
		p.Status, p.Title = http.StatusConflict, "The state has changed"
		var lost *control.LostError
		if errors.As(err, &lost) {
			p.Command = "maestro resume " + lost.Session
		}
	case control.Unavailable:
		p.Status, p.Title, p.Command = http.StatusServiceUnavailable, "Not available now", "maestro doctor"
	}
	return p
}

// who is the name of the person who looks; empty: nobody is known.
func who(ctx context.Context) string {
	a, _ := access.Of(ctx)
	return a.Person()
}

// may reports whether the person who looks may do something.
func may(ctx context.Context, p access.Permission, team string) bool {
	return access.Check(ctx, p, team) == nil
}
