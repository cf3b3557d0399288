package store

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/storage"
)

// allowanceFile is the journal of what a session may spend: its limits, and what
// people have added to them. A ledger that is lost is made again from it and from the
// journals of calls. Its lines are like those of these.
const allowanceFile = "budget.jsonl"

func allowanceKey(key session.Key) (string, error) { return documentKey(key, allowanceFile) }

// appendAllowances adds lines to a journal; when it returns they outlive a
// power loss. Only the holder of the lock of the document that they belong to may
// call it.
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

// allowances reads a journal of them; none if there is no such. Damage is a
// [*Fault] beside what is intact.
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
			f.wrong = append(f.wrong, fmt.Sprintf("line %d: %s", n, err))
			continue
		}
		all = append(all, a)
	}
	if len(f.wrong) > 0 {
		return all, s.journalFault(key, version, f.fault())
	}
	return all, nil
}

// intactAllowances are those that can be read; verifying the store names the others.
func (s ledgers) intactAllowances(key string) ([]budget.Allowance, error) {
	all, err := s.allowances(key)
	if faults, rest := faultsIn(err); rest != nil || len(faults) == 0 && err != nil {
		return nil, err
	}
	return all, nil
}
