package index

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/state"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/textfmt"
	"github.com/maestro-hive/maestro/internal/usage"
)

// maxRequirement is how much of a requirement the index has, in bytes.
const maxRequirement = 2000

// seen is the state of a session's documents before they were read.
type seen struct {
	// modified is when a document of the session itself was last replaced.
	modified int64
	// records is when a record was last replaced; unwatched: it is not needed.
	records int64
	// change is the number of the last change of its costs.
	change int64
	// again: it has to be read again in any case, because a later change may have the same time.
	again bool
}

const unwatched int64 = -1

// raciness is the age below which a later change may have the same time.
const raciness = 2 * time.Second

// entry is the data of a session in the index.
type entry struct {
	Session
	// Listed: the session has a status document.
	Listed bool
	Facts  []fact

	seen seen
}

// fact is one of a session's facts.
type fact struct {
	Kind                               int64
	Phase, Persona, Agent, Model, Date string
	Numbers                            numbers
}

// reading is the reading of sessions in one refresh.
type reading struct {
	store *store.Store
	// now is the time of the storage when the reading began.
	now time.Time
}

// look reads the times of a session's documents, not their content. It also looks at the documents
// that the last refresh has listed.
func (r reading) look(key session.Key, modified, change int64, last seen) (seen, error) {
	now := seen{modified: modified, records: unwatched, change: change}
	if last.records != unwatched {
		at, err := r.store.RecordsChanged(key)
		if err != nil {
			return now, err
		}
		now.records = nanoseconds(at)
	}
	return now, nil
}

// isRecent reports whether a change is so recent that a later one may have the same time.
func (r reading) isRecent(s seen) bool {
	limit := nanoseconds(r.now.Add(-raciness))
	recent := s.modified > limit || s.records > limit
	return recent
}

// read reads the documents of a session; before is their state before. For a damaged document, the
// entry has the values of a session without it, and the damage is returned.
func (r reading) read(ctx context.Context, key session.Key, before seen) (e entry, damage, err error) {
	costs, err := usage.OfSession(ctx, r.store, key)
	if err != nil {
		return e, nil, err
	}
	x := costs.Execution
	e.Session = Session{Namespace: key.Namespace, Session: key.Session, Phases: []string{}}
	e.Listed = x.Schema != ""
	if e.Listed {
		e.ofStatus(x)
		if err := e.ofCheckpoint(ctx, r.store, x.Checkpoint); err != nil {
			damage = err
		}
	}
	used := costs.Account.Usage()
	e.Tokens, e.CostUSD = used.Tokens(), used.CostUSD
	for _, row := range costs.Rows {
		e.Facts = append(e.Facts, factsOf(row)...)
	}
	e.Facts = append(e.Facts, e.work(x, &costs.Account)...)
	e.watch(before)
	e.seen.again = e.seen.again || r.isRecent(e.seen)
	return e, errors.Join(costs.Damage, damage), nil
}

// watch records what the next refresh looks at. Documents that were not looked at before they were
// read are read again next time.
func (e *entry) watch(before seen) {
	e.seen = seen{modified: before.modified, records: unwatched, change: before.change}
	if e.Listed && !e.Status.Closed() {
		e.seen.records = before.records
		if before.records == unwatched {
			e.seen.records, e.seen.again = 0, true
		}
	}
}

// ofStatus copies the fields of the status document.
func (e *entry) ofStatus(x session.Execution) {
	e.Store, e.Team, e.Status, e.Reason = x.Store, x.Team, x.Status.Status, textfmt.Shorten(x.Reason, session.MaxMessage)
	e.StartedAt, e.ClosedAt, e.UpdatedAt = x.StartedAt, x.ClosedAt, x.UpdatedAt
	e.Labels = x.Labels
	e.Incarnation, e.Run, e.FirstRun = x.Incarnation, x.RunID, x.FirstRun
	if x.Origin != nil {
		e.Origin = x.Origin.Session
	}
	for _, p := range x.Phases {
		if !e.Status.Closed() && (p.Status == session.Running || p.Status == session.AwaitingApproval) {
			e.Phases = append(e.Phases, p.Name)
		}
	}
	if n := len(x.Alerts); n > 0 {
		e.AlertedAt = &x.Alerts[n-1].At
	}
	for _, h := range x.Help {
		if len(h.Actions) == 0 || e.Status.Closed() {
			continue
		}
		e.Requests++
		if since := h.Since; !since.IsZero() && (e.WaitingSince == nil || since.Before(*e.WaitingSince)) {
			e.WaitingSince = &since
		}
	}
}

