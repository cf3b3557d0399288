package access

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/storage"
)

const (
	auditDir    = "audit"
	auditSuffix = ".jsonl"

	// For each actor and action, one denial a minute is recorded. These bound the remembered ones.
	deniedEvery = time.Minute
	deniedKeys  = 4096
)

// Audit is the audit log of a store: a journal for each day, by UTC. Nothing removes its
// entries. A nil Audit, for callers without a store, records nothing.
type Audit struct {
	docs   storage.Storage
	now    func() time.Time
	denied *quota
}

// NewAudit returns the audit log in a store's storage.
func NewAudit(docs storage.Storage, now func() time.Time) *Audit {
	return &Audit{docs: docs, now: now, denied: newQuota(deniedKeys, 1, deniedEvery, now)}
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
	e = e.withActor(ctx, a.now())
	e.Outcome = ""
	if err := a.append(ctx, e.At, line{Event: &e}); err != nil {
		return fmt.Errorf("nothing was changed, because the audit log cannot be written: %w", err)
	}
	err := change(ctx)
	outcome := endOf(err, a.now())
	outcome.Of = e.ID
	// Without this line the outcome is unknown; the change itself is made.
	_ = a.append(context.WithoutCancel(ctx), e.At, line{End: &outcome})
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
	e = e.withActor(ctx, a.now())
	return a.append(ctx, e.At, line{Event: &e})
}

// append adds a line to the journal of a day.
func (a *Audit) append(ctx context.Context, day time.Time, l line) error {
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	key := auditKey(day.UTC().Format(time.DateOnly))
	lock, err := a.docs.Lock(ctx, key) // of many processes, one appends at a time
	if err != nil {
		return err
	}
	return errors.Join(a.docs.Append(key, text), lock.Close())
}

func auditKey(day string) string { return auditDir + "/" + day + auditSuffix }

// wholeLines returns the complete lines of a journal. An incomplete last line is from a writer
// that was interrupted.
func wholeLines(data []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for {
			text, rest, whole := bytes.Cut(data, []byte("\n"))
			if !whole || !yield(text) {
				return
			}
			data = rest
		}
	}
}

// auditDays are the days that have a journal, sorted.
func (a *Audit) days() ([]string, error) {
	names, err := a.docs.List(auditDir)
	if err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	var days []string
	for _, name := range names {
		day, ok := strings.CutSuffix(name, auditSuffix)
		if _, err := time.Parse(time.DateOnly, day); ok && err == nil {
			days = append(days, day)
		}
	}
	return days, nil
}
