// Package secrets finds and replaces secrets in texts, in the forms in which they leak: unchanged,
// quoted by JSON, Go and shells, percent-encoded, in hexadecimal digits and in base64. Secrets that
// are reversed, compressed, encrypted, encoded twice or composed of parts are not found.
package secrets

import (
	"slices"
	"strings"
)

const (
	// minLength is the length, in bytes, below which a value is not a secret: masking it would
	// change unrelated words.
	minLength = 8
	// minLine is the same for a line of a secret of several lines.
	minLine = 16
	// Masked replaces a secret.
	Masked = "***"
)

// Set is a set of secrets. It is safe for concurrent use.
type Set struct {
	values  []string
	matcher *matcher
}

// New makes a set of the values that are at least 8 bytes long: shorter ones are not secrets. The
// long lines of a value of several lines, like a key in PEM, are also secrets.
func New(values []string) *Set {
	s := &Set{}
	var all []string
	for _, v := range values {
		if len(v) < minLength {
			continue
		}
		s.values = append(s.values, v)
		all = append(all, v)
		if !strings.Contains(v, "\n") {
			continue
		}
		for line := range strings.Lines(v) {
			line = strings.TrimSpace(line)
			if len(line) >= minLine && !strings.HasPrefix(line, "-----") {
				all = append(all, line)
			}
		}
	}
	slices.Sort(s.values)
	s.values = slices.Compact(s.values)
	slices.Sort(all)
	s.matcher = newMatcher(slices.Compact(all))
	return s
}

// Values lists the secrets as they are, sorted.
func (s *Set) Values() []string { return slices.Clone(s.values) }

// Mask replaces every secret in the text by [Masked].
func (s *Set) Mask(text string) string {
	if !s.In(text) {
		return text
	}
	out, _ := s.scan(nil, []byte(text), true)
	return string(out)
}

// In reports whether the text has a secret in it.
func (s *Set) In(text string) bool {
	return len(s.values) > 0 && s.InBytes([]byte(text))
}

// InBytes is In of a text in bytes.
func (s *Set) InBytes(text []byte) bool {
	scanner := s.Scanner()
	_, _ = scanner.Write(text)
	return scanner.Found()
}

// scan appends data to out with its secrets replaced. Unless data is the last of its stream, it
// stops where a secret may begin that further data could complete, and returns the rest.
func (s *Set) scan(out, data []byte, last bool) (masked, rest []byte) {
	plain := 0 // data[plain:i] is yet to be copied
	for i := 0; i < len(data); {
		if !s.matcher.first[data[i]] {
			i++
			continue
		}
		n, more := s.matcher.match(data[i:])
		switch {
		case more && !last:
			return append(out, data[plain:i]...), data[i:]
		case n == 0:
			i++
		default:
			out = append(append(out, data[plain:i]...), Masked...)
			i += n
			plain = i
		}
	}
	return append(out, data[plain:]...), nil
}

// Stream masks a stream that comes in pieces.
type Stream struct {
	set  *Set
	rest []byte
}

// Stream begins a stream.
func (s *Set) Stream() Stream { return Stream{set: s} }

// Next returns what is certain of the stream once data has been read.
func (s *Stream) Next(data []byte) []byte {
	out, rest := s.set.scan(nil, append(s.rest, data...), false)
	s.rest = slices.Clone(rest)
	return out
}

// End returns what is left of the stream.
func (s *Stream) End() []byte {
	out, _ := s.set.scan(nil, s.rest, true)
	s.rest = nil
	return out
}

// Scanner looks for secrets in what is written to it.
type Scanner struct {
	set   *Set
	rest  []byte
	found bool
}

// Scanner returns one that has seen nothing yet.
func (s *Set) Scanner() *Scanner { return &Scanner{set: s} }

// Found reports whether a secret has been written.
func (s *Scanner) Found() bool { return s.found }

// Write never fails.
func (s *Scanner) Write(data []byte) (int, error) {
	n, first := len(data), &s.set.matcher.first
	if len(s.set.values) == 0 {
		return n, nil
	}
	if len(s.rest) > 0 {
		data = append(s.rest, data...)
	}
	pending := len(data)
	for i := 0; i < len(data) && !s.found; i++ {
		if !first[data[i]] {
			continue
		}
		length, more := s.set.matcher.match(data[i:])
		s.found = length > 0
		if more {
			pending = min(pending, i)
		}
	}
	s.rest = slices.Clone(data[pending:])
	return n, nil
}
