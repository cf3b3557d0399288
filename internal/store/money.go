package store

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	"github.com/maestro-hive/maestro/internal/cas"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/state"
	"github.com/maestro-hive/maestro/internal/storage"
)

// moneyFile is a session's calls, limits and raises in an archive.
const moneyFile = "money.json"

// archivedMoney is the document of a session's rows in an archive.
type archivedMoney struct {
	Schema string `json:"schema"`
	state.Money
}

const moneySchema = "maestro.money/v1"

// money verifies a session's calls, and records the blobs that they refer to.
func (v *verification) money(ctx context.Context, key session.Key) error {
	calls, err := v.store.calls(ctx, key)
	if err != nil {
		return v.fault(stateFault(err), "session "+key.Session)
	}
	for _, c := range calls {
		v.report.Calls++
		if err := v.call(ctx, c, "call "+c.ID+" of session "+key.Session); err != nil {
			return err
		}
	}
	return nil
}

// calls lists a session's calls. A store that an archive is unpacked into has them in a document.
func (s *Store) calls(ctx context.Context, key session.Key) ([]state.Call, error) {
	if s.State != nil {
		return s.State.Calls(ctx, state.Assignment{Key: key})
	}
	m, err := s.archivedMoney(key)
	return m.Calls, err
}

// archivedMoney reads the rows of a session that an archive has; none if it has no such document.
func (s *Store) archivedMoney(key session.Key) (m archivedMoney, err error) {
	doc, err := documentKey(key, moneyFile)
	if err != nil {
		return m, err
	}
	_, err = s.readDocument(doc, "list of calls", func(data []byte) error {
		m = archivedMoney{}
		if err := unseal(data, &m); err != nil {
			return err
		}
		if m.Schema != moneySchema {
			return fmt.Errorf("its schema is %q, not %q", m.Schema, moneySchema)
		}
		return m.Check()
	})
	if errors.Is(err, session.ErrNotFound) {
		return archivedMoney{}, nil
	}
	return m, err
}

// stateFault is the fault of a damaged row; other errors stay.
func stateFault(err error) error {
	if errors.Is(err, state.ErrDamaged) {
		return &cas.Fault{Path: state.FileName, What: err.Error(), Kind: session.ErrCorrupt}
	}
	return err
}

// database verifies the pages of the database, and its sums.
func (v *verification) database(ctx context.Context) error {
	if err := v.store.State.Check(ctx); err != nil {
		return v.fault(stateFault(err), "")
	}
	return v.fault(stateFault(v.store.State.CheckTotals(ctx)), "")
}

// addMoney adds the session's calls, limits and raises.
func (e *sessionExport) addMoney(ctx context.Context) error {
	m, err := e.store.State.Money(ctx, e.key)
	if err != nil {
		return err
	}
	for i, c := range m.Calls {
		if err := e.call(ctx, c, "call "+c.ID); err != nil {
			return err
		}
		if e.withoutTranscripts {
			m.Calls[i].Answer, m.Calls[i].Tools = "", ""
		}
	}
	if len(m.Calls)+len(m.Caps)+len(m.Raises) > 0 {
		e.documents[moneyFile], err = seal(archivedMoney{moneySchema, m})
	}
	return err
}

// call records the blobs of a call.
func (v *verification) call(ctx context.Context, c state.Call, by string) error {
	if v.withoutTranscripts {
		return nil
	}
	v.need(spec.Digest(c.Answer), by)
	tools := spec.Digest(c.Tools)
	if c.Tools == "" || v.trees[tools] {
		return nil
	}
	v.trees[tools] = true
	v.need(tools, by)
	doc, err := v.store.Content.Blob(ctx, tools)
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
