package secrets

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"unicode/utf16"
	"unicode/utf8"
)

// pattern is a text that is looked for.
type pattern struct {
	text string
	kind patternKind
}

type patternKind uint8

const (
	// asIs is the secret, each of whose characters may be written as
	// [spellings] lists.
	asIs patternKind = iota
	// asHex is its bytes in hexadecimal digits of either case.
	asHex
	// asBase64 is its bytes in base64, of either alphabet, over several lines or
	// not.
	asBase64
)

// patterns lists how a secret may be encoded as a whole.
func patterns(secret string) []pattern {
	out := []pattern{{secret, asIs}, {hex.EncodeToString([]byte(secret)), asHex}}
	// In a longer text the secret begins at any of the three bytes that four
	// digits stand for. Only the digits that depend on nothing else are certain.
	for before := range 3 {
		padded := append(make([]byte, before), secret...)
		first, end := (before*8+5)/6, len(padded)*8/6
		out = append(out, pattern{base64.RawStdEncoding.EncodeToString(padded)[first:end], asBase64})
	}
	return out
}

// spelling is a way to write the characters that begin somewhere in a pattern.
type spelling struct {
	text string
	// fold: letters may be of either case.
	fold bool
	// covers is how many bytes of the pattern it stands for.
	covers int
}

// spellings lists the ways to write what begins at a position of a pattern; after a
// backslash, and without one.
func (p pattern) spellings(at int) (plain, escaped []spelling) {
	c := p.text[at]
	literal := spelling{p.text[at : at+1], p.kind == asHex, 1}
	plain = append(plain, literal)
	if p.kind == asBase64 {
		switch c { // the other alphabet, and what quoting does to digits that are no letters
		case '+':
			plain = append(plain, spelling{"-", false, 1}, spelling{"%2b", true, 1})
			escaped = append(escaped, spelling{"u002b", true, 1})
		case '/':
			plain = append(plain, spelling{"_", false, 1}, spelling{"%2f", true, 1})
			escaped = append(escaped, literal, spelling{"u002f", true, 1})
		}
	}
	if p.kind != asIs {
		return plain, escaped
	}
	hexadecimal := fmt.Sprintf("%02x", c)
	plain = append(plain, spelling{"%" + hexadecimal, true, 1})
	for _, other := range otherwise[c] {
		plain = append(plain, spelling{other, true, 1})
	}
	escaped = append(escaped, literal, spelling{"x" + hexadecimal, true, 1}, spelling{fmt.Sprintf("%03o", c), false, 1})
	if letter, ok := letters[c]; ok {
		escaped = append(escaped, spelling{letter, false, 1})
	}
	if r, size := utf8.DecodeRuneInString(p.text[at:]); r != utf8.RuneError {
		escaped = append(escaped, spelling{fmt.Sprintf("U%08x", r), true, size})
		if high, low := utf16.EncodeRune(r); high != utf8.RuneError {
			escaped = append(escaped, spelling{fmt.Sprintf(`u%04x\u%04x`, high, low), true, size})
		} else {
			escaped = append(escaped, spelling{fmt.Sprintf("u%04x", r), true, size})
		}
	}
	return plain, escaped
}

// letters are what is written after a backslash for control characters, by JSON, Go
// and shells.
var letters = map[byte]string{'\a': "a", '\b': "b", '\f': "f", '\n': "n", '\r': "r", '\t': "t", '\v': "v", 0x1b: "e"}

// otherwise is how forms, shells and HTML write single characters.
var otherwise = map[byte][]string{
	' ':  {"+"},
	'\'': {`'\''`, `'"'"'`, "&#39;", "&#x27;", "&apos;"},
	'"':  {"&#34;", "&#x22;", "&quot;"},
	'&':  {"&amp;"},
	'<':  {"&lt;"},
	'>':  {"&gt;"},
}
