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

// ledgers has what sessions have spent: the journals of their assignments, the sums of
// these, what sessions may spend, and what teams have spent on a day.
type ledgers struct {
	*documents
	sessions sessions
}

// Ledger reads a session's ledger. Where it is missing or damaged it is what the
// journals add up to; a damaged file is then in the quarantine.
func (s ledgers) Ledger(key session.Key) (budget.Ledger, error) {
	l, _, err := s.storedLedger(key)
	return s.orSumOfJournals(key, l, err)
}

// orSumOfJournals makes a ledger that could not be read from the journals.
func (s ledgers) orSumOfJournals(key session.Key, l budget.Ledger, err error) (budget.Ledger, error) {
	if errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrCorrupt) {
		return s.sumOfJournals(key)
	}
	return l, err
}

// storedLedger reads a session's ledger.json: [session.ErrNotFound] if there is
// none, [session.ErrCorrupt] if it was damaged; it is then in the quarantine.
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

// sumOfJournals makes a session's ledger from its journals.
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

// UpdateLedger rewrites a session's ledger, unless change returns an error, which
// it then returns. change gets what is stored, or what the journals add up to if
// nothing is or it was damaged; it must not call the store, and may be called more
// than once. If the session has a daily budget, the team's day is shared with the
// ledger meanwhile, and brought up to date with it. Updates of one session, by any
// process, follow one another, and each raises the revision by one. A reader sees one
// or the other, never half of either; after a power loss the last ones may be
// missing, but no change of the limits and no raise.
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

// tryLedger does so under the lock of the team whose day the ledger draws from. If
// that is not the ledger's team it changes nothing, and returns the one that is.
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

// changeLedger does so while both are locked; day is nil where the ledger draws from none.
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
		// The day is never behind the ledger: what it does not know yet, others could spend.
		if err := s.updateDays(key, day, warnings, before, &l); err != nil {
			return name, err
		}
		failpoint.Here("day written, ledger not")
	}
	return name, s.putLedger(lock, key, l, version)
}

// allow adds to the journal of what a session may spend.
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
