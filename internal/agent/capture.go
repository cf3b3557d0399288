package agent

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/maestro-hive/maestro/internal/team"
)

const (
	// logHead and logTail are how much of a long log is kept at either end.
	logHead = 256 << 10
	logTail = 768 << 10
	// maxLine is where a line without an end is broken.
	maxLine = 8 << 10
	// tailBytes is how much of a stream's end is kept as evidence. It is more
	// than a failure's output may have, because escape sequences go first.
	tailBytes = 4 * team.MaxOutput
)

// capture collects what a process prints: everything, masked and bounded, as a
// log, the ends of its streams as evidence, and each line for progress.
type capture struct {
	masker *masker
	limit  int64
	// active gets a token whenever something was printed, full one when more
	// was printed than is allowed.
	active, full chan struct{}
	out, err     *stream

	mu    sync.Mutex
	total int64
	log   ends
	said  *os.File // takes what the log takes, at once; nil: nothing does
	tail  ends     // the end of both streams together
}

// stream is one of the two streams of a process.
type stream struct {
	capture *capture
	masked  maskedStream
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

func newCapture(m *masker, limit int64) *capture {
	c := &capture{
		masker: m, limit: limit,
		active: make(chan struct{}, 1), full: make(chan struct{}, 1),
		log:  ends{head: logHead, tail: logTail},
		tail: ends{tail: tailBytes},
	}
	c.out = &stream{capture: c, masked: maskedStream{masker: m}, tail: ends{tail: tailBytes}}
	c.err = &stream{capture: c, masked: maskedStream{masker: m}, tail: ends{tail: tailBytes}}
	return c
}

// Write takes what the process printed. It never fails and never blocks; what
// is past the limit is dropped.
func (s *stream) Write(data []byte) (int, error) {
	if s.events != nil {
		nudge(s.capture.active)
		s.events.add(s.masked.next(data))
		return len(data), nil
	}
	s.capture.mu.Lock()
	s.add(s.masked.next(s.within(data)))
	s.capture.mu.Unlock()
	nudge(s.capture.active)
	return len(data), nil
}

// say adds a text to the log and the evidence, as if the process had printed it.
func (s *stream) say(text string) {
	text = s.capture.masker.mask(plainText(text)) + "\n"
	s.capture.mu.Lock()
	defer s.capture.mu.Unlock()
	s.add(s.within([]byte(text)))
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
		s.events.add(s.masked.end())
		s.events.end()
	}
	s.capture.mu.Lock()
	defer s.capture.mu.Unlock()
	s.add(s.masked.end())
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
	s.capture.keep(s.line)
	s.capture.tail.add(s.line)
	s.tail.add(s.line)
	// A carriage return inside a line means that it was overwritten, as
	// progress bars do; what counts is what stood there last.
	text := strings.TrimRight(string(s.line), "\r\n")
	if i := strings.LastIndexByte(text, '\r'); i >= 0 {
		text = text[i+1:]
	}
	s.line = s.line[:0]
	// Masked again: without its escape sequences it may spell a secret.
	text = s.capture.masker.mask(strings.TrimSpace(plainText(text)))
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
	if _, err := c.said.Write(lines); err != nil { // who follows it has the log in the end
		_ = c.said.Close()
		c.said = nil
	}
}

// sayInto has a new file take what the log takes, until it is ended. That it cannot
// be made is no reason not to work.
func (c *capture) sayInto(path string) (end func()) {
	if path == "" {
		return func() {}
	}
	_ = os.Remove(path)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return func() {}
	}
	c.said = f
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.said != nil {
			_ = c.said.Close()
			c.said = nil
		}
	}
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
	text := strings.TrimSpace(plainText(string(of.bytes())))
	return team.Tail(c.masker.mask(text), team.MaxOutput)
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
		out = fmt.Appendf(out, "\n… %d bytes are left out here …\n", dropped)
	}
	return append(out, last...)
}

// plainText removes escape sequences and every control character besides line
// ends and tabs, and replaces what is not UTF-8.
func plainText(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		if s[i] == 0x1b {
			i += escapeLength(s[i:])
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		i += size
		switch {
		case r == '\n' || r == '\t':
			b.WriteRune(r)
		case unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || unicode.Is(unicode.Bidi_Control, r):
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// escapeLength is the length of the escape sequence that s begins with.
func escapeLength(s string) int {
	if len(s) < 2 {
		return len(s)
	}
	switch s[1] {
	case '[': // CSI: parameters, then a final byte
		for i := 2; i < len(s); i++ {
			if s[i] >= 0x40 && s[i] <= 0x7e {
				return i + 1
			}
			if s[i] < 0x20 || s[i] > 0x7e {
				return i
			}
		}
		return len(s)
	case ']', 'P', 'X', '^', '_': // a string that BEL or ST ends
		for i := 2; i < len(s); i++ {
			switch {
			case s[i] == 0x07:
				return i + 1
			case s[i] == 0x1b && i+1 < len(s) && s[i+1] == '\\':
				return i + 2
			case s[i] == '\n':
				return i
			}
		}
		return len(s)
	default: // intermediate bytes, as where a character set is chosen, then one
		for i := 1; i < len(s); i++ {
			if s[i] < 0x20 || s[i] > 0x2f {
				return i + 1
			}
		}
		return len(s)
	}
}

// oneLine makes a text one line without control characters.
func oneLine(s string) string { return strings.Join(strings.Fields(plainText(s)), " ") }
