package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/failpoint"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/storage"
)

const (
	ledgerFile = "ledger.json"
)

// ledgers stores what sessions have spent: the journals of their assignments, their sums, the
// sessions' allowances, and the teams' spending by day.
type ledgers struct {
	*documents
	sessions sessions
}

// Ledger reads a session's ledger. If it is missing or damaged, Ledger returns the sum of the
// journals; a damaged file is moved to the quarantine.
func (s ledgers) Ledger(key session.Key) (budget.Ledger, error) {
	l, _, err := s.storedLedger(key)
	return s.orSumOfJournals(key, l, err)
}

// orSumOfJournals returns the ledger, or the sum of the journals if it could not be read.
func (s ledgers) orSumOfJournals(key session.Key, l budget.Ledger, err error) (budget.Ledger, error) {
	if errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrCorrupt) {
		return s.sumOfJournals(key)
	}
	return l, err
}

// storedLedger reads a session's ledger.json. The error is [session.ErrNotFound] if there is
// none, and [session.ErrCorrupt] if it was damaged and moved to the quarantine.
func (s ledgers) storedLedger(key session.Key) (l budget.Ledger, version storage.Version, err error) {
	doc, err := documentKey(key, ledgerFile)
	if err != nil {
		return l, "", err
	}
	version, err = s.readDocument(doc, "ledger", func(data []byte) error {
		l = budget.Ledger{}
		if err := unseal(data, &l); err != nil {
			return err
		}
		return checkLedger(l)
	})
	if err != nil {
		return budget.Ledger{}, version, err
	}
	return l, version, nil
}

func checkLedger(l budget.Ledger) error {
	if l.Schema != budget.LedgerSchema {
		return fmt.Errorf("its schema is %q, not %q", l.Schema, budget.LedgerSchema)
	}
	for name := range l.Rows {
		if _, err := spec.ParseAssignmentID(name); err != nil {
			return fmt.Errorf("rows: %w", err)
		}
	}
	return nil
}

// sumOfJournals builds a session's ledger from its journals.
func (s ledgers) sumOfJournals(key session.Key) (budget.Ledger, error) {
	l := budget.Ledger{Schema: budget.LedgerSchema, Session: key.Session}
	doc, err := allowanceKey(key)
	if err != nil {
		return l, err
	}
	allowances, err := s.intactAllowances(doc)
	if err != nil {
		return l, err
	}
	for _, a := range allowances {
		l.Allow(a)
	}
	ids, err := s.journals(context.Background(), key)
	if err != nil {
		return l, err
	}
	for _, id := range ids {
		j, err := s.Journal(key, id)
		if err != nil {
			return l, err
		}
		if len(j.Calls()) > 0 {
			l.SetRow(id, j.Row(nil), s.now())
		}
	}
	return l, nil
}

// UpdateLedger rewrites a session's ledger, unless change returns an error, which UpdateLedger
// then returns. change gets the stored ledger, or the sum of the journals if it is missing or
// damaged. It must not call the store, and may be called more than once. If the session has a
// daily budget, the team's day is locked during the update, and updated, too. Updates of one
// session are serialised between processes, and each increments the revision. Readers see the old
// or the new ledger. After a power loss the last updates may be missing, but not changes of
// limits and raises.
func (s ledgers) UpdateLedger(key session.Key, change func(*budget.Ledger) error) error {
	daily := ""
	for {
		other, err := s.tryLedger(key, daily, change)
		if err != nil || other == daily {
			return err
		}
		daily = other
	}
}

// tryLedger is UpdateLedger under the lock of a team's days. If the ledger draws from another
// team's day, it changes nothing and returns that team.
func (s ledgers) tryLedger(key session.Key, daily string, change func(*budget.Ledger) error) (other string, err error) {
	var day *lockedDay
	update := func() error {
		return s.withLock(key, ledgerFile, func(lock storage.Locked) error {
			other, err = s.changeLedger(lock, key, day, change)
			return err
		})
	}
	if daily == "" {
		err = update()
		return other, err
	}
	err = s.withTeamLock(key.Namespace, daily, func(lock storage.Locked) error {
		if day, err = s.today(lock, key.Namespace, daily); err != nil {
			return err
		}
		return update()
	})
	return other, err
}

// changeLedger is UpdateLedger while both locks are held; day is nil if the ledger has no daily
// budget.
func (s ledgers) changeLedger(lock storage.Locked, key session.Key, day *lockedDay, change func(*budget.Ledger) error) (daily string, err error) {
	stored, version, err := s.storedLedger(key)
	l, err := s.orSumOfJournals(key, stored, err)
	if err != nil {
		return "", err
	}
	name := l.DailyTeam()
	if day == nil && name != "" {
		return name, nil
	}
	if day != nil {
		name = day.Team
	}
	revision, limits, of, raises := l.Revision, l.Limits, l.Team, len(l.Raises)
	before := map[string]budget.DayRow{}
	for _, date := range l.Dates() {
		before[date] = l.On(date)
	}
	warnings := 0
	if day != nil {
		warnings = len(day.Warnings)
	}
	l.Session = key.Session
	if day != nil {
		l.Share(day.Day)
	}
	if err := change(&l); err != nil {
		return name, err
	}
	if changed := l.DailyTeam(); changed != "" && changed != name {
		return changed, nil
	}
	l.Schema, l.Session, l.Revision = budget.LedgerSchema, key.Session, revision+1
	if err := s.allow(key, l.AllowedSince(limits, of, raises)); err != nil {
		return name, err
	}
	if day != nil {
		// Write the day first. If it were behind the ledger, other sessions could spend the same
		// money.
		if err := s.updateDays(key, day, warnings, before, &l); err != nil {
			return name, err
		}
		failpoint.Here("day written, ledger not")
	}
	return name, s.putLedger(lock, key, l, version)
}

// allow appends to the session's journal of allowances.
func (s ledgers) allow(key session.Key, added []budget.Allowance) error {
	doc, err := allowanceKey(key)
	if err == nil {
		err = s.appendAllowances(doc, added)
	}
	if err != nil {
		return fmt.Errorf("write the allowance of session %s: %w", key.Session, err)
	}
	return nil
}

func (s ledgers) putLedger(lock storage.Locked, key session.Key, l budget.Ledger, version storage.Version) error {
	doc, err := documentKey(key, ledgerFile)
	if err != nil {
		return err
	}
	data, err := seal(l)
	if err == nil {
		_, err = lock.Write(doc, data, version, storage.UntilPowerLoss)
	}
	if err != nil {
		return fmt.Errorf("write the ledger of session %s: %w", key.Session, err)
	}
	return nil
}
