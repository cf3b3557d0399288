package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/cas"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/storage"
)

// The budget of a team's day is in budgets/<namespace>/<team>/<date>.json, with its raises in
// <date>.raises.jsonl. Both are written under one lock of the team. Lock order: the team's lock
// before a ledger's lock.
const raisesSuffix = ".raises.jsonl"

// keptFor is the minimum time for which a day is kept, so that its raises can be audited.
const keptFor = 31 // days

// carriedFor is the longest time for which a call may run over midnights and still be counted
// when a day is rebuilt from the ledgers. It is longer than any attempt.
const carriedFor = 7 // days

func dayKey(namespace, name, date string) (string, error) {
	if err := spec.CheckSession(namespace); err != nil {
		return "", fmt.Errorf("namespace: %w", err)
	}
	if err := spec.CheckName(name); err != nil {
		return "", fmt.Errorf("team: %w", err)
	}
	return "budgets/" + namespace + "/" + name + "/" + date + ".json", nil
}

func raisesKey(day string) string { return strings.TrimSuffix(day, ".json") + raisesSuffix }

// lockedDay is a team's day whose lock is held.
type lockedDay struct {
	*budget.Day
	lock    storage.Locked
	version storage.Version
}

// Day returns what a team has spent today, in UTC. The error is [session.ErrNotFound] if no
// session of the team has a daily budget.
func (s ledgers) Day(namespace, name string) (day budget.Day, err error) {
	read := func(lock storage.Locked) error {
		d, err := s.today(lock, namespace, name)
		if err == nil {
			day = *d.Day
		}
		return err
	}
	if err = s.withTeamLock(namespace, name, read); errors.Is(err, fs.ErrPermission) {
		err = read(nil) // a read-only store needs no lock
	}
	if err == nil && day.Cap == (spec.Cap{}) {
		return day, &cas.Fault{Path: "budgets/" + namespace + "/" + name, What: "no session of team " + name + " has a daily budget", Kind: session.ErrNotFound}
	}
	return day, err
}

// DayTeams lists the teams that have or had a daily budget, sorted.
func (s ledgers) DayTeams(ctx context.Context, namespace string) ([]string, error) {
	if err := spec.CheckSession(namespace); err != nil {
		return nil, fmt.Errorf("namespace: %w", err)
	}
	return s.subdirs(ctx, "budgets/"+namespace)
}

// UpdateDay rewrites a team's day, unless change returns an error, which UpdateDay then returns.
// Added raises are durable. Updates of a day are serialised between processes. UpdateLedger of a
// ledger with a daily budget is an update of the day, too.
func (s ledgers) UpdateDay(namespace, name string, change func(*budget.Day) error) error {
	return s.withTeamLock(namespace, name, func(lock storage.Locked) error {
		d, err := s.today(lock, namespace, name)
		if err != nil {
			return err
		}
		raises := len(d.Raises)
		if err := change(d.Day); err != nil {
			return err
		}
		return s.putDay(namespace, d, raises)
	})
}

// withTeamLock runs change while it holds the lock of a team's days.
func (s ledgers) withTeamLock(namespace, name string, change func(storage.Locked) error) error {
	if _, err := dayKey(namespace, name, ""); err != nil {
		return err
	}
	return s.locked("budgets/"+namespace+"/"+name+"/days", change)
}

// today reads the team's current day. If it does not exist yet or was lost, today builds it from
// the ledgers of the team's sessions and the journal of its raises. The caller must hold the
// team's lock.
func (s ledgers) today(lock storage.Locked, namespace, name string) (*lockedDay, error) {
	date := budget.Date(s.now())
	d, version, err := s.storedDay(namespace, name, date)
	if missing(err) {
		d, err = s.sumOfLedgers(namespace, name, date)
	}
	return &lockedDay{d, lock, version}, err
}

func (s ledgers) storedDay(namespace, name, date string) (*budget.Day, storage.Version, error) {
	doc, err := dayKey(namespace, name, date)
	if err != nil {
		return nil, "", err
	}
	var d budget.Day
	version, err := s.readDocument(doc, "daily budget", func(data []byte) error {
		d = budget.Day{}
		if err := unseal(data, &d); err != nil {
			return err
		}
		if d.Schema != budget.DaySchema || d.Team != name || d.Date != date {
			return fmt.Errorf("it is not the %s of team %s on %s", budget.DaySchema, name, date)
		}
		return nil
	})
	return &d, version, err
}

