package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/failpoint"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
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

func (s *Store) journalPath(key session.Key, id spec.AssignmentID) (string, error) {
	dir, err := s.SessionDir(key)
	if err != nil {
		return "", err
	}
	if err := checkAssignment(id); err != nil {
		return "", err
	}
	return filepath.Join(dir, "assignments", journalName(id)), nil
}

func journalName(id spec.AssignmentID) string { return id.Phase + "." + id.Persona + journalSuffix }

// journalOf is the assignment whose journal has this file name.
func journalOf(file string) (spec.AssignmentID, bool) {
	name, ok := strings.CutSuffix(file, journalSuffix)
	phase, persona, _ := strings.Cut(name, ".")
	id := spec.AssignmentID{Phase: phase, Persona: persona}
	return id, ok && checkAssignment(id) == nil
}

// journalLine writes an entry as a line, without its end.
func journalLine(e budget.Entry) ([]byte, error) { return sealLine(e) }

func sealLine(e any) ([]byte, error) {
	entry, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	return slices.Concat([]byte(lineHead), entry, []byte(lineSeal), []byte(digestOf(entry)), []byte(lineTail)), nil
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
	if string(after) != lineSeal+string(digestOf(entry))+lineTail {
		return nil, fmt.Errorf("has a %s that does not match its entry", sealField)
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
func (s *Store) Journal(key session.Key, id spec.AssignmentID) (*budget.Journal, error) {
	path, err := s.journalPath(key, id)
	if err != nil {
		return nil, err
	}
	f, err := s.readJournal(path)
	if faults, rest := faultsIn(err); rest != nil || (len(faults) > 0 && f == nil) {
		return nil, err
	}
	return &f.journal, nil
}

// readJournal reads the journal at path; without a file it is empty. Damage is a
// [*Fault] beside what is intact.
func (s *Store) readJournal(path string) (*journalFile, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &journalFile{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the journal: %w", err)
	}
	f := parseJournal(data)
	if len(f.wrong) == 0 {
		return f, nil
	}
	return f, s.journalFault(path, data, f.fault())
}

// journalFault reports a damaged journal and keeps a copy of it, as it is, in the
// quarantine: one, however often it is read before it changes again.
func (s *Store) journalFault(path string, data []byte, what string) error {
	kept, err := s.keepDamaged(path, data)
	if err != nil {
		return &Fault{Path: s.rel(path), What: what + "; cannot be copied to the quarantine: " + err.Error(), kind: session.ErrCorrupt}
	}
	return &Fault{Path: s.rel(path), What: what, Quarantined: s.rel(kept), kind: session.ErrCorrupt}
}

// keepDamaged copies a file's content to the quarantine, under the time at which
// the file was last changed.
func (s *Store) keepDamaged(path string, data []byte) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	kept := s.quarantined(path, info.ModTime())
	if there, err := os.ReadFile(kept); err == nil && bytes.Equal(there, data) {
		return kept, nil
	}
	return kept, s.write(kept, data, untilPowerLoss)
}

// AppendEntry adds an entry to an assignment's journal; when it returns the entry
// outlives a power loss. After an error it may be there or not; the same entry
// again is then the same entry. Only the holder of the assignment's lock may call
// it. What an append that was cut off has left at the journal's end is cut away.
func (s *Store) AppendEntry(key session.Key, id spec.AssignmentID, e budget.Entry) error {
	path, err := s.journalPath(key, id)
	if err != nil {
		return err
	}
	line, err := journalLine(e)
	if err == nil {
		err = s.withReserve(func() error { return s.appendLine(path, append(line, '\n')) })
	}
	if err != nil {
		return fmt.Errorf("write to the journal of %s: %w", id, err)
	}
	return nil
}

func (s *Store) appendLine(path string, line []byte) (err error) {
	f, err := s.openJournal(path)
	if err != nil {
		return err
	}
	defer closing(f, &err)
	end, err := cutTorn(f)
	if err == nil && end == 0 { // a journal with a line has a durable name already
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		return err
	}
	there, err := endsWith(f, end, line)
	if err != nil {
		return err
	}
	if !there {
		failpoint.Torn(path, f, line)
		_, err = f.Write(line)
	}
	if err == nil {
		err = flushData(f)
	}
	if err != nil && !there {
		// A later append cuts off what this cannot.
		_ = f.Truncate(end)
	}
	return err
}

// openJournal opens a journal to append to it, making it if need be.
func (s *Store) openJournal(path string) (*os.File, error) {
	const mode = os.O_RDWR | os.O_APPEND | os.O_CREATE
	f, err := os.OpenFile(path, mode, fileMode)
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	if err := s.makeDir(filepath.Dir(path), durable); err != nil {
		return nil, err
	}
	return os.OpenFile(path, mode, fileMode)
}

// cutTorn cuts off what follows the end of the last line, and returns the size of
// what is left.
func cutTorn(f *os.File) (int64, error) {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return 0, err
	}
	end := info.Size()
	for block := make([]byte, 4<<10); end > 0; {
		b := block[:min(int64(len(block)), end)]
		if _, err := f.ReadAt(b, end-int64(len(b))); err != nil {
			return 0, err
		}
		if at := bytes.LastIndexByte(b, '\n'); at >= 0 {
			end -= int64(len(b) - at - 1)
			break
		}
		end -= int64(len(b))
	}
	if end == info.Size() {
		return end, nil
	}
	return end, f.Truncate(end)
}

// endsWith tells whether a file of some size ends with a line.
func endsWith(f *os.File, size int64, line []byte) (bool, error) {
	from := size - int64(len(line))
	if from < 0 {
		return false, nil
	}
	last := make([]byte, len(line))
	if _, err := f.ReadAt(last, from); err != nil {
		return false, err
	}
	return bytes.Equal(last, line), nil
}

// journals lists the assignments of a session that have a journal, sorted.
func (s *Store) journals(ctx context.Context, key session.Key) ([]spec.AssignmentID, error) {
	return s.assignments(ctx, key, journalOf)
}
