package jira

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/maestro-hive/maestro/internal/core/safetext"
)

// wikiMarks are the characters that mean something in wiki markup wherever they
// stand, unlike hyphens and colons: a backslash before one takes its meaning. The
// backslash itself has no such form.
const wikiMarks = `{}[]()*_+^~?|!#`

// blockMarks begin a heading or a quotation at the beginning of a line.
var blockMarks = regexp.MustCompile(`^\s*(h[0-9]|bq)\.`)

// wikiEscape is a text in one line that no wiki renderer takes for markup.
func wikiEscape(text string) string {
	text = breaksAsSpaces(safetext.Block(text))
	var b strings.Builder
	if at := blockMarks.FindStringIndex(text); at != nil {
		b.WriteString(text[:at[1]-1] + "&#46;")
		text = text[at[1]:]
	}
	before := ' '
	for i, r := range text {
		next, _ := utf8.DecodeRuneInString(text[i+utf8.RuneLen(r):])
		switch {
		case r == '\\':
			b.WriteString("&#92;")
		case r == '&' && entityFollows(text[i+1:]):
			b.WriteString("&amp;")
		case strings.ContainsRune(wikiMarks, r),
			r == '-' && (!wordRune(before) || !wordRune(next)),
			r == ':' && (!wordRune(before) || !wordRune(next) && next != ' '):
			b.WriteByte('\\')
			b.WriteRune(r)
		default:
			b.WriteRune(r)
		}
		before = r
	}
	return b.String()
}

func wordRune(r rune) bool {
	return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r))
}

// entityFollows reports whether an ampersand before the text begins an entity.
func entityFollows(rest string) bool {
	return rest != "" && (rest[0] == '#' || rest[0]|0x20 >= 'a' && rest[0]|0x20 <= 'z')
}

// breaksAsSpaces is a text in one line, with the spaces at its ends kept: spans
// follow one another.
func breaksAsSpaces(text string) string {
	return strings.NewReplacer("\n", " ", "\t", " ").Replace(text)
}

// wikiAddress is an address inside a link, which ends at a bracket or a bar.
func wikiAddress(address string) string {
	return strings.NewReplacer("|", "%7C", "]", "%5D", "[", "%5B", "{", "%7B", "}", "%7D", " ", "%20", "\\", "%5C", "\n",
		"").Replace(safetext.Block(address))
}

// wikiVerbatim is a text inside {noformat}, where nothing but its own end means
// anything: a zero-width space keeps a text from having that.
func wikiVerbatim(text string) string {
	return noformat.ReplaceAllString(safetext.Block(text), "{\u200b$1")
}

var noformat = regexp.MustCompile(`(?i)\{(noformat)`)
