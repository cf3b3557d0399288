package access

import (
	"context"
	"fmt"
	"time"

	"github.com/maestro-hive/maestro/internal/store/state"
)

const (
	// For each actor and action, one denial a minute is recorded. These bound the remembered ones.
	deniedEvery = time.Minute
	deniedKeys  = 4096
)

// Audit is the audit log. Nothing removes its entries. A nil Audit, for callers without a store, records nothing.
type Audit struct {
	db     *state.DB
	denied *quota
}

// NewAudit returns the audit log in a database.
func NewAudit(db *state.DB, now func() time.Time) *Audit {
	return &Audit{db: db, denied: newQuota(deniedKeys, 1, deniedEvery, now)}
}

// Change makes a change if the actor in the context has the permission for the event's team,
// and records it. It records the intent before the change, and refuses the change if that
// cannot be written. It records the outcome after it. A denial is a [*DeniedError], which is
// also recorded. The caller sets the event's action and subject; Change adds the actor, the
// time and the client address.
func (a *Audit) Change(ctx context.Context, p Permission, e Event, change func(context.Context) error) error {
	if err := a.Check(ctx, p, e); err != nil {
		return err
	}
	return a.do(ctx, e, change)
}

// Check is the check of Change alone, for a change that is made later: only a denial is recorded.
func (a *Audit) Check(ctx context.Context, p Permission, e Event) error {
	err := Check(ctx, p, e.Team)
	if err != nil {
		a.deny(ctx, e, err)
	}
	return err
}

// do is Change without the check of the permission.
func (a *Audit) do(ctx context.Context, e Event, change func(context.Context) error) error {
	if a == nil {
		return change(ctx)
	}
	e.Outcome = ""
	entry, err := a.db.AddAudit(ctx, state.AuditEntry(e.withActor(ctx)))
	if err != nil {
		return fmt.Errorf("nothing was changed, because the audit log cannot be written: %w", err)
	}
	err = change(ctx)
	outcome, failure := outcomeOf(err)
	// If this fails, the outcome is unknown; the change itself is made.
	_ = a.db.EndAudit(context.WithoutCancel(ctx), entry.ID, outcome, failure)
	return err
}

// deny records a denial, unless the same one was recorded within the last minute.
func (a *Audit) deny(ctx context.Context, e Event, err error) {
	if a == nil {
		return
	}
	actor, _ := Of(ctx)
	if ok, _ := a.denied.take(actor.Name + "\x00" + e.Action); !ok {
		return
	}
	e.Outcome, e.Error = Denied, err.Error()
	_ = a.Record(ctx, e)
}

// Record adds an event that has its outcome already.
func (a *Audit) Record(ctx context.Context, e Event) error {
	if a == nil {
		return nil
	}
	_, err := a.db.AddAudit(ctx, state.AuditEntry(e.withActor(ctx)))
	return err
}
