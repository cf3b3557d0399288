package procgroup

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/secrets"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

const (
	// logHead and logTail are the sizes of the kept beginning and end of a long log.
	logHead = 512 << 10
	logTail = 1536 << 10
	// maxCopy bounds the live log file.
	maxCopy = 64 << 20
	// maxLine is the length at which a long line is broken.
	maxLine = 8 << 10
	// tailBytes is the size of the kept end of a stream. It is more than a failure's output may
	// have, because escape sequences are removed.
	tailBytes = 4 * session.MaxOutput
	// eventsPerText is how many times as large as the limit a stream of events may be: its events have
	// what tools have read, several times, of which the log gets a part.
	eventsPerText = 16
)

// Capture collects the output of a process: a masked and bounded log, the ends of its streams,
// and each line for progress.
type Capture struct {
	secrets *secrets.Set
	limit   int64
	// active gets a value at each output, and full one when the limit is exceeded.
	active, full   chan struct{}
	Stdout, Stderr *Stream
	// printed is the stream of Capture.Print.
	printed *Stream

	mu sync.Mutex
	// total and events are the sizes of texts and of the stream of events so far, in bytes.
	total  int64
	events int64
	log    headTail
	copy   *os.File // the live log file; nil: none
	// copyLeft is the remaining size of the live log file, in bytes.
	copyLeft int
	tail     headTail // the end of both streams together
}

// Stream is one of the two streams of a process.
type Stream struct {
	capture *Capture
	masked  secrets.Stream
	line    []byte
	tail    headTail
	// last is the last line that was not blank.
	last string
	// onLine gets every line; may be nil.
	onLine func(line string)
	// events, if not nil, gets the output instead of the log: it parses a program's stream of
	// events, and its reader adds texts to the log.
	events *Lines
}

// NewCapture captures output up to a limit in bytes, with secrets masked.
func NewCapture(set *secrets.Set, limit int64) *Capture {
	c := &Capture{
		secrets: set, limit: limit,
		active: make(chan struct{}, 1), full: make(chan struct{}, 1),
		log:  headTail{head: logHead, tail: logTail},
		tail: headTail{tail: tailBytes},
	}
	c.Stdout = &Stream{capture: c, masked: set.Stream(), tail: headTail{tail: tailBytes}}
	c.Stderr = &Stream{capture: c, masked: set.Stream(), tail: headTail{tail: tailBytes}}
	c.printed = &Stream{capture: c}
	return c
}

// Write adds output of the process. It never fails and never blocks; output over the limit is
// dropped.
func (s *Stream) Write(data []byte) (int, error) {
	if s.events != nil {
		nudge(s.capture.active)
		if s.capture.permitsEvents(len(data)) {
			s.events.Add(s.masked.Next(data))
		}
		return len(data), nil
	}
	s.capture.mu.Lock()
	s.add(s.masked.Next(s.within(data)))
	s.capture.mu.Unlock()
	nudge(s.capture.active)
	return len(data), nil
}

// Print adds a text to the log and the kept end, like output of the process.
func (s *Stream) Print(text string) {
	text = s.capture.secrets.Mask(safetext.Block(text)) + "\n"
	s.capture.mu.Lock()
	defer s.capture.mu.Unlock()
	s.add(s.within([]byte(text)))
}

// Print adds a text to the log and the kept end of both streams. It does not count for the limit.
func (c *Capture) Print(text string) {
	text = c.secrets.Mask(safetext.Block(text)) + "\n"
	c.mu.Lock()
	defer c.mu.Unlock()
	c.printed.add([]byte(text))
}

// Writer returns a writer that prints each write as a text.
func (s *Stream) Writer() io.Writer { return lineWriter{s} }

type lineWriter struct{ *Stream }

func (s lineWriter) Write(text []byte) (int, error) {
	s.Print(strings.TrimSuffix(string(text), "\n"))
	return len(text), nil
}

// within counts output, and returns the part within the limit.
func (s *Stream) within(data []byte) []byte {
	c := s.capture
	left := c.limit - c.total
	c.total += int64(len(data))
	if int64(len(data)) > left {
		nudge(c.full)
		return data[:max(left, 0)]
	}
	return data
}

// permitsEvents counts bytes of a stream of events, and reports whether they are within its limit.
func (c *Capture) permitsEvents(n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.events += int64(n); c.events > eventsPerText*c.limit {
		nudge(c.full)
		return false
	}
	return true
}

// exceeded returns the failure of a process that printed more than the limit; nil: it did not.
func (c *Capture) exceeded() *failures.Failure {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.total > c.limit:
		return failures.Failf(failures.InvalidOutput, "printed more than %s (limits.output_bytes)", textfmt.ByteSize(c.limit))
	case c.events > eventsPerText*c.limit:
		return failures.Failf(failures.InvalidOutput, "printed events of more than %s (%d times limits.output_bytes)",
			textfmt.ByteSize(eventsPerText*c.limit), eventsPerText)
	}
	return nil
}

// Close ends the stream.
func (s *Stream) Close() error {
	if s.events != nil {
		s.events.Add(s.masked.End())
		s.events.End()
	}
	s.capture.mu.Lock()
	defer s.capture.mu.Unlock()
	s.add(s.masked.End())
	if len(s.line) > 0 {
		s.line = append(s.line, '\n')
		s.endLine()
	}
	return nil
}

