package wire

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

const (
	// maxDepth is how deep in a document values are reported, maxKey and maxText how many
	// bytes of a key and of a value are kept.
	maxDepth = 48
	maxKey   = 128
	maxText  = 4 << 10
)

// leaf is a scalar value in a JSON document.
type leaf struct {
	// raw is the value as written, without quotes, up to maxText bytes.
	raw []byte
	// size is the full size of the value in bytes, and start its position, including the quote.
	size, start int64
	quoted      bool
}

// text returns the value as a text.
func (l leaf) text() string {
	if l.quoted {
		return unescape(l.raw)
	}
	return string(l.raw)
}

// number returns the value as a number of tokens. It is negative if the value is not such a
// number.
func (l leaf) number() int64 {
	n, err := strconv.ParseInt(string(l.raw), 10, 64)
	if err != nil {
		f, err := strconv.ParseFloat(string(l.raw), 64)
		if err != nil || !(f >= 0 && f < 1<<62) {
			return -1
		}
		n = int64(f)
	}
	return n
}

// is reports whether the value is written exactly as given.
func (l leaf) is(text string) bool { return string(l.raw) == text }

// unescape decodes the content of a JSON string.
func unescape(raw []byte) string {
	if bytes.IndexByte(raw, '\\') < 0 {
		return strings.ToValidUTF8(string(raw), "\uFFFD")
	}
	var s string
	if json.Unmarshal([]byte(`"`+string(raw)+`"`), &s) != nil {
		return strings.ToValidUTF8(string(raw), "\uFFFD")
	}
	return s
}

// scanner parses JSON that comes in parts, and reports each scalar value when it ends. Its memory
// is bounded, and it never fails: invalid JSON yields no values, or wrong ones.
type scanner struct {
	// leaf is called for each value with its path, like "choices[].delta.content". raw is valid
	// until leaf returns.
	leaf func(path string, l leaf)
	// container is called at the beginning and the end of an object or an array with depth 0 (the
	// document) to 3; may be nil.
	container func(path string, depth int, at int64, opens bool)

	path   []byte
	frames []frame
	// deep is how many containers below maxDepth are open.
	deep int
	at   int64

	state    scanState
	escaped  bool
	token    []byte
	size     int64
	start    int64
	wantsKey bool
}

// scan reports the scalar values of a document.
func scan(document []byte, leaf func(path string, l leaf)) {
	s := scanner{leaf: leaf}
	s.write(document)
	s.end()
}

// frame is an open container. length is the length of the path to its content.
type frame struct {
	object bool
	length int
}

type scanState uint8

const (
	between scanState = iota
	inKey
	inString
	inBare
)

// write reads the next part.
func (s *scanner) write(p []byte) {
	for i := 0; i < len(p); {
		switch s.state {
		case inKey, inString:
			i += s.quoted(p[i:])
		case inBare:
			if strings.IndexByte(",]}: \t\r\n", p[i]) >= 0 {
				s.closeLeaf(false)
				continue
			}
			s.keep(p[i : i+1])
			i, s.at = i+1, s.at+1
		case between:
			s.structure(p[i])
			i, s.at = i+1, s.at+1
		}
	}
}

// quoted continues in a string, and returns how many bytes it has read.
func (s *scanner) quoted(p []byte) int {
	n := 0
	if s.escaped {
		s.escaped = false
		s.keep(p[:1])
		n = 1
	}
	plain := bytes.IndexAny(p[n:], "\"\\")
	if plain < 0 {
		s.keep(p[n:])
		s.at += int64(len(p))
		return len(p)
	}
	s.keep(p[n : n+plain])
	n += plain
	if p[n] == '\\' {
		s.escaped = true
		s.keep(p[n : n+1])
		s.at += int64(n + 1)
		return n + 1
	}
	s.at += int64(n + 1)
	if s.state == inKey {
		s.closeKey()
	} else {
		s.closeLeaf(true)
	}
	return n + 1
}

func (s *scanner) keep(p []byte) {
	s.size += int64(len(p))
	limit := maxText
	if s.state == inKey {
		limit = maxKey
	}
	if room := limit - len(s.token); room > 0 {
		s.token = append(s.token, p[:min(len(p), room)]...)
	}
}