// ofCheckpoint copies the fields that only the newest checkpoint has.
func (e *entry) ofCheckpoint(ctx context.Context, s *store.Store, name spec.Digest) error {
	if name == "" {
		return nil
	}
	c, err := s.PeekCheckpoint(ctx, name)
	if err != nil {
		return err
	}
	e.Requirement = textfmt.Shorten(c.Requirement, maxRequirement)
	for _, a := range c.Answers {
		if !a.Since.IsZero() && a.At.After(a.Since) {
			e.Answers++
			e.Waited += a.At.Sub(a.Since)
			if a.Action.OfPhase() {
				e.Approvals++
				e.Approving += a.At.Sub(a.Since)
			}
		}
	}
	return nil
}

// factsOf splits the costs of a row.
func factsOf(r usage.Row) []fact {
	var facts []fact
	add := func(kind int64, n numbers) {
		facts = append(facts, fact{Kind: kind, Phase: r.Phase, Persona: r.Persona, Agent: r.Agent, Model: r.Model, Date: r.Day, Numbers: n})
	}
	if u := r.Unsettled; u.Calls != 0 {
		add(unsettled, costNumbers(u.Calls, u.Usage))
	}
	if u := r.Reserved; u.Calls != 0 {
		add(reserved, numbers{int64(u.Calls), u.Tokens, 6: int64(u.USD)})
	}
	if r.Calls != 0 || r.Usage != (cost.Usage{}) {
		add(spent, costNumbers(r.Calls, r.Usage))
	}
	return facts
}

// work is the result of the assignments that were at work in this session. A fork does not have the
// attempts of its origin.
func (e *entry) work(x session.Execution, account *state.Account) []fact {
	var facts []fact
	for _, p := range x.Phases {
		for _, a := range p.Assignments {
			if a.Attempts == 0 || a.Status == session.Restored || a.Status == session.Supplied {
				continue
			}
			f := fact{Kind: worked, Phase: p.Name, Persona: a.Persona, Agent: a.Agent, Date: e.day()}
			for _, c := range account.Costs {
				if c.Phase == p.Name && c.Persona == a.Persona && c.Calls > 0 {
					f.Agent, f.Model = c.Agent, c.Model
				}
			}
			done, failed := int64(0), int64(0)
			switch {
			case a.Status.Done():
				done = 1
			case a.Status == session.Failed || a.Status == session.HelpIsNeeded:
				failed = 1
			}
			copy(f.Numbers[len(costs):], []int64{1, done, failed, int64(a.Attempts), int64(session.CountedAttempts(a.Failures)), int64(a.LostWorkers)})
			facts = append(facts, f)
		}
	}
	return facts
}

// day is the day, by UTC, on which the session was started; empty: unknown.
func (s *Session) day() string {
	if s.StartedAt == nil {
		return ""
	}
	return budget.Date(*s.StartedAt)
}

// digest identifies the session's data in the index.
func (e *entry) digest() (string, error) {
	data, err := json.Marshal(e)
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16]), err
}

// search is the text for searches.
func (e *entry) search() string { return strings.ToLower(e.Session.Session + "\n" + e.Requirement) }

// never is before all other times.
const never = math.MinInt64

// nanoseconds is a time in the database's form.
func nanoseconds(t time.Time) int64 {
	switch year := t.Year(); {
	case year < 1678:
		return never
	case year > 2261:
		return math.MaxInt64
	}
	return t.UnixNano()
}

// timeOf is the reverse of nanoseconds.
func timeOf(n int64) time.Time {
	if n == never {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

func nanosecondsOf(t *time.Time) int64 {
	if t == nil {
		return never
	}
	return nanoseconds(*t)
}

func optionalTime(n int64) *time.Time {
	if n == never {
		return nil
	}
	t := timeOf(n)
	return &t
}