// add splits masked text into lines. The log gets complete lines, because two streams share it.
func (s *Stream) add(text []byte) {
	for len(text) > 0 {
		end := bytes.IndexByte(text, '\n')
		piece := text
		if end >= 0 {
			piece = text[:end+1]
		}
		if room := maxLine - len(s.line); len(piece) > room {
			piece, end = piece[:room], room
		}
		s.line = append(s.line, piece...)
		text = text[len(piece):]
		if end >= 0 {
			s.endLine()
		}
	}
}

func (s *Stream) endLine() {
	// Masked again: the removed escape sequences may have split a secret.
	line := s.capture.secrets.Mask(safetext.Block(string(s.line)))
	s.line = s.line[:0]
	s.capture.keep([]byte(line))
	s.capture.tail.add([]byte(line))
	s.tail.add([]byte(line))
	// Text that a carriage return overwrote, as progress bars do, has become separate
	// lines here; the last one is what a terminal shows.
	text := strings.TrimSpace(line)
	text = text[strings.LastIndexByte(text, '\n')+1:]
	if text == "" {
		return
	}
	s.last = text
	if s.onLine != nil {
		s.onLine(text)
	}
}

// Note adds a line of Maestro's to the log.
func (c *Capture) Note(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keep([]byte("maestro: " + fmt.Sprintf(format, args...) + "\n"))
}

// keep adds lines to the log. The caller holds the lock.
func (c *Capture) keep(lines []byte) {
	c.log.add(lines)
	if c.copy == nil {
		return
	}
	if c.copyLeft -= len(lines); c.copyLeft < 0 {
		lines = []byte("maestro: too much output to follow; the transcript contains the end of it after the attempt\n")
	}
	if _, err := c.copy.Write(lines); err != nil || c.copyLeft < 0 { // the stored log is complete
		_ = c.copy.Close()
		c.copy = nil
	}
}

// CopyTo copies the log to a live log file until end is called. The file is a
// new one or, if begun is set, the file of the attempt's earlier execution, whose text is added
// to the log. Errors of the file are ignored.
func (c *Capture) CopyTo(path string, begun time.Time) (end func()) {
	if path == "" {
		return func() {}
	}
	earlier := c.readEarlierLog(path, begun)
	mode := os.O_WRONLY | os.O_APPEND | syscall.O_NOFOLLOW | syscall.O_NONBLOCK
	if len(earlier) == 0 {
		_ = os.Remove(path)
		mode |= os.O_CREATE | os.O_EXCL
	}
	f, err := os.OpenFile(path, mode, 0o600)
	if err != nil {
		return func() {}
	}
	c.copy, c.copyLeft = f, max(maxCopy-len(earlier), 0)
	if len(earlier) > 0 {
		if earlier[len(earlier)-1] != '\n' { // an incomplete last line
			c.keep([]byte{'\n'})
		}
		c.Note("the attempt was interrupted here, and continues")
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.copy != nil {
			_ = c.copy.Close()
			c.copy = nil
		}
	}
}

// readEarlierLog reads the live log of the attempt's earlier execution, and adds it to the log.
// The agent may have replaced the file, so only a plausible one is read.
func (c *Capture) readEarlierLog(path string, begun time.Time) []byte {
	if begun.IsZero() {
		return nil
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > 2*maxCopy || info.ModTime().Before(begun) {
		return nil // another attempt's, or replaced
	}
	data, err := io.ReadAll(io.LimitReader(f, 2*maxCopy))
	if err != nil {
		return nil
	}
	c.log.add([]byte(c.secrets.Mask(safetext.Block(string(data)))))
	return data
}

// Log returns the masked and bounded log.
func (c *Capture) Log() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return []byte(strings.ToValidUTF8(string(c.log.bytes()), "\uFFFD"))
}

// Tail returns the end of both streams, as a failure's output.
func (c *Capture) Tail() string { return c.tailOf(&c.tail) }

// Tail returns the end of the stream, as a failure's output.
func (s *Stream) Tail() string { return s.capture.tailOf(&s.tail) }

// FailureOutput returns the end of stderr or, if it is empty, of stdout.
func (c *Capture) FailureOutput() string { return cmp.Or(c.Stderr.Tail(), c.Stdout.Tail()) }

func (c *Capture) tailOf(of *headTail) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	text := strings.TrimSpace(safetext.Block(string(of.bytes())))
	return textfmt.Tail(c.secrets.Mask(text), session.MaxOutput)
}

// LastLine returns the last line that the stream printed.
func (s *Stream) LastLine() string {
	s.capture.mu.Lock()
	defer s.capture.mu.Unlock()
	return s.last
}

func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// headTail keeps the beginning and the end of added bytes.
type headTail struct {
	head, tail int // how many bytes are kept of each
	first      []byte
	last       []byte
	dropped    int64
}

func (e *headTail) add(data []byte) {
	if room := e.head - len(e.first); room > 0 {
		n := min(room, len(data))
		e.first = append(e.first, data[:n]...)
		data = data[n:]
	}
	e.last = append(e.last, data...)
	// Cut only when twice the size is reached, so that a byte is moved once on average.
	if len(e.last) > 2*e.tail {
		cut := len(e.last) - e.tail
		e.dropped += int64(cut)
		e.last = append(e.last[:0], e.last[cut:]...)
	}
}

func (e *headTail) bytes() []byte {
	last, dropped := e.last, e.dropped
	if cut := len(last) - e.tail; cut > 0 {
		last = last[cut:]
		dropped += int64(cut)
	}
	out := bytes.Clone(e.first)
	if dropped > 0 && e.head > 0 {
		out = fmt.Appendf(out, "\n… %d bytes omitted …\n", dropped)
	}
	return append(out, last...)
}
