// Package safetext makes text of agents, and of other outside sources, safe to display: it cannot
// move a terminal's cursor, hide or reorder text, or be markup or a link on a page.
package safetext

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Line is text as one line: without escape sequences, control characters and invisible
// ones, with single spaces. What is not UTF-8 becomes U+FFFD.
func Line(text string) string { return strings.Join(strings.Fields(Block(text)), " ") }

// Clip is text as one line of at most width characters.
func Clip(text string, width int) string {
	text = Line(text)
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:width-1]) + "…"
}

// Block is text of several lines: without escape sequences, control characters besides
// line ends and tabs, and invisible ones. A carriage return becomes a line end, so that it
// hides nothing. What is not UTF-8 becomes U+FFFD.
func Block(text string) string {
	if isPlain(text) {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == 0x1b || r >= 0x80 && r < 0xa0:
			i += sequenceLength(text[i:])
			continue
		case r == '\r':
			if !strings.HasPrefix(text[i+1:], "\n") {
				b.WriteByte('\n')
			}
		case r == '\n' || r == '\t':
			b.WriteRune(r)
		case r == '\u2028' || r == '\u2029':
			b.WriteByte('\n')
		case unicode.IsSpace(r):
			b.WriteByte(' ')
		case !hidden(r):
			b.WriteRune(r)
		}
		i += size
	}
	return b.String()
}

// colours are the escape sequences that only colour what follows.
var colours = regexp.MustCompile("\x1b\\[[0-9;]*m")

// Coloured is [Block] that leaves colours. It is for text that is coloured already.
func Coloured(text string) string {
	if isPlain(text) {
		return text
	}
	var b strings.Builder
	for {
		at := colours.FindStringIndex(text)
		if at == nil {
			return b.String() + Block(text)
		}
		b.WriteString(Block(text[:at[0]]) + text[at[0]:at[1]])
		text = text[at[1]:]
	}
}

// Name is the name of a file or of something else that must be distinguishable from similar names:
// invisible characters, and those that look like the end of a line, are escaped as in Go strings.
func Name(name string) string { return visible(name, "") }

// Source is the text of a file, or of a patch, with its lines and tabs: invisible characters are
// escaped as in Go strings, so that reviewers see them.
func Source(text string) string { return visible(text, "\n\t") }

// visible writes what is hidden as escapes, besides the characters in keep.
func visible(name, keep string) string {
	var b strings.Builder
	for i := 0; i < len(name); {
		r, size := utf8.DecodeRuneInString(name[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, name[i])
		case r == ' ' || strings.ContainsRune(keep, r) || !hidden(r) && !unicode.IsSpace(r):
			b.WriteRune(r)
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		i += size
	}
	return b.String()
}

// Code is text as one line of a page in Markdown that shows it as it is: in backticks,
// inside which nothing is markup, a link or an image. Backticks in it become
// apostrophes. It may stand in a table. Empty text stays empty.
func Code(text string) string {
	if text = Line(text); text == "" {
		return ""
	}
	return "`" + inBackticks.Replace(text) + "`"
}

var inBackticks = strings.NewReplacer("`", "'", "|", `\|`)

// CodeBlock is text of several lines as a block of a page in Markdown that shows it as it
// is, as [Code] does.
func CodeBlock(text string) string {
	text = strings.TrimRight(Block(text), "\n")
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + "\n" + text + "\n" + fence
}

// JSON is a JSON document in which invisible characters, and those that could change a terminal's
// state, are \u escapes. Its meaning is unchanged.
func JSON(document []byte) []byte {
	out := make([]byte, 0, len(document))
	for i := 0; i < len(document); {
		r, size := utf8.DecodeRune(document[i:])
		switch {
		case r < 0x7f || !hidden(r) && r != '\u2028' && r != '\u2029':
			out = append(out, document[i:i+size]...)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		i += size
	}
	return out
}

// isPlain reports whether there is nothing in a text to be taken out.
func isPlain(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < 0x20 && c != '\n' && c != '\t' || c >= 0x7f {
			return false
		}
	}
	return true
}

// hidden reports whether a character is not seen: controls, those that turn the direction
// of writing, and those without a width.
func hidden(r rune) bool {
	return unicode.In(r, unicode.C, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// sequenceLength is the length of the escape sequence, or of the control character,
// that s begins with.
func sequenceLength(s string) int {
	kind, begin := byte(0), 2
	switch {
	case s[0] == 0x1b && len(s) < 2:
		return 1
	case s[0] == 0x1b:
		kind = s[1]
	default: // one of 0x80 to 0x9f, of two bytes in UTF-8, which stands for two characters
		kind = s[1] - 0x40
	}
	switch kind {
	case '[': // parameters, then a final byte
		for i := begin; i < len(s); i++ {
			if s[i] >= 0x40 && s[i] <= 0x7e {
				return i + 1
			}
			if s[i] < 0x20 || s[i] > 0x7e {
				return i
			}
		}
		return len(s)
	case ']', 'P', 'X', '^', '_': // a string that BEL or ST ends
		for i := begin; i < len(s); i++ {
			switch {
			case s[i] == 0x07:
				return i + 1
			case s[i] == 0x1b && i+1 < len(s) && s[i+1] == '\\', strings.HasPrefix(s[i:], "\u009c"):
				return i + 2
			case s[i] == '\n': // it has no end, and hides nothing
				return begin
			}
		}
		return begin
	}
	if s[0] != 0x1b {
		return begin
	}
	for i := 1; i < len(s); i++ { // intermediate bytes, as where a character set is chosen, then one
		if s[i] < 0x20 || s[i] > 0x2f {
			if s[i] < 0x20 || s[i] > 0x7e {
				return i
			}
			return i + 1
		}
	}
	return len(s)
}
