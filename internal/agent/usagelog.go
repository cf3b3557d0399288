package agent

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"

	"github.com/maestro-hive/maestro/internal/cost"
)

// The bounds of what is read of a program's files. The agent may have put anything
// there: no link is followed, no pipe is waited for.
const (
	maxUsageFiles    = 10_000
	maxUsageDepth    = 8
	maxUsageBytes    = 256 << 20
	maxUsageMessages = 200_000
)

// usageNotes is how a program notes in its HOME what its requests have used.
type usageNotes struct {
	// dir is the directory below HOME that has the files of its conversations, lines
	// of JSON that only grow.
	dir string
	// file tells whether a path below HOME is such a file.
	file func(path string) bool
	// mark is in every line that notes a usage.
	mark string
	// line adds what a line notes.
	line func(path string, line []byte, t *tally)
	// opening is what a conversation's first request reads besides the prompt, in
	// tokens: the program's own instructions and tools, about a token for four bytes.
	opening int64
}

// tally adds up what the messages of conversations have used. A message may be told
// of several times, and its usage grows; it counts once.
type tally struct {
	messages map[string]cost.Usage
	sum      cost.Usage
	// last is the usage of the last message, and longest the most tokens that one
	// has written.
	last    cost.Usage
	longest int64
}

// add counts what a message, or a whole conversation, has used so far. It returns
// false if that is nothing new.
func (t *tally) add(id string, used cost.Usage) bool {
	if t.messages == nil {
		t.messages = map[string]cost.Usage{}
	}
	before, known := t.messages[id]
	if id == "" || used.Validate() != nil || !known && len(t.messages) >= maxUsageMessages {
		return false
	}
	now := used.Max(before)
	if now == before {
		return false
	}
	t.messages[id] = now
	t.sum = t.sum.Add(now.Minus(before))
	return true
}

// answered notes the usage of one message, for the estimate of the next.
func (t *tally) answered(used cost.Usage) {
	if used.Validate() == nil && used.Tokens() > 0 {
		t.last, t.longest = used, max(t.longest, used.OutputTokens)
	}
}

// next estimates what one more request costs: the conversation so far is read again,
// and the answer is as long as the longest so far. Zero: there is no message yet.
func (t *tally) next() cost.Usage {
	u := cost.Usage{InputTokens: t.last.InputTokens + t.last.OutputTokens, OutputTokens: t.longest}
	if cached := t.last.CacheReadTokens + t.last.CacheWriteTokens; cached > 0 {
		u.CacheReadTokens = cached
	}
	return u
}

// usageLog reads what a program notes in its HOME, as it grows.
type usageLog struct {
	home  string
	notes usageNotes
	tally
	// read tells how far each file was read, by its path below HOME.
	read map[string]int64
	// bytes is how much was read in all.
	bytes int64
}

func newUsageLog(home string, notes usageNotes) *usageLog {
	return &usageLog{home: home, notes: notes, read: map[string]int64{}}
}

// update reads what has been added to the files. What cannot be read says nothing.
func (l *usageLog) update() {
	root, err := os.OpenRoot(l.home)
	if err != nil {
		return
	}
	defer root.Close() //nolint:errcheck // only read
	entries := 0
	l.walk(root, l.notes.dir, 0, &entries)
}

func (l *usageLog) walk(root *os.Root, dir string, depth int, entries *int) {
	f, err := root.OpenFile(dir, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return
	}
	defer f.Close() //nolint:errcheck // only read
	for *entries < maxUsageFiles {
		const some = 256
		found, err := f.ReadDir(some)
		*entries += len(found)
		for _, e := range found {
			name := path.Join(dir, e.Name())
			switch {
			case e.IsDir() && depth < maxUsageDepth:
				l.walk(root, name, depth+1, entries)
			case e.Type().IsRegular() && l.notes.file(name):
				l.file(root, name)
			}
		}
		if err != nil {
			return
		}
	}
}

// file reads the lines that a file has more than before.
func (l *usageLog) file(root *os.Root, name string) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return
	}
	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	if err != nil || info.Mode().Type() != fs.FileMode(0) || info.Size() == l.read[name] {
		return
	}
	if info.Size() < l.read[name] { // it was written anew
		l.read[name] = 0
	}
	if _, err := f.Seek(l.read[name], io.SeekStart); err != nil {
		return
	}
	lines := bufio.NewReaderSize(io.LimitReader(f, maxUsageBytes-l.bytes), 64<<10)
	var line []byte
	for size := int64(0); ; {
		piece, err := lines.ReadSlice('\n')
		size += int64(len(piece))
		if size <= maxEvent {
			line = append(line, piece...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil: // the line is still being written
			return
		}
		l.read[name] += size
		l.bytes += size
		if size <= maxEvent && bytes.Contains(line, []byte(l.notes.mark)) {
			l.notes.line(name, bytes.TrimSpace(line), &l.tally)
		}
		line, size = line[:0], 0
	}
}
