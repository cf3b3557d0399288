package preset

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/platform/bounded"
)

// The bounds of what is read of a program's files. The agent may have put anything
// there: no link is followed, no pipe is waited for.
const (
	maxUsageFiles    = 10_000
	maxUsageDepth    = 8
	maxUsageBytes    = 256 << 20
	maxUsageMessages = 200_000
)

// UsageFiles is how a program notes in its HOME what its requests have used.
type UsageFiles struct {
	// dir is the directory below HOME that has the files of its conversations, lines
	// of JSON that only grow.
	dir string
	// file reports whether a path is that of such a file.
	file func(path string) bool
	// mark is in every line that notes a usage.
	mark string
	// line adds what a line notes.
	line func(path string, line []byte, t *Tally)
	// Opening is what a conversation's first request reads besides the prompt, in
	// tokens: the program's own instructions and tools, about a token for four bytes.
	Opening int64
}

// Tally adds up what the messages of conversations have used. A message may be told
// of several times, and its usage grows; it counts once.
type Tally struct {
	Messages map[string]cost.Usage
	Sum      cost.Usage
	// last is the usage of the last message, and longest the most tokens that one
	// has written.
	last    cost.Usage
	longest int64
}

// add counts what a message, or a whole conversation, has used so far. It returns
// false if that is nothing new.
func (t *Tally) add(id string, used cost.Usage) bool {
	if t.Messages == nil {
		t.Messages = map[string]cost.Usage{}
	}
	before, known := t.Messages[id]
	if id == "" || len(id) > maxID || used.Validate() != nil || !known && len(t.Messages) >= maxUsageMessages {
		return false
	}
	now := used.Max(before)
	if now == before {
		return false
	}
	t.Messages[id] = now
	t.Sum = t.Sum.Add(now.Minus(before))
	return true
}

// answered notes the usage of one message, for the estimate of the next.
func (t *Tally) answered(used cost.Usage) {
	if used.Validate() == nil && used.Tokens() > 0 {
		t.last, t.longest = used, max(t.longest, used.OutputTokens)
	}
}

// Next estimates what one more request costs: the conversation so far is read again,
// and the answer is as long as the longest so far. Zero: there is no message yet.
func (t *Tally) Next() cost.Usage {
	u := cost.Usage{InputTokens: t.last.InputTokens + t.last.OutputTokens, OutputTokens: t.longest}
	if cached := t.last.CacheReadTokens + t.last.CacheWriteTokens; cached > 0 {
		u.CacheReadTokens = cached
	}
	return u
}

// UsageLog reads what a program notes in its HOME, as it grows.
type UsageLog struct {
	home  string
	files UsageFiles
	Tally
	// offsets tells how far each file was read, by its path.
	offsets map[string]int64
	// bytes is how much was read in all, at most maxUsageBytes.
	bytes int64
}

// NewUsageLog reads the usage that a program keeps below its HOME.
func NewUsageLog(home string, notes UsageFiles) *UsageLog {
	return &UsageLog{home: home, files: notes, offsets: map[string]int64{}}
}

// Update reads what has been added to the files. What cannot be read says nothing.
func (l *UsageLog) Update() {
	home, err := os.OpenRoot(l.home)
	if err != nil {
		return
	}
	defer home.Close() //nolint:errcheck // only read
	root, err := home.OpenRoot(l.files.dir)
	if err != nil {
		return
	}
	defer root.Close() //nolint:errcheck // only read
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	entries := 0
	_, _ = bounded.Walk(ctx, root, maxUsageDepth, func(e bounded.Entry) {
		if entries++; entries > maxUsageFiles {
			stop()
			return
		}
		if name := path.Join(e.Dir.Name(), e.Info.Name()); e.Info.Mode().IsRegular() && l.files.file(name) {
			l.file(e.Dir, name)
		}
	})
}

// file reads the lines that a file has more than before.
func (l *UsageLog) file(dir *os.Root, name string) {
	f, err := dir.OpenFile(path.Base(name), os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return
	}
	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	if err != nil || info.Mode().Type() != fs.FileMode(0) || info.Size() == l.offsets[name] {
		return
	}
	if info.Size() < l.offsets[name] { // it was written anew
		l.offsets[name] = 0
	}
	if _, err := f.Seek(l.offsets[name], io.SeekStart); err != nil {
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
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		l.bytes += size
		if err == nil || size > maxEvent { // else the line is read again when it has an end
			l.offsets[name] += size
		}
		if err != nil {
			return
		}
		if size <= maxEvent && bytes.Contains(line, []byte(l.files.mark)) {
			l.files.line(name, bytes.TrimSpace(line), &l.Tally)
		}
		line, size = line[:0], 0
	}
}
