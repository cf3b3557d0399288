package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/team"
)

const ledgerFile = "ledger.json"

// Ledger reads a session's ledger. Where it is missing or damaged it is what the
// journals add up to, without limits; a damaged file is then in the quarantine.
func (s *Store) Ledger(key team.SessionKey) (budget.Ledger, error) {
	l, err := s.storedLedger(key)
	if errors.Is(err, team.ErrNotFound) || errors.Is(err, team.ErrCorrupt) {
		return s.summed(key)
	}
	return l, err
}

// storedLedger reads a session's ledger.json: [team.ErrNotFound] if there is
// none, [team.ErrCorrupt] if it was damaged; it is then in the quarantine.
func (s *Store) storedLedger(key team.SessionKey) (budget.Ledger, error) {
	dir, err := s.SessionDir(key)
	if err != nil {
		return budget.Ledger{}, err
	}
	var l budget.Ledger
	err = s.readDocument(filepath.Join(dir, ledgerFile), "ledger", func(data []byte) error {
		l = budget.Ledger{}
		if err := s.unseal(data, &l); err != nil {
			return err
		}
		return checkLedger(l)
	})
	if err != nil {
		return budget.Ledger{}, err
	}
	return l, nil
}

func checkLedger(l budget.Ledger) error {
	if l.Schema != budget.LedgerSchema {
		return fmt.Errorf("its schema is %q, not %q", l.Schema, budget.LedgerSchema)
	}
	for name := range l.Rows {
		if _, err := team.ParseAssignmentID(name); err != nil {
			return fmt.Errorf("rows: %w", err)
		}
	}
	return nil
}

// summed makes a session's ledger from its journals.
func (s *Store) summed(key team.SessionKey) (budget.Ledger, error) {
	l := budget.Ledger{Schema: budget.LedgerSchema}
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
// nothing is or it was damaged, and must not call the store. Updates of one
// session, by any process, follow one another, and each raises the revision by
// one. A reader sees one or the other, never half of either; after a power loss
// the last ones may be missing.
func (s *Store) UpdateLedger(key team.SessionKey, change func(*budget.Ledger) error) error {
	dir, err := s.SessionDir(key)
	if err != nil {
		return err
	}
	return s.under(key, ledgerFile, func() error {
		l, err := s.Ledger(key)
		if err != nil {
			return err
		}
		revision := l.Revision
		if err := change(&l); err != nil {
			return err
		}
		l.Schema, l.Revision = budget.LedgerSchema, revision+1
		data, err := s.seal(l)
		if err != nil {
			return fmt.Errorf("write the ledger of session %s: %w", key.Session, err)
		}
		if err := s.write(filepath.Join(dir, ledgerFile), data, untilPowerLoss); err != nil {
			return fmt.Errorf("write the ledger of session %s: %w", key.Session, err)
		}
		return nil
	})
}
