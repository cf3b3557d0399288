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
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/transcript"
)

const (
	// maxHeard bounds how much of what an attempt prints is remembered, in bytes: more
	// than a transcript has.
	maxHeard = 4 << 20
	// maxRecent is how many of the last lines are compared with what heartbeats bring.
	maxRecent = 500
	// maxJoint is how many bytes of what was printed are looked for in a transcript.
	maxJoint = 4 << 10
)

// liveLog follows what an assignment's attempt under way prints. Its zero value follows
// nothing yet.
type liveLog struct {
	file *os.File
	// text is what came of the present file, in whole lines; rest is the beginning of
	// a line. earlier is what came of the file of an execution before it, as far as the
	// present one may still repeat it: models go through the answers that are stored.
	text, rest, earlier []byte
	// recent has the last lines, as heartbeats have them.
	recent []string
}

// follow returns the lines that have come since it was last asked. Of an attempt that
// is not under way, no new file is opened.
func (l *liveLog) follow(s *store.Store, key session.Key, id spec.AssignmentID, running bool) ([]string, error) {
	lines, err := l.drain()
	if err != nil || !running {
		return lines, err
	}
	now, err := s.OpenSaid(key, id)
	if err != nil { // it works on another host, or has yet to begin
		return lines, nil
	}
	if l.file != nil {
		if sameFile(l.file, now) {
			return lines, now.Close()
		}
		_ = l.file.Close() // only read
	}
	l.file, l.earlier, l.text, l.rest = now, l.text, nil, nil
	fresh, err := l.drain()
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

// drain returns the lines that the present file has got.
func (l *liveLog) drain() (lines []string, err error) {
	if l.file == nil {
		return nil, nil
	}
	data, err := io.ReadAll(io.LimitReader(l.file, maxHeard))
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
		if len(l.text) > maxHeard {
			l.text = bytes.Clone(l.text[maxHeard/2:])
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

// repeats reports whether a line is the next one of what the execution before has printed,
// which is so only of a model's transcript.
func (l *liveLog) repeats(line []byte) bool {
	if len(l.text) == 0 && turnOf(line) == "" {
		l.earlier = nil
	}
	next, rest, more := bytes.Cut(l.earlier, []byte("\n"))
	if !more || !bytes.Equal(next, line) && (turnOf(line) == "" || turnOf(line) != turnOf(next)) {
		l.earlier = nil
		return false
	}
	l.earlier = rest
	return true
}

// turnOf is the part of a line that names a model's turn: what follows on it says whether
// its answer is stored. It is empty for all other lines.
func turnOf(line []byte) string {
	turn, _, _ := bytes.Cut(line, []byte(":"))
	if !bytes.HasPrefix(turn, []byte("-- turn ")) {
		return ""
	}
	return string(turn)
}

// has reports whether what a heartbeat brought is among the last lines.
func (l *liveLog) has(progress string) bool {
	if l == nil {
		return false
	}
	progress = onOneLine(strings.TrimSuffix(progress, "…"))
	return slices.ContainsFunc(l.recent, func(line string) bool { return strings.Contains(line, progress) })
}

// onOneLine is a text as heartbeats have it.
func onOneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// restOf is what follows in a transcript on what was printed of it: all of it where that
// cannot be found.
func (l *liveLog) restOf(log string) string {
	if rest, ok := strings.CutPrefix(log, string(l.text)); ok {
		return rest
	}
	joint := string(l.text[max(len(l.text)-maxJoint, 0):]) // it is longer than a transcript may be, or has another beginning
	if i := strings.LastIndex(log, joint); i >= 0 {
		return log[i+len(joint):]
	}
	return log
}

func (l *liveLog) close() {
	if l.file != nil {
		_ = l.file.Close() // only read
	}
}

// follows is an assignment whose lines are printed as they come.
type follows struct {
	liveLog
	brief transcript.Brief
}

// hear prints an attempt's output since the last call.
func (f *logFollower) hear(id spec.AssignmentID, running bool) error {
	l := f.live[id]
	if l == nil {
		l = &follows{}
		f.live[id] = l
	}
	lines, err := l.follow(f.store, f.key, id, running)
	if err != nil {
		return err
	}
	return f.show(id, l, lines)
}

// show prints lines of an attempt, in brief unless they are wanted whole.
func (f *logFollower) show(id spec.AssignmentID, l *follows, lines []string) error {
	for _, line := range lines {
		shown := []string{line}
		if !f.options.full && f.app.output != outputJSON {
			shown = l.brief.Line(line)
		}
		for _, line := range shown {
			if err := f.say(id, line); err != nil {
				return err
			}
		}
	}
	return nil
}

// finish reduces an attempt's transcript to what was not printed while it was
// way.
func (f *logFollower) finish(l *attemptLog) error {
	live := f.live[l.AssignmentID]
	if live == nil || live.file == nil {
		return nil
	}
	lines, err := live.drain()
	if err == nil {
		err = f.show(l.AssignmentID, live, lines)
	}
	if err != nil || f.app.output == outputJSON {
		return err
	}
	for _, line := range live.brief.End() {
		if err := f.say(l.AssignmentID, line); err != nil {
			return err
		}
	}
	if rest := live.restOf(l.Text); rest != l.Text {
		l.Text, live.text = rest, nil
	}
	return nil
}

// close lets go of the files.
func (f *logFollower) close() {
	for _, l := range f.live {
		l.close()
	}
}