// structure handles a byte outside of a scalar value.
func (s *scanner) structure(b byte) {
	switch b {
	case '{', '[':
		s.open(b == '{')
	case '}', ']':
		s.close()
	case ',':
		s.wantsKey = s.inObject()
	case ' ', '\t', '\r', '\n', ':':
	case '"':
		s.begin(inString)
		if s.wantsKey {
			s.state = inKey
		}
	default:
		s.begin(inBare)
		s.keep([]byte{b})
	}
}

func (s *scanner) begin(state scanState) {
	s.state, s.token, s.size, s.start, s.escaped = state, s.token[:0], 0, s.at, false
}

func (s *scanner) inObject() bool {
	return s.deep == 0 && len(s.frames) > 0 && s.frames[len(s.frames)-1].object
}

func (s *scanner) open(object bool) {
	if s.deep > 0 || len(s.frames) == maxDepth {
		s.deep++
		s.wantsKey = false
		return
	}
	if depth := len(s.frames); s.container != nil && depth < 4 {
		s.container(string(s.path), depth, s.at, true)
	}
	if !object {
		s.path = append(s.path, "[]"...)
	}
	s.frames = append(s.frames, frame{object, len(s.path)})
	s.wantsKey = object
}

func (s *scanner) close() {
	s.wantsKey = false
	if s.deep > 0 {
		s.deep--
		return
	}
	if len(s.frames) == 0 {
		return
	}
	last := s.frames[len(s.frames)-1]
	s.frames, s.path = s.frames[:len(s.frames)-1], s.path[:last.length]
	if !last.object {
		s.path = s.path[:last.length-len("[]")]
	}
	if depth := len(s.frames); s.container != nil && depth < 4 {
		s.container(string(s.path), depth, s.at, false)
	}
}

func (s *scanner) closeKey() {
	s.state, s.wantsKey = between, false
	s.path = s.path[:s.frames[len(s.frames)-1].length]
	if len(s.path) > 0 {
		s.path = append(s.path, '.')
	}
	key := unescape(s.token)
	// it could be mistaken for a path, or its values for those of the enclosing object
	if key == "" || strings.ContainsAny(key, ".[") {
		key = "?"
	}
	s.path = append(s.path, key...)
}

func (s *scanner) closeLeaf(quoted bool) {
	s.state = between
	if s.deep == 0 {
		s.leaf(string(s.path), leaf{raw: s.token, size: s.size, start: s.start, quoted: quoted})
	}
}

// pending returns the path of an unfinished string, and its bytes so far.
func (s *scanner) pending() (string, int64) {
	if s.state != inString || s.deep > 0 {
		return "", 0
	}
	return string(s.path), s.size
}

// end ends the document and prepares for the next one. whole reports whether it was complete.
func (s *scanner) end() (whole bool) {
	if s.state == inBare {
		s.closeLeaf(false)
	}
	whole = s.state == between && len(s.frames) == 0 && s.deep == 0
	s.path, s.frames, s.deep, s.state, s.wantsKey = s.path[:0], s.frames[:0], 0, between, false
	return whole
}

// lines extracts the data of a stream of server-sent events.
type lines struct {
	on bool
	// field is the beginning of the line, up to its colon; data: the line's data follows.
	field []byte
	data  bool
	named bool
}

func (l *lines) write(p []byte, to *scanner) {
	for len(p) > 0 {
		part := p
		end := bytes.IndexByte(p, '\n')
		if end >= 0 {
			part = p[:end]
		}
		p = p[len(part):]
		if !l.named {
			part = l.name(part)
		}
		if l.data {
			to.write(part)
		}
		if end >= 0 {
			p = p[1:]
			l.newline(to)
		}
	}
}

// name reads the name of the field, and returns the rest of the part.
func (l *lines) name(part []byte) []byte {
	for i, b := range part {
		if b == ':' {
			l.named, l.data = true, string(l.field) == "data"
			return part[i+1:]
		}
		if len(l.field) < len("data")+1 {
			l.field = append(l.field, b)
		}
	}
	return nil
}

func (l *lines) newline(to *scanner) {
	blank := !l.named && (len(l.field) == 0 || string(l.field) == "\r")
	if blank {
		to.end()
	} else if l.data {
		to.write([]byte{'\n'})
	}
	l.field, l.named, l.data = l.field[:0], false, false
}
