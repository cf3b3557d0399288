package control

import (
	"bytes"
	"hash/crc32"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/maestro-hive/maestro/internal/safetext"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

const (
	// maxFollowed limits one read, and maxKept the kept output of an attempt, in bytes.
	maxFollowed = 4 << 20
	maxKept     = 1 << 20
	// maxTailLine limits a line, in bytes.
	maxTailLine = 64 << 10
	// maxRecent is the number of last lines that are compared with progress lines.
	maxRecent = 500
	// maxOverlap is the length of the output's end that is searched for in a transcript, in bytes.
	maxOverlap = 4 << 10
)

// Tail reads the live log of an assignment's running attempt as it grows. The zero
// value has no file yet.
type Tail struct {
	file *os.File
	// read is the offset after the complete lines that were read, and from the place from which
	// lines are new.
	read int64
	from place
	// after is when the last attempt ended: a file that was not written since then belongs to it.
	after time.Time
	// text has the complete lines of the current file; rest is the incomplete last one.
	// replaced has the lines of the previous execution's file that the current one may still
	// repeat: models replay stored answers.
	text, rest, replaced []byte
	// recent has the last lines, in the format of progress lines.
	recent []string
}

// Follow returns the lines since the last call. It opens a new file only if an attempt is in
// progress, at work or waiting.
func (l *Tail) Follow(dirs LiveLogs, key session.Key, id spec.AssignmentID, underWay bool) ([]string, error) {
	lines, err := l.readNew()
	if err != nil || !underWay {
		return lines, err
	}
	now, err := dirs.open(key, id)
	if err != nil { // it runs on another host, or has not begun
		return lines, nil
	}
	if l.file != nil {
		if sameFile(l.file, now) {
			return lines, now.Close()
		}
		_ = l.file.Close() // only read
	}
	l.file, l.replaced, l.text, l.rest, l.read = now, l.text, nil, nil, 0
	if l.from.Offset > 0 && !l.from.isIn(now) {
		l.from = place{}
	}
	if !l.WrittenSince(l.after) {
		l.Close()
		l.file = nil
		return lines, nil
	}
	fresh, err := l.readNew()
	return append(lines, fresh...), err
}

func sameFile(a, b *os.File) bool {
	x, err := a.Stat()
	if err != nil {
		return false
	}
	y, err := b.Stat()
	return err == nil && os.SameFile(x, y)
}

// readNew returns the new lines of the current file.
func (l *Tail) readNew() (lines []string, err error) {
	if l.file == nil {
		return nil, nil
	}
	data, err := io.ReadAll(io.LimitReader(l.file, maxFollowed))
	if err != nil {
		return nil, err
	}
	l.rest = append(l.rest, data...)
	for {
		line, rest, ok := firstLine(l.rest)
		if !ok {
			return lines, nil
		}
		again := l.repeats(line)
		read := len(l.rest) - len(rest)
		l.text, l.rest = append(l.text, l.rest[:read]...), rest
		l.read += int64(read)
		if len(l.text) > maxKept {
			l.text = bytes.Clone(l.text[maxKept/2:])
		}
		if again {
			continue
		}
		text := safetext.Block(string(line))
		l.recent = append(l.recent, onOneLine(text))
		l.recent = l.recent[max(len(l.recent)-maxRecent, 0):]
		if l.read > l.from.Offset {
			lines = append(lines, text)
		}
	}
}

// firstLine cuts off the first line, without its end. A line that is too long is cut into several. ok is
// false if the line is not complete.
func firstLine(text []byte) (line, rest []byte, ok bool) {
	if line, rest, ok = bytes.Cut(text, []byte("\n")); ok && len(line) <= maxTailLine || !ok && len(text) < maxTailLine {
		return line, rest, ok
	}
	end := maxTailLine
	for end > maxTailLine-utf8.UTFMax && end < len(text) && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end], text[end:], true
}

// repeats reports whether a line repeats the next one of the previous execution's output. Only
// models' transcripts do.
func (l *Tail) repeats(line []byte) bool {
	if len(l.text) == 0 && turnOf(line) == "" {
		l.replaced = nil
	}
	next, rest, more := bytes.Cut(l.replaced, []byte("\n"))
	if !more || !bytes.Equal(next, line) && (turnOf(line) == "" || turnOf(line) != turnOf(next)) {
		l.replaced = nil
		return false
	}
	l.replaced = rest
	return true
}

// turnOf returns the part of a line that names a model's turn, without what follows: whether
// the answer is stored. It is empty for all other lines.
func turnOf(line []byte) string {
	turn, _, _ := bytes.Cut(line, []byte(":"))
	if !bytes.HasPrefix(turn, []byte("-- turn ")) {
		return ""
	}
	return string(turn)
}

// Has reports whether a progress line is among the last lines.
func (l *Tail) Has(progress string) bool {
	if l == nil {
		return false
	}
	progress = onOneLine(strings.TrimSuffix(progress, "…"))
	return slices.ContainsFunc(l.recent, func(line string) bool { return strings.Contains(line, progress) })
}

// onOneLine returns a text in the form of progress lines.
func onOneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// Rest returns the part of a transcript after the printed output: all of it if the output
// is not found in it.
func (l *Tail) Rest(log string) string { return Unprinted(string(l.text), log) }

// Unprinted returns the part of a transcript after the end of what was printed of it: all of it if
// that is not found.
func Unprinted(printed, log string) string {
	if rest, ok := strings.CutPrefix(log, printed); ok {
		return rest
	}
	overlap := printed[max(len(printed)-maxOverlap, 0):] // the transcript is cut, or begins differently
	if i := strings.LastIndex(log, overlap); i >= 0 {
		return log[i+len(overlap):]
	}
	return log
}

// Close closes the file.
func (l *Tail) Close() {
	if l.file != nil {
		_ = l.file.Close() // only read
	}
}

// Output is the end of what the attempt has printed, in complete lines of at most so many bytes.
func (l *Tail) Output(most int) string {
	end := l.text
	if cut := len(end) - most; cut > 0 {
		_, end, _ = bytes.Cut(end[cut:], []byte("\n"))
	}
	return safetext.Block(string(end))
}

// Recent are the last lines, each as one line of progress, the oldest first.
func (l *Tail) Recent() []string { return l.recent }

// WrittenSince reports whether the current file was written after a time: it may be the
// previous attempt's.
func (l *Tail) WrittenSince(t time.Time) bool {
	if l.file == nil {
		return false
	}
	info, err := l.file.Stat()
	return err == nil && info.ModTime().After(t)
}

// place is a place in a file.
type place struct {
	// Offset is where it is, and Sum the checksum of the bytes before it, by which the
	// file is known again.
	Offset int64
	Sum    uint32
}

// placeSpan is how many bytes before a place its checksum is of.
const placeSpan = 256

// place is where the next line begins; the zero value where no file is open.
func (l *Tail) place() place {
	p := place{Offset: l.read}
	if l.file == nil || l.read == 0 {
		return place{}
	}
	p.Sum, _ = p.sumIn(l.file)
	return p
}

func (p place) sumIn(file io.ReaderAt) (uint32, error) {
	before := make([]byte, min(p.Offset, placeSpan))
	_, err := file.ReadAt(before, p.Offset-int64(len(before)))
	return crc32.ChecksumIEEE(before), err
}

// isIn reports whether a file has the place.
func (p place) isIn(file io.ReaderAt) bool {
	sum, err := p.sumIn(file)
	return err == nil && sum == p.Sum
}
