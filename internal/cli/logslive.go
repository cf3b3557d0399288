package cli

import (
	"bytes"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/maestro-hive/maestro/internal/team"
)

// maxHeard bounds how much of what an attempt prints is remembered, in bytes: more
// than a transcript has.
const maxHeard = 2 << 20

// escapes are what colours a terminal, or moves its cursor.
var escapes = regexp.MustCompile(`\x1b(\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[@-Z\\^_])`)

// liveLog is what an attempt under way prints.
type liveLog struct {
	file *os.File
	// text is what was printed of it, in whole lines; rest is the beginning of a
	// line.
	text, rest []byte
}

// has tells whether a line was printed.
func (l *liveLog) has(line string) bool {
	return l != nil && bytes.Contains(escapes.ReplaceAll(l.text, nil), []byte(strings.TrimSuffix(line, "…")))
}

// hear prints what an assignment's attempt has printed since it was last heard. Of
// an attempt that is not under way, nothing new is begun.
func (f *logFollower) hear(id team.AssignmentID, running bool) error {
	if err := f.drain(id); err != nil || !running {
		return err
	}
	now, err := f.store.OpenSaid(f.key, id)
	if err != nil { // it works elsewhere, or is no program: its transcript comes in the end
		return nil
	}
	if l := f.live[id]; l != nil {
		if sameFile(l.file, now) {
			return now.Close()
		}
		_ = l.file.Close() // only read
	}
	f.live[id] = &liveLog{file: now}
	return f.drain(id)
}

func sameFile(a, b *os.File) bool {
	x, err := a.Stat()
	if err != nil {
		return false
	}
	y, err := b.Stat()
	return err == nil && os.SameFile(x, y)
}

// drain prints the lines that have come since.
func (f *logFollower) drain(id team.AssignmentID) error {
	l := f.live[id]
	if l == nil {
		return nil
	}
	data, err := io.ReadAll(io.LimitReader(l.file, maxHeard))
	if err != nil {
		return err
	}
	l.rest = append(l.rest, data...)
	for {
		line, rest, whole := bytes.Cut(l.rest, []byte("\n"))
		if !whole {
			return nil
		}
		l.text, l.rest = append(append(l.text, line...), '\n'), rest
		if err := f.say(id, escapes.ReplaceAllString(string(line), "")); err != nil {
			return err
		}
		if len(l.text) > maxHeard {
			l.text = bytes.Clone(l.text[maxHeard/2:])
		}
	}
}

// finish leaves of an attempt's transcript what was not printed while it was under
// way.
func (f *logFollower) finish(l *attemptLog) error {
	if err := f.drain(l.AssignmentID); err != nil {
		return err
	}
	live := f.live[l.AssignmentID]
	if live == nil || f.app.output == outputJSON {
		return nil
	}
	if rest, ok := strings.CutPrefix(l.Text, string(live.text)); ok {
		l.Text, live.text = rest, nil
	}
	return nil
}

// close lets go of the files.
func (f *logFollower) close() {
	for _, l := range f.live {
		_ = l.file.Close() // only read
	}
}
