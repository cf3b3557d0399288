package store

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/storage"
)

// allowanceFile is the journal of a session's allowance: its limits and raises. A lost ledger is
// rebuilt from it and from the journals of calls. Its lines have the format of the journals of
// calls.
const allowanceFile = "budget.jsonl"

func allowanceKey(key session.Key) (string, error) { return documentKey(key, allowanceFile) }

// appendAllowances appends lines to a journal durably. The caller must hold the lock of the
// document that the journal belongs to.
func (s ledgers) appendAllowances(key string, all []budget.Allowance) error {
	for _, a := range all {
		line, err := sealLine(a)
		if err == nil {
			err = s.docs.Append(key, line)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// allowances reads a journal of allowances; empty if it does not exist. If it is damaged, the
// error is a [*Fault], and the result has the intact lines.
func (s ledgers) allowances(key string) (all []budget.Allowance, err error) {
	data, version, err := s.docs.Read(key)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the journal of a budget: %w", err)
	}
	f := journalFile{}
	for n, line := range wholeLines(data) {
		entry, err := unsealLine(line)
		var a budget.Allowance
		if err == nil {
			err = json.Unmarshal(entry, &a)
		}
		if err != nil {
			f.faults = append(f.faults, fmt.Sprintf("line %d: %s", n, err))
			continue
		}
		all = append(all, a)
	}
	if len(f.faults) > 0 {
		return all, s.journalFault(key, version, f.fault())
	}
	return all, nil
}

// intactAllowances returns the lines that can be read. Verifying the store reports the others.
func (s ledgers) intactAllowances(key string) ([]budget.Allowance, error) {
	all, err := s.allowances(key)
	if faults, rest := faultsIn(err); rest != nil || len(faults) == 0 && err != nil {
		return nil, err
	}
	return all, nil
}
