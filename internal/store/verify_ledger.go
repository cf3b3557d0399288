package store

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/cas"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/storage"
)

// ledger verifies a session's ledger and journals and records the blobs that they refer to. Every
// booked entry must be in a journal: an entry is written to its journal before the ledger. So the
// ledger is read first.
func (v *verification) ledger(ctx context.Context, key session.Key) error {
	l, _, missing := v.store.storedLedger(key)
	if errors.Is(missing, session.ErrNotFound) {
		// A session may be writing its first ledger now.
		l, _, missing = v.store.storedLedger(key)
	}
	if missing != nil && !errors.Is(missing, session.ErrNotFound) {
		if err := v.fault(missing, ""); err != nil {
			return err
		}
		missing = nil
	}
	doc, err := allowanceKey(key)
	if err != nil {
		return err
	}
	if _, err := v.store.allowances(doc); err != nil {
		if err := v.fault(err, ""); err != nil {
			return err
		}
	}
	journals, err := v.store.journals(ctx, key)
	if err != nil {
		return err
	}
	booked := map[spec.AssignmentID]int64{}
	for _, id := range journals {
		booked[id] = 0
	}
	for name, row := range l.Rows {
		id, err := spec.ParseAssignmentID(name)
		if err != nil {
			return err
		}
		booked[id] = row.Entries
	}
	entries := 0
	for id, last := range booked {
		n, err := v.journal(ctx, key, id, last)
		if err != nil {
			return err
		}
		entries += n
	}
	if missing != nil && entries > 0 {
		return v.fault(missing, "session "+key.Session)
	}
	return nil
}

// journal verifies an assignment's journal and returns its number of entries. booked is the
// number of entries that the ledger has booked.
func (v *verification) journal(ctx context.Context, key session.Key, id spec.AssignmentID, booked int64) (int, error) {
	doc, err := journalKey(key, id)
	if err != nil {
		return 0, err
	}
	f, err := v.store.readJournal(doc)
	if err == nil && f.journal.Next() <= booked {
		err = v.store.cutJournal(doc, f.journal.Next()-1, booked)
	}
	if err := v.fault(err, ""); err != nil {
		return 0, err
	}
	if len(f.entries) > 0 {
		v.report.Journals++
	}
	by := "the journal of " + id.String() + " of session " + key.Session
	for _, c := range f.journal.Calls() {
		if err := v.call(ctx, c, by); err != nil {
			return 0, err
		}
	}
	return len(f.entries), nil
}

// cutJournal returns the fault of a journal with fewer entries than the ledger has booked.
func (s ledgers) cutJournal(key string, last, booked int64) error {
	what := fmt.Sprintf("it ends with entry %d, but the ledger has booked up to entry %d", last, booked)
	_, version, err := s.docs.Read(key)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return &cas.Fault{Path: key, What: "the store " + s.dir + " has no such journal, but the ledger has booked up to its entry " + fmt.Sprint(booked), Kind: session.ErrNotFound}
	case err != nil:
		return fmt.Errorf("read the journal: %w", err)
	}
	return s.journalFault(key, version, what)
}

// call records the blobs of a call's turn.
func (v *verification) call(ctx context.Context, c budget.Call, by string) error {
	if v.withoutTranscripts {
		return nil
	}
	v.need(c.Answer, by)
	if c.Tools == "" || v.trees[c.Tools] {
		return nil
	}
	v.trees[c.Tools] = true
	v.need(c.Tools, by)
	doc, err := v.store.Content.Blob(ctx, c.Tools)
	if err != nil {
		return v.fault(err, by)
	}
	return v.named(ctx, doc, by)
}

// digests matches possible digests of blobs.
var digests = regexp.MustCompile(`\b[0-9a-f]{64}\b`)

// named records the blobs that an agent's document refers to, and everything that these refer to.
// The document's format belongs to the agent, so every digest of an existing blob in it counts as
// a reference.
func (v *verification) named(ctx context.Context, doc []byte, by string) error {
	for _, match := range digests.FindAll(doc, -1) {
		name := spec.Digest(match)
		kind, err := v.store.kindOf(name)
		if errors.Is(err, storage.ErrNotFound) {
			continue
		}
		if err != nil {
			return fmt.Errorf("stat blob %s: %w", name.Short(), err)
		}
		v.need(name, by)
		switch kind {
		case treeBlob:
			err = v.tree(ctx, name, by, true)
		case deltaBlob:
			err = v.contents(ctx, nil, []spec.Digest{name}, by)
		case plainBlob, checkpointBlob:
		}
		if err != nil {
			return err
		}
	}
	return nil
}
