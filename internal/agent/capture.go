package agent

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/maestro-hive/maestro/internal/safetext"
	"github.com/maestro-hive/maestro/internal/secrets"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

const (
	// logHead and logTail are how much of a long log is kept at either end.
	logHead = 512 << 10
	logTail = 1536 << 10
	// maxSaid bounds the file that takes the log as it grows.
	maxSaid = 64 << 20
	// maxLine is where a line without an end is broken.
	maxLine = 8 << 10
	// tailBytes is how much of a stream's end is kept as evidence. It is more
	// than a failure's output may have, because escape sequences go first.
	tailBytes = 4 * session.MaxOutput
)

// capture collects what a process prints: everything, masked and bounded, as a
// log, the ends of its streams as evidence, and each line for progress.
type capture struct {
	secrets *secrets.Set
	limit   int64
	// active gets a token whenever something was printed, full one when more
	// was printed than is allowed.
	active, full chan struct{}
	out, err     *stream

	mu    sync.Mutex
	total int64
	log   ends
	said  *os.File // takes what the log takes, at once; nil: nothing does
	// saidLeft is how many bytes said may still take.
	saidLeft int
	tail     ends // the end of both streams together
}

// stream is one of the two streams of a process.
type stream struct {
	capture *capture
	masked  secrets.Stream
	line    []byte
	tail    ends
	// last is the last line that was not blank.
	last string
	// told gets every line; nil: nobody wants them.
	told func(line string)
	// events, if not nil, takes what is printed instead of the log and all else
	// here: it is a program's stream of events, and who reads it says what of it
	// belongs into the log.
	events *eventLines
}

func newCapture(set *secrets.Set, limit int64) *capture {
	c := &capture{
		secrets: set, limit: limit,
		active: make(chan struct{}, 1), full: make(chan struct{}, 1),
		log:  ends{head: logHead, tail: logTail},
		tail: ends{tail: tailBytes},
	}
	c.out = &stream{capture: c, masked: set.Stream(), tail: ends{tail: tailBytes}}
	c.err = &stream{capture: c, masked: set.Stream(), tail: ends{tail: tailBytes}}
	return c
}

// Write takes what the process printed. It never fails and never blocks; what
// is past the limit is dropped.
func (s *stream) Write(data []byte) (int, error) {
	if s.events != nil {
		nudge(s.capture.active)
		s.events.add(s.masked.Next(data))
		return len(data), nil
	}
	s.capture.mu.Lock()
	s.add(s.masked.Next(s.within(data)))
	s.capture.mu.Unlock()
	nudge(s.capture.active)
	return len(data), nil
}

// say adds a text to the log and the evidence, as if the process had printed it.
func (s *stream) say(text string) {
	text = s.capture.secrets.Mask(safetext.Block(text)) + "\n"
	s.capture.mu.Lock()
	defer s.capture.mu.Unlock()
	s.add(s.within([]byte(text)))
}

// saying is a stream that is written by [stream.say].
type saying struct{ *stream }

func (s saying) Write(text []byte) (int, error) {
	s.say(strings.TrimSuffix(string(text), "\n"))
	return len(text), nil
}

// within counts what is printed and returns what of it is within the limit.
func (s *stream) within(data []byte) []byte {
	c := s.capture
	left := c.limit - c.total
	c.total += int64(len(data))
	if int64(len(data)) > left {
		nudge(c.full)
		return data[:max(left, 0)]
	}
	return data
}

