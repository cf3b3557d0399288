package secrets

import (
	"encoding/binary"
	"slices"
	"sync"
	"sync/atomic"
)

const (
	// maxBackslashes is how many backslashes may precede a character, as quoting
	// what is quoted already leads to.
	maxBackslashes = 7
	// maxBreaks is how many characters that end lines may be between two digits
	// of base64.
	maxBreaks = 2
	// maxStates bounds the states that a matcher remembers. Others are made
	// anew each time.
	maxStates = 8192
)

// matcher finds the longest spelling of any secret at the beginning of a text. It is an automaton
// whose states are created when they are first needed, so a byte of a text costs about one table
// access, for any number of secrets. It is safe for concurrent use.
type matcher struct {
	patterns []pattern
	// names are those of the secrets of the patterns.
	names []string
	root  *state
	// first has the bytes that a secret may begin with.
	first [256]bool

	mu     sync.Mutex
	states map[string]*state
}

// state is a set of positions in patterns that the text so far has led to.
type state struct {
	positions []position
	// accepts is the number, from 1, of a pattern that ends here; 0: none does.
	accepts int32
	next    [256]atomic.Pointer[state]
}

// noMatch is the state without transitions to others.
var noMatch = &state{}

// position is where one pattern stands: before its byte at, within one of the ways to
// write what begins there.
type position struct {
	pattern, at int32
	// backslashes and breaks are how many the text had just now.
	backslashes, breaks uint8
	// spelling, if not 0, is the number, from 1, of the spelling begun, of those
	// after a backslash if backslashes is not 0; done is how much of it was read.
	spelling, done uint8
}

func newMatcher(secrets []Secret) *matcher {
	m := &matcher{states: map[string]*state{}}
	var begin []position
	for _, secret := range secrets {
		for _, p := range patterns(secret.Value) {
			begin = append(begin, position{pattern: int32(len(m.patterns))}) //nolint:gosec // a worker has a few secrets
			m.patterns, m.names = append(m.patterns, p), append(m.names, secret.Name)
		}
	}
	m.root = &state{positions: begin}
	for c := range 256 {
		m.first[c] = m.step(m.root, byte(c)) != noMatch
	}
	return m
}

// match is the length of the longest secret at the beginning of data, and its name; 0 for none. more
// reports that further data may make it longer.
func (m *matcher) match(data []byte) (length int, name string, more bool) {
	s := m.root
	for i, c := range data {
		next := s.next[c].Load()
		if next == nil {
			next = m.step(s, c)
		}
		if next == noMatch {
			return length, name, false
		}
		if next.accepts != 0 {
			length, name = i+1, m.names[next.accepts-1]
		}
		s = next
	}
	return length, name, len(data) > 0 && len(s.positions) > 0
}

// step is the state that a byte leads to.
func (m *matcher) step(s *state, c byte) *state {
	var positions []position
	accepts := int32(0)
	add := func(p position) {
		if int(p.at) == len(m.patterns[p.pattern].text) {
			accepts = p.pattern + 1
			return
		}
		positions = append(positions, p)
	}
	for _, p := range s.positions {
		m.follow(p, c, add)
	}
	if len(positions) == 0 && accepts == 0 {
		s.next[c].Store(noMatch)
		return noMatch
	}
	key := make([]byte, 0, 12*len(positions)+4)
	slices.SortFunc(positions, comparePositions)
	positions = slices.Compact(positions)
	for _, p := range positions {
		key = binary.BigEndian.AppendUint32(key, uint32(p.pattern)) //nolint:gosec // not negative
		key = binary.BigEndian.AppendUint32(key, uint32(p.at))      //nolint:gosec // not negative
		key = append(key, p.backslashes, p.breaks, p.spelling, p.done)
	}
	key = binary.BigEndian.AppendUint32(key, uint32(accepts))
	m.mu.Lock()
	defer m.mu.Unlock()
	next, known := m.states[string(key)]
	switch {
	case known:
	case len(m.states) >= maxStates:
		return &state{positions: positions, accepts: accepts}
	default:
		next = &state{positions: positions, accepts: accepts}
		m.states[string(key)] = next
	}
	s.next[c].Store(next)
	return next
}

func comparePositions(a, b position) int {
	for _, d := range []int{
		int(a.pattern - b.pattern), int(a.at - b.at), int(a.backslashes) - int(b.backslashes),
		int(a.breaks) - int(b.breaks), int(a.spelling) - int(b.spelling), int(a.done) - int(b.done),
	} {
		if d != 0 {
			return d
		}
	}
	return 0
}

// follow adds the positions that a byte leads to from one.
func (m *matcher) follow(p position, c byte, add func(position)) {
	pattern := m.patterns[p.pattern]
	plain, escaped := pattern.spellings(int(p.at))
	ways := plain
	if p.backslashes > 0 {
		ways = escaped
	}
	for i, way := range ways {
		if p.spelling != 0 && int(p.spelling) != i+1 || !sameByte(way.text[p.done], c, way.fold) {
			continue
		}
		next := position{pattern: p.pattern, at: p.at, backslashes: p.backslashes, spelling: uint8(i + 1), done: p.done + 1}
		if int(next.done) == len(way.text) {
			next = position{pattern: p.pattern, at: p.at + int32(way.covers)} //nolint:gosec // at most four
		}
		add(next)
	}
	if p.spelling != 0 {
		return
	}
	if c == '\\' && p.backslashes < maxBackslashes {
		add(position{pattern: p.pattern, at: p.at, backslashes: p.backslashes + 1, breaks: p.breaks})
	}
	if pattern.kind != asBase64 || p.at == 0 || p.breaks >= maxBreaks {
		return
	}
	if c == '\n' || c == '\r' || p.backslashes > 0 && (c == 'n' || c == 'r') {
		add(position{pattern: p.pattern, at: p.at, breaks: p.breaks + 1})
	}
}

// sameByte reports whether two bytes are the same, or, with fold, the same letter.
func sameByte(a, b byte, fold bool) bool {
	if a == b || !fold {
		return a == b
	}
	a |= 0x20
	return a == b|0x20 && a >= 'a' && a <= 'z'
}
