// Package safetext makes text of agents, and of other outside sources, safe to display: it cannot
// move a terminal's cursor, hide or reorder text, or be markup or a link on a page.
//
//	safetext.go  what is removed from a text that is shown or printed, in lines and in blocks
//	portable.go  which parts of a file's name are percent-encoded in downloads and archives
//	comments.go  how comments on an issue are quoted, and how many of which length are taken
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
func Block(text string) string { return block(text, func(string) string { return "" }) }

// Coloured is [Block] that leaves colours. It is for text that is coloured already.
func Coloured(text string) string {
	return block(text, func(sequence string) string { return colour.FindString(sequence) })
}

// block replaces escape sequences by what instead makes of them.
func block(text string, instead func(sequence string) string) string {
	if isPlain(text) {
		return text
	}
	text = lines.Replace(string([]rune(text)))
	text = ended.ReplaceAllStringFunc(text, func(s string) string { return sequences.ReplaceAllStringFunc(s, instead) })
	text = strays.ReplaceAllStringFunc(text, instead)
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == 0x1b:
			return r
		case unicode.IsSpace(r):
			return ' '
		case hidden(r):
			return -1
		}
		return r
	}, text)
}

// The escape sequences, and the control characters that stand for their beginning. stray: parameters, then a final byte; or
// intermediate bytes, as where a character set is chosen, then one. Others begin a string that BEL or ST ends. Without an end in
// its line it hides nothing, so they are looked for where an end follows: what is looked through is looked through once.
const (
	stray = `(?:\x1b\[|\x{9b})[ -?]*[@-~]?|\x1b[ -/]*[0-~]?|[\x{80}-\x{9f}]`
	end   = `(?:\x07|\x1b\\|\x{9c})`
)

var (
	strays    = regexp.MustCompile(stray)
	sequences = regexp.MustCompile(`(?:\x1b[\]PX^_]|[\x{90}\x{98}\x{9d}-\x{9f}])[^\n\x07\x{9c}]*?` + end + `|` + stray)
	ended     = regexp.MustCompile(`[^\n]*` + end)
	lines     = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\u2028", "\n", "\u2029", "\n")
)

// colour is an escape sequence that only colours what follows.
var colour = regexp.MustCompile(`^\x1b\[[0-9;]*m$`)

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
