package web

import (
	"context"
	"io"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/ops/sessionstatus"
	"github.com/maestro-hive/maestro/internal/ops/workerpool"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// Operations are what pages show and do: those of the control plane.
type Operations struct {
	Sessions interface {
		List(context.Context, control.SessionFilter) (control.SessionList, error)
		Read(ctx context.Context, session string) (sessionstatus.Session, error)
		Cancel(ctx context.Context, session string) (control.Cancellation, error)
		Statistics(context.Context, control.HistoryFilter) (control.Statistics, error)
	}
	Requests interface {
		Inbox(context.Context, control.InboxFilter) (control.Inbox, error)
		Answer(context.Context, control.AnswerInput) (control.Answered, error)
	}
	Money interface {
		Budgets(ctx context.Context, session string) (control.Budgets, error)
		Days(context.Context) (control.DayList, error)
		RaiseDay(ctx context.Context, team string, r control.DayRaise) (control.Day, error)
		Settle(context.Context, control.SettleInput) (control.Settled, error)
		SettleAll(ctx context.Context, session string, as control.Settlement) (control.SettledCalls, error)
		Raise(ctx context.Context, session string, r control.Raise) (control.Raised, error)
		Usage(context.Context, control.UsageFilter) (control.Usage, error)
	}
	Pool interface {
		Workers(context.Context) (workerpool.Roster, error)
		Breakers(context.Context) (control.BreakerList, error)
		Trip(ctx context.Context, name string, r control.Trip) (workerpool.Breaker, error)
		Reset(ctx context.Context, name string, r control.Reset) (workerpool.Breaker, error)
	}
	Reviews interface {
		Diff(context.Context, control.DiffInput) (control.Diff, error)
		DiffFile(context.Context, control.FileDiffInput) (control.FileDiff, error)
	}
	Attempts interface {
		Work(ctx context.Context, session string) (control.Work, error)
		Transcript(ctx context.Context, session string, a control.Attempt) (text string, known bool, err error)
	}
	Audit interface {
		Events(context.Context, access.EventFilter) (access.EventPage, error)
	}
	Checkpoints interface {
		List(ctx context.Context, session string) (control.CheckpointList, error)
	}
	Starts interface {
		Upload(ctx context.Context, to control.Recipient, archive io.Reader) (control.Workspace, error)
		Keep(ctx context.Context, to control.Recipient, files map[string]string) (control.Workspace, error)
		Preview(context.Context, control.NewSession) (control.Plan, error)
		Start(context.Context, control.NewSession) (control.Started, error)
		PreviewResume(ctx context.Context, session string, in control.Resume) (control.Foreseen, error)
		Resume(ctx context.Context, session string, in control.Resume) (control.Started, error)
		Delivering(ctx context.Context, session string, in control.Deliver) (control.Resume, error)
		DeliveryAgents(context.Context) ([]string, error)
		PreviewFork(ctx context.Context, session string, in control.Fork) (control.Foreseen, error)
		TeamText(ctx context.Context, session string) (string, error)
		Fork(ctx context.Context, session string, in control.Fork) (control.Started, error)
	}
	Teams interface {
		List(context.Context) (control.TeamList, error)
		Form(context.Context, control.TeamInput) (control.TeamForm, error)
		Register(context.Context, control.Registration) (control.TeamChange, error)
		Read(ctx context.Context, name, version string) (control.RegisteredTeam, error)
	}
	Health interface {
		Away() []string
		Examine(context.Context, control.ExamineInput) (control.Examination, error)
		Size(context.Context) (control.StoreSize, error)
	}
	Alerts interface {
		List(context.Context) (control.AlertList, error)
	}
	Account interface {
		Own(context.Context) (control.Account, error)
	}
	Hooks interface {
		List(context.Context) (control.HookList, error)
		Newest(ctx context.Context, of []access.Hook) (map[string]state.Session, error)
	}
}

// NewOperations are those of a control plane.
func NewOperations(base *control.Base) Operations {
	return Operations{
		Sessions: control.Sessions{Base: base}, Requests: control.Requests{Base: base}, Money: control.Money{Base: base},
		Pool: control.Pool{Base: base}, Reviews: control.Reviews{Base: base}, Attempts: control.Attempts{Base: base}, Audit: base.Audit,
		Checkpoints: control.Checkpoints{Base: base}, Starts: control.Starts{Base: base}, Teams: control.Teams{Base: base},
		Health: control.Health{Base: base}, Alerts: control.Alerts{Base: base}, Hooks: control.Hooks{Base: base},
		Account: control.Access{Base: base},
	}
}