// Close takes the stream's end.
func (s *stream) Close() error {
	if s.events != nil {
		s.events.add(s.masked.End())
		s.events.end()
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

// add splits masked text into lines. The log gets whole lines, so that the two
// streams do not cut each other's.
func (s *stream) add(text []byte) {
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

func (s *stream) endLine() {
	// Masked again: without its escape sequences it may spell a secret.
	line := s.capture.secrets.Mask(safetext.Block(string(s.line)))
	s.line = s.line[:0]
	s.capture.keep([]byte(line))
	s.capture.tail.add([]byte(line))
	s.tail.add([]byte(line))
	// What a carriage return overwrote, as progress bars do, is lines of its own
	// by now; what counts is what stood there last.
	text := strings.TrimSpace(line)
	text = text[strings.LastIndexByte(text, '\n')+1:]
	if text == "" {
		return
	}
	s.last = text
	if s.told != nil {
		s.told(text)
	}
}

// note adds a line of our own to the log.
func (c *capture) note(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keep([]byte("maestro: " + fmt.Sprintf(format, args...) + "\n"))
}

// keep adds lines to the log. The caller holds the lock.
func (c *capture) keep(lines []byte) {
	c.log.add(lines)
	if c.said == nil {
		return
	}
	if c.saidLeft -= len(lines); c.saidLeft < 0 {
		lines = []byte("maestro: too much output to follow; the transcript has the end of it once the attempt is over\n")
	}
	if _, err := c.said.Write(lines); err != nil || c.saidLeft < 0 { // who follows it has the log in the end
		_ = c.said.Close()
		c.said = nil
	}
}

// sayInto has a file take what the log takes, until it is ended: a new one or, if an
// earlier execution has begun the attempt at some time, the one that it has written. What
// it said is in the log then, too. That the file cannot be had is no reason not to work.
func (c *capture) sayInto(path string, begun time.Time) (end func()) {
	if path == "" {
		return func() {}
	}
	said := c.recall(path, begun)
	mode := os.O_WRONLY | os.O_APPEND | syscall.O_NOFOLLOW | syscall.O_NONBLOCK
	if len(said) == 0 {
		_ = os.Remove(path)
		mode |= os.O_CREATE | os.O_EXCL
	}
	f, err := os.OpenFile(path, mode, 0o600)
	if err != nil {
		return func() {}
	}
	c.said, c.saidLeft = f, max(maxSaid-len(said), 0)
	if len(said) > 0 {
		if said[len(said)-1] != '\n' { // it was cut off in a line
			c.keep([]byte{'\n'})
		}
		c.note("the attempt was interrupted here, and continues")
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.said != nil {
			_ = c.said.Close()
			c.said = nil
		}
	}
}

// recall adds to the log, and returns, what an earlier execution of the attempt, which
// has begun at some time, has written to a file. The agent may have put anything there.
func (c *capture) recall(path string, begun time.Time) []byte {
	if begun.IsZero() {
		return nil
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > 2*maxSaid || info.ModTime().Before(begun) {
		return nil // it is of an earlier attempt, or not ours
	}
	data, err := io.ReadAll(io.LimitReader(f, 2*maxSaid))
	if err != nil {
		return nil
	}
	c.log.add([]byte(c.secrets.Mask(safetext.Block(string(data)))))
	return data
}

// transcript returns the log.
func (c *capture) transcript() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return []byte(strings.ToValidUTF8(string(c.log.bytes()), "\uFFFD"))
}

// evidence returns the end of what was printed, as a failure's output.
func (c *capture) evidence(of *ends) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	text := strings.TrimSpace(safetext.Block(string(of.bytes())))
	return textfmt.Tail(c.secrets.Mask(text), session.MaxOutput)
}

// lastLine returns the last line that the stream printed.
func (s *stream) lastLine() string {
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

// ends keeps the beginning and the end of what is added to it.
type ends struct {
	head, tail int // how many bytes are kept of each
	first      []byte
	last       []byte
	dropped    int64
}

func (e *ends) add(data []byte) {
	if room := e.head - len(e.first); room > 0 {
		n := min(room, len(data))
		e.first = append(e.first, data[:n]...)
		data = data[n:]
	}
	e.last = append(e.last, data...)
	// Cut only now and then, so that a byte is moved once on average.
	if len(e.last) > 2*e.tail {
		cut := len(e.last) - e.tail
		e.dropped += int64(cut)
		e.last = append(e.last[:0], e.last[cut:]...)
	}
}

func (e *ends) bytes() []byte {
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
