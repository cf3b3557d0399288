package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/cas"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/storage"
)

// A journal is an append-only file with a line for each entry. A line is
// {"entry":E,"sha256":"D"}, where D is the SHA-256 of the bytes of E.
const (
	journalSuffix = ".calls.jsonl"

	lineHead = `{"entry":`
	lineSeal = `,"sha256":"`
	lineTail = `"}`
	// lineAfter is how many bytes follow the entry in a line.
	lineAfter = len(lineSeal) + 64 + len(lineTail)
)

func journalKey(key session.Key, id spec.AssignmentID) (string, error) {
	if err := id.Check(); err != nil {
		return "", err
	}
	return documentKey(key, assignmentsDir, journalName(id))
}

func journalName(id spec.AssignmentID) string { return id.Phase + "." + id.Persona + journalSuffix }

// journalOf is the assignment whose journal has this file name.
func journalOf(file string) (spec.AssignmentID, bool) {
	name, ok := strings.CutSuffix(file, journalSuffix)
	phase, persona, _ := strings.Cut(name, ".")
	id := spec.AssignmentID{Phase: phase, Persona: persona}
	return id, ok && id.Check() == nil
}

// journalLine writes an entry as a line, without its end.
func journalLine(e budget.Entry) ([]byte, error) { return sealLine(e) }

func sealLine(e any) ([]byte, error) {
	entry, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	return slices.Concat([]byte(lineHead), entry, []byte(lineSeal), []byte(cas.DigestOf(entry)), []byte(lineTail)), nil
}

// parseLine decodes a line. Unknown fields are ignored: a newer version may have written them.
func parseLine(line []byte) (budget.Entry, error) {
	var e budget.Entry
	entry, err := unsealLine(line)
	if err != nil {
		return e, err
	}
	if err := json.Unmarshal(entry, &e); err != nil {
		return e, fmt.Errorf("not an entry: %w", err)
	}
	return e, nil
}

// unsealLine returns a line's entry. It returns an error unless sealLine can have written the
// line.
func unsealLine(line []byte) ([]byte, error) {
	body, ok := bytes.CutPrefix(line, []byte(lineHead))
	if !ok || len(body) < lineAfter {
		return nil, errors.New("not an entry")
	}
	entry, after := body[:len(body)-lineAfter], body[len(body)-lineAfter:]
	if string(after) != lineSeal+string(cas.DigestOf(entry))+lineTail {
		return nil, errors.New("has a sha256 that does not match its entry")
	}
	return entry, nil
}

// journalFile is the parsed content of a journal's file.
type journalFile struct {
	journal budget.Journal
	// entries are the valid entries.
	entries []budget.Entry
	// intact are their lines, with line breaks.
	intact []byte
	// faults describe the other lines, in order.
	faults []string
}

// wholeLines yields the complete lines of a journal without line breaks, numbered from 1. An
// incomplete last line is skipped: its append has not returned.
func wholeLines(data []byte) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		for n := 1; ; n++ {
			line, rest, whole := bytes.Cut(data, []byte("\n"))
			if !whole || !yield(n, line) {
				return
			}
			data = rest
		}
	}
}

// parseJournal parses a journal's file.
func parseJournal(data []byte) *journalFile {
	f := &journalFile{}
	damaged := false // the previous line was damaged
	for n, line := range wholeLines(data) {
		want := f.journal.Next()
		e, err := parseLine(line)
		if err == nil {
			err = f.journal.Apply(e)
		}
		switch {
		case err != nil:
			f.faults = append(f.faults, fmt.Sprintf("line %d: %s", n, err))
		case e.Seq != want && !damaged:
			f.faults = append(f.faults, fmt.Sprintf("line %d: it is entry %d and not %d", n, e.Seq, want))
		}
		if damaged = err != nil; !damaged {
			f.entries = append(f.entries, e)
			f.intact = append(append(f.intact, line...), '\n')
		}
	}
	return f
}

// dropAnswers removes the results of the calls, and keeps their costs.
func (f *journalFile) dropAnswers() error {
	f.intact = nil
	for i := range f.entries {
		e := &f.entries[i]
		e.Answer, e.Tools = "", ""
		line, err := journalLine(*e)
		if err != nil {
			return err
		}
		f.intact = append(append(f.intact, line...), '\n')
	}
	return nil
}

// fault describes what is wrong with the file; empty: nothing.
func (f *journalFile) fault() string {
	const few = 5
	if len(f.faults) > few {
		return fmt.Sprintf("%s; and %d lines more", strings.Join(f.faults[:few], "; "), len(f.faults)-few)
	}
	return strings.Join(f.faults, "; ")
}

// Journal reads an assignment's journal; it is empty if there is none. If the journal is damaged,
// the result has the intact entries, and a copy of the file is moved to the quarantine. Verifying
// the store reports the damage.
func (s ledgers) Journal(key session.Key, id spec.AssignmentID) (*budget.Journal, error) {
	doc, err := journalKey(key, id)
	if err != nil {
		return nil, err
	}
	f, err := s.readJournal(doc)
	if faults, rest := faultsIn(err); rest != nil || (len(faults) > 0 && f == nil) {
		return nil, err
	}
	return &f.journal, nil
}

// JournalChanged returns when an assignment's journal was last written; zero: there is none.
func (s ledgers) JournalChanged(key session.Key, id spec.AssignmentID) (time.Time, error) {
	return s.modified(journalKey(key, id))
}

// readJournal reads a journal; it is empty if there is none. If it is damaged, the error is a
// [*Fault], and the result has the intact entries.
func (s ledgers) readJournal(key string) (*journalFile, error) {
	data, version, err := s.docs.Read(key)
	if errors.Is(err, storage.ErrNotFound) {
		return &journalFile{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the journal: %w", err)
	}
	f := parseJournal(data)
	if len(f.faults) == 0 {
		return f, nil
	}
	return f, s.journalFault(key, version, f.fault())
}

// journalFault returns the fault of a damaged journal and puts a copy of it into the quarantine,
// once for each content.
func (s ledgers) journalFault(key string, version storage.Version, what string) error {
	kept, err := s.docs.Quarantine(key, version, true)
	if err != nil {
		return &cas.Fault{Path: key, What: what + "; cannot be copied to the quarantine: " + err.Error(), Kind: session.ErrCorrupt}
	}
	return &cas.Fault{Path: key, What: what, Quarantined: kept, Kind: session.ErrCorrupt}
}

// AppendEntry appends an entry to an assignment's journal durably. After an error the entry may
// be there or not; repeating the call does not duplicate it. The caller must hold the
// assignment's lock. An incomplete last line is removed first.
func (s ledgers) AppendEntry(key session.Key, id spec.AssignmentID, e budget.Entry) error {
	doc, err := journalKey(key, id)
	if err != nil {
		return err
	}
	line, err := journalLine(e)
	if err == nil {
		err = s.docs.Append(doc, line)
	}
	if err != nil {
		return fmt.Errorf("write to the journal of %s: %w", id, err)
	}
	return nil
}

// journals lists the assignments of a session that have a journal, sorted.
func (s ledgers) journals(ctx context.Context, key session.Key) ([]spec.AssignmentID, error) {
	return s.sessions.assignments(ctx, key, journalOf)
}
