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

// A journal is a file of lines, one for each entry, that only grows. A line is
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

// parseLine reads a line. Fields that an entry does not have are passed over: a
// newer version may have them.
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

// unsealLine returns a line's entry and refuses one that sealLine cannot have written.
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

// journalFile is what a journal's file holds.
type journalFile struct {
	journal budget.Journal
	// entries are those that the journal has taken in.
	entries []budget.Entry
	// sound are their lines, ends included.
	sound []byte
	// wrong says what is wrong with other lines, in order.
	wrong []string
}

// wholeLines are the lines of a journal without their ends, numbered from 1. What follows
// the last line's end was being written when its writer died, and nobody has relied on it.
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

// parseJournal reads a journal's file.
func parseJournal(data []byte) *journalFile {
	f := &journalFile{}
	damaged := false // the line before was
	for n, line := range wholeLines(data) {
		want := f.journal.Next()
		e, err := parseLine(line)
		if err == nil {
			err = f.journal.Apply(e)
		}
		switch {
		case err != nil:
			f.wrong = append(f.wrong, fmt.Sprintf("line %d: %s", n, err))
		case e.Seq != want && !damaged:
			f.wrong = append(f.wrong, fmt.Sprintf("line %d: it is entry %d and not %d", n, e.Seq, want))
		}
		if damaged = err != nil; !damaged {
			f.entries = append(f.entries, e)
			f.sound = append(append(f.sound, line...), '\n')
		}
	}
	return f
}

// dropAnswers leaves out what the calls returned, and keeps what they cost.
func (f *journalFile) dropAnswers() error {
	f.sound = nil
	for i := range f.entries {
		e := &f.entries[i]
		e.Answer, e.Tools = "", ""
		line, err := journalLine(*e)
		if err != nil {
			return err
		}
		f.sound = append(append(f.sound, line...), '\n')
	}
	return nil
}

// fault says what is wrong with the file; empty: nothing.
func (f *journalFile) fault() string {
	const few = 5
	if len(f.wrong) > few {
		return fmt.Sprintf("%s; and %d lines more", strings.Join(f.wrong[:few], "; "), len(f.wrong)-few)
	}
	return strings.Join(f.wrong, "; ")
}

// Journal reads an assignment's journal; an empty one if there is none. Of a
// damaged one it returns what is intact, and a copy of the file is in the
// quarantine: verifying the store names it.
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

// JournalChanged is when an assignment's journal was last written; zero: there is none.
func (s ledgers) JournalChanged(key session.Key, id spec.AssignmentID) (time.Time, error) {
	return s.modified(journalKey(key, id))
}

// readJournal reads a journal; where there is none it is empty. Damage is a [*Fault]
// beside what is intact.
func (s ledgers) readJournal(key string) (*journalFile, error) {
	data, version, err := s.docs.Read(key)
	if errors.Is(err, storage.ErrNotFound) {
		return &journalFile{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the journal: %w", err)
	}
	f := parseJournal(data)
	if len(f.wrong) == 0 {
		return f, nil
	}
	return f, s.journalFault(key, version, f.fault())
}

// journalFault reports a damaged journal and keeps a copy of it, as it is, in the
// quarantine: one, however often it is read before it changes again.
func (s ledgers) journalFault(key string, version storage.Version, what string) error {
	kept, err := s.docs.Quarantine(key, version, true)
	if err != nil {
		return &cas.Fault{Path: key, What: what + "; cannot be copied to the quarantine: " + err.Error(), Kind: session.ErrCorrupt}
	}
	return &cas.Fault{Path: key, What: what, Quarantined: kept, Kind: session.ErrCorrupt}
}

// AppendEntry adds an entry to an assignment's journal; when it returns the entry
// outlives a power loss. After an error it may be there or not; the same entry
// again is then the same entry. Only the holder of the assignment's lock may call
// it. What an append that was cut off has left at the journal's end is cut away.
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