// sumOfLedgers builds a team's day from the ledgers of its sessions.
func (s ledgers) sumOfLedgers(namespace, name, date string) (*budget.Day, error) {
	d := &budget.Day{Team: name, Date: date}
	keys, err := s.sessions.Sessions(context.Background(), namespace)
	if err != nil {
		return nil, err
	}
	oldest := budget.NextDay(date).AddDate(0, 0, -1-carriedFor)
	for _, key := range keys {
		dir, err := documentKey(key)
		if err != nil {
			return nil, err
		}
		if _, err := s.docs.ModTime(dir + "/" + allowanceFile); err != nil {
			continue // it has no budget
		}
		if written, err := s.docs.ModTime(dir + "/" + ledgerFile); err == nil && written.Before(oldest) {
			continue
		}
		l, err := s.Ledger(key)
		if err != nil {
			return nil, err
		}
		if l.DailyTeam() == name {
			d.Take(key.Session, &l)
		}
	}
	doc, err := dayKey(namespace, name, date)
	if err != nil {
		return nil, err
	}
	raises, err := s.intactAllowances(raisesKey(doc))
	for _, a := range raises {
		if a.Raise != nil {
			d.Raise(*a.Raise)
		}
	}
	return d, err
}

// putDay writes a day; raises is the number of its raises that are in the journal already.
func (s ledgers) putDay(namespace string, d *lockedDay, raises int) error {
	doc, err := dayKey(namespace, d.Team, d.Date)
	if err != nil {
		return err
	}
	var added []budget.Allowance
	for i := range d.Raises[raises:] {
		added = append(added, budget.Allowance{Raise: &d.Raises[raises+i]})
	}
	if err := s.appendAllowances(raisesKey(doc), added); err != nil {
		return fmt.Errorf("raise the daily budget of team %s: %w", d.Team, err)
	}
	d.Schema, d.Revision = budget.DaySchema, d.Revision+1
	data, err := seal(d.Day)
	if err == nil {
		d.version, err = d.lock.Write(doc, data, d.version, storage.UntilPowerLoss)
	}
	if err != nil {
		return fmt.Errorf("write the daily budget of team %s: %w", d.Team, err)
	}
	return nil
}

// updateDays updates the days on which a session's spending has changed: today, and earlier days.
// warnings is the number of warnings that today had.
func (s ledgers) updateDays(key session.Key, today *lockedDay, warnings int, before map[string]budget.DayRow, l *budget.Ledger) error {
	for _, date := range l.Dates() {
		if date == today.Date || before[date] == l.On(date) {
			continue
		}
		d, version, err := s.storedDay(key.Namespace, today.Team, date)
		switch {
		case missing(err):
			continue
		case err != nil:
			return err
		}
		if d.Take(key.Session, l) {
			if err := s.putDay(key.Namespace, &lockedDay{d, today.lock, version}, len(d.Raises)); err != nil {
				return err
			}
		}
	}
	if !today.Take(key.Session, l) && len(today.Warnings) == warnings && today.Revision > 0 {
		return nil
	}
	return s.putDay(key.Namespace, today, len(today.Raises))
}

// days removes days of teams that are older than keptFor.
func (p *pruning) days(ctx context.Context) error {
	s := p.store
	limit := s.now().AddDate(0, 0, -keptFor)
	if older := s.now().Add(-p.options.OlderThan); older.Before(limit) {
		limit = older
	}
	return s.eachTeam(ctx, func(namespace, name string) error {
		dates, err := s.jsonFiles(ctx, "budgets/"+namespace+"/"+name, "")
		for date, doc := range dates {
			if day, err := time.Parse(time.DateOnly, date); err != nil || !day.Before(limit) {
				continue
			}
			p.report.Days++
			if p.options.DryRun {
				continue
			}
			for _, key := range []string{doc, raisesKey(doc)} {
				if err := s.remove(key); err != nil {
					return err
				}
			}
		}
		return err
	})
}

// eachTeam calls visit for each team that has days, while it holds the team's lock.
func (s ledgers) eachTeam(ctx context.Context, visit func(namespace, name string) error) error {
	namespaces, err := s.subdirs(ctx, "budgets")
	if err != nil {
		return err
	}
	for _, namespace := range namespaces {
		names, err := s.subdirs(ctx, "budgets/"+namespace)
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := s.withTeamLock(namespace, name, func(storage.Locked) error { return visit(namespace, name) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// budgets verifies the days of all teams.
func (v *verification) budgets(ctx context.Context) error {
	return v.store.eachTeam(ctx, func(namespace, name string) error { return v.days(ctx, namespace, name) })
}

// days verifies the days of one team. The caller must hold the team's lock.
func (v *verification) days(ctx context.Context, namespace, name string) error {
	dates, err := v.store.jsonFiles(ctx, "budgets/"+namespace+"/"+name, "")
	if err != nil {
		return err
	}
	for date, doc := range dates {
		_, _, err := v.store.storedDay(namespace, name, date)
		if err := v.fault(err, ""); err != nil {
			return err
		}
		_, err = v.store.allowances(raisesKey(doc))
		if err := v.fault(err, ""); err != nil {
			return err
		}
	}
	return nil
}
