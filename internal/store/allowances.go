package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/session"
)

// allowanceFile is the journal of what a session may spend: its limits, and what
// people have added to them. A ledger that is lost is made again from it and from the
// journals of calls. Its lines are like those of these.
const allowanceFile = "budget.jsonl"

func (s *Store) allowancePath(key session.Key) (string, error) {
	dir, err := s.SessionDir(key)
	return filepath.Join(dir, allowanceFile), err
}

// appendAllowances adds lines to the journal at path; when it returns they outlive a
// power loss. Only the holder of the lock of the document that they belong to may
// call it.
func (s *Store) appendAllowances(path string, all []budget.Allowance) error {
	for _, a := range all {
		line, err := sealLine(a)
		if err == nil {
			err = s.appendLine(path, append(line, '\n'))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// allowances reads the journal at path; none if there is no file. Damage is a
// [*Fault] beside what is intact.
func (s *Store) allowances(path string) (all []budget.Allowance, err error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
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
		return all, s.journalFault(path, data, f.fault())
	}
	return all, nil
}

// intactAllowances are those that can be read; verifying the store names the others.
func (s *Store) intactAllowances(path string) ([]budget.Allowance, error) {
	all, err := s.allowances(path)
	if faults, rest := faultsIn(err); rest != nil || len(faults) == 0 && err != nil {
		return nil, err
	}
	return all, nil
}
