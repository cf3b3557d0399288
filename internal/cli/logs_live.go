package cli

import (
	"bytes"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/safetext"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/transcript"
	"github.com/maestro-hive/maestro/internal/workdir"
)

const (
	// maxFollowed bounds the kept output of an attempt, in bytes: more than a transcript has.
	maxFollowed = 4 << 20
	// maxRecent is the number of last lines that are compared with progress lines.
	maxRecent = 500
	// maxOverlap is the length of the output's end that is searched for in a transcript, in bytes.
	maxOverlap = 4 << 10
)

// liveLogReader reads the live log of an assignment's running attempt as it grows. The zero
// value has no file yet.
type liveLogReader struct {
	file *os.File
	// text has the complete lines of the current file; rest is the incomplete last one.
	// replaced has the lines of the previous execution's file that the current one may still
	// repeat: models replay stored answers.
	text, rest, replaced []byte
	// recent has the last lines, in the format of progress lines.
	recent []string
}

// follow returns the lines since the last call. It opens a new file only if the attempt runs.
func (l *liveLogReader) follow(dirs *workdir.Dirs, key session.Key, id spec.AssignmentID, running bool) ([]string, error) {
	lines, err := l.readNew()
	if err != nil || !running {
		return lines, err
	}
	now, err := dirs.OpenLiveLog(key, id)
	if err != nil { // it runs on another host, or has not begun
		return lines, nil
	}
	if l.file != nil {
		if sameFile(l.file, now) {
			return lines, now.Close()
		}
		_ = l.file.Close() // only read
	}
	l.file, l.replaced, l.text, l.rest = now, l.text, nil, nil
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
func (l *liveLogReader) readNew() (lines []string, err error) {
	if l.file == nil {
		return nil, nil
	}
	data, err := io.ReadAll(io.LimitReader(l.file, maxFollowed))
	if err != nil {
		return nil, err
	}
	l.rest = append(l.rest, data...)
	for {
		line, rest, whole := bytes.Cut(l.rest, []byte("\n"))
		if !whole {
			return lines, nil
		}
		again := l.repeats(line)
		l.text, l.rest = append(append(l.text, line...), '\n'), rest
		if len(l.text) > maxFollowed {
			l.text = bytes.Clone(l.text[maxFollowed/2:])
		}
		if again {
			continue
		}
		text := safetext.Block(string(line))
		l.recent = append(l.recent, onOneLine(text))
		l.recent = l.recent[max(len(l.recent)-maxRecent, 0):]
		lines = append(lines, text)
	}
}

// repeats reports whether a line repeats the next one of the previous execution's output. Only
// models' transcripts do.
func (l *liveLogReader) repeats(line []byte) bool {
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

// has reports whether a progress line is among the last lines.
func (l *liveLogReader) has(progress string) bool {
	if l == nil {
		return false
	}
	progress = onOneLine(strings.TrimSuffix(progress, "…"))
	return slices.ContainsFunc(l.recent, func(line string) bool { return strings.Contains(line, progress) })
}

// onOneLine returns a text in the form of progress lines.
func onOneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// restOf returns the part of a transcript after the printed output: all of it if the output
// is not found in it.
func (l *liveLogReader) restOf(log string) string {
	if rest, ok := strings.CutPrefix(log, string(l.text)); ok {
		return rest
	}
	overlap := string(l.text[max(len(l.text)-maxOverlap, 0):]) // the transcript is cut, or begins differently
	if i := strings.LastIndex(log, overlap); i >= 0 {
		return log[i+len(overlap):]
	}
	return log
}

func (l *liveLogReader) close() {
	if l.file != nil {
		_ = l.file.Close() // only read
	}
}

// assignmentOutput is the live log of an assignment with its shortened form.
type assignmentOutput struct {
	liveLogReader
	brief transcript.Brief
}

// printOutput prints an attempt's output since the last call.
func (f *logFollower) printOutput(id spec.AssignmentID, running bool) error {
	l := f.live[id]
	if l == nil {
		l = &assignmentOutput{}
		f.live[id] = l
	}
	lines, err := l.follow(workDirs(f.store), f.key, id, running)
	if err != nil {
		return err
	}
	return f.printLines(id, l, lines)
}

// printLines prints lines of an attempt, shortened unless --full is given.
func (f *logFollower) printLines(id spec.AssignmentID, l *assignmentOutput, lines []string) error {
	for _, line := range lines {
		shown := []string{line}
		if !f.full && f.output != outputJSON {
			shown = l.brief.Line(line)
		}
		for _, line := range shown {
			if err := f.printLine(id, line); err != nil {
				return err
			}
		}
	}
	return nil
}

// trim reduces an attempt's transcript to what was not printed while it ran.
func (f *logFollower) trim(l *attemptLog) error {
	live := f.live[l.AssignmentID]
	if live == nil || live.file == nil {
		return nil
	}
	lines, err := live.readNew()
	if err == nil {
		err = f.printLines(l.AssignmentID, live, lines)
	}
	if err != nil || f.output == outputJSON {
		return err
	}
	for _, line := range live.brief.End() {
		if err := f.printLine(l.AssignmentID, line); err != nil {
			return err
		}
	}
	if rest := live.restOf(l.Text); rest != l.Text {
		l.Text, live.text = rest, nil
	}
	return nil
}

// close closes the files.
func (f *logFollower) close() {
	for _, l := range f.live {
		l.close()
	}
}
