// Package secrets finds and replaces secrets in texts, in the forms in which they leak: unchanged,
// quoted by JSON, Go and shells, percent-encoded, in hexadecimal digits and in base64. Secrets that
// are reversed, compressed, encrypted, encoded twice or composed of parts are not found.
package secrets

import (
	"io"
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

// Secret is a value, and where it comes from: a variable or a file.
type Secret struct{ Name, Value string }

// Set is a set of secrets. It is safe for concurrent use.
type Set struct {
	secrets []Secret
	matcher *matcher
}

// New makes a set of the secrets whose values are at least 8 bytes long: shorter ones are not secrets.
// The long lines of a value of several lines, like a key in PEM, are also secrets. Of several secrets
// with one value, the first gives it its name.
func New(secrets []Secret) *Set {
	s := &Set{}
	var all []Secret
	for _, secret := range secrets {
		if len(secret.Value) < minLength {
			continue
		}
		s.secrets = append(s.secrets, secret)
		all = append(all, secret)
		if !strings.Contains(secret.Value, "\n") {
			continue
		}
		for line := range strings.Lines(secret.Value) {
			line = strings.TrimSpace(line)
			if len(line) >= minLine && !strings.HasPrefix(line, "-----") {
				all = append(all, Secret{secret.Name, line})
			}
		}
	}
	s.matcher = newMatcher(distinct(all))
	s.secrets = distinct(s.secrets)
	return s
}

// distinct sorts secrets by value, and keeps the first of each value.
func distinct(secrets []Secret) []Secret {
	slices.SortStableFunc(secrets, func(a, b Secret) int { return strings.Compare(a.Value, b.Value) })
	return slices.CompactFunc(secrets, func(a, b Secret) bool { return a.Value == b.Value })
}

// Secrets lists the secrets, sorted by value.
func (s *Set) Secrets() []Secret { return slices.Clone(s.secrets) }

// Ordinary lists the names of secrets whose values people use as words, like postgres or 12345678:
// they are masked wherever the word stands.
func (s *Set) Ordinary() (names []string) {
	for _, secret := range s.secrets {
		if isOrdinary(secret.Value) {
			names = append(names, secret.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// longestWord is the length from which a value of letters is not taken for a word.
const longestWord = 16

// isOrdinary reports whether a value is a word in a usual case, with or without digits after it, or a
// number.
func isOrdinary(value string) bool {
	word := strings.TrimRight(value, "0123456789")
	lower := strings.ToLower(word)
	isWord := word == lower || word == strings.ToUpper(word) || word[1:] == lower[1:]
	return len(value) < longestWord && isWord && strings.Trim(lower, "abcdefghijklmnopqrstuvwxyz-_. ") == ""
}

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
	_, found := s.Find([]byte(text))
	return found
}

// Find returns the name of a secret that the text has in it.
func (s *Set) Find(text []byte) (name string, found bool) {
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
		n, _, more := s.matcher.match(data[i:])
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

// Reader masks what another reader yields. It holds back only what may be the beginning of a secret.
func (s *Set) Reader(from io.Reader) io.Reader { return &reader{from: from, stream: s.Stream()} }

type reader struct {
	from   io.Reader
	stream Stream
	// masked is what was read but not returned, and err how the other reader has ended.
	masked []byte
	err    error
}

// Read reads the next part.
func (r *reader) Read(p []byte) (n int, err error) {
	for len(p) > 0 && len(r.masked) == 0 && r.err == nil {
		n, r.err = r.from.Read(p)
		r.masked = r.stream.Next(p[:n])
		if r.err != nil {
			r.masked = append(r.masked, r.stream.End()...)
		}
	}
	n = copy(p, r.masked)
	if r.masked = r.masked[n:]; len(r.masked) == 0 {
		err = r.err
	}
	return n, err
}

// Scanner looks for secrets in what is written to it.
type Scanner struct {
	set   *Set
	rest  []byte
	name  string
	found bool
}

// Scanner returns one that has seen nothing yet.
func (s *Set) Scanner() *Scanner { return &Scanner{set: s} }

// Found reports whether a secret has been written, and the name of the first.
func (s *Scanner) Found() (name string, found bool) { return s.name, s.found }

// Pending is how many bytes at the end of what has been written may be the beginning of a secret.
func (s *Scanner) Pending() int { return len(s.rest) }

// Write never fails.
func (s *Scanner) Write(data []byte) (int, error) {
	n, first := len(data), &s.set.matcher.first
	if len(s.set.secrets) == 0 {
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
		length, name, more := s.set.matcher.match(data[i:])
		s.name, s.found = name, length > 0
		if more {
			pending = min(pending, i)
		}
	}
	s.rest = slices.Clone(data[pending:])
	return n, nil
}
