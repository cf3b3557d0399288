package jira

import (
	"strings"
	"unicode/utf16"

	"github.com/maestro-hive/maestro/internal/safetext"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// Jira's limits, in UTF-16 code units, with room to spare: an administrator can have set lower ones.
const (
	maxSummary     = 255
	maxDescription = 32_000
	maxComment     = 32_000
)

// document is what a ticket or a comment says: its blocks, one below the other, in Jira's wiki markup, which version 2 of the
// API takes and gives on Cloud and on Data Center.
type document []string

func heading(text string) string { return "h3. " + plain(text) }

// paragraph joins the parts of a line.
func paragraph(parts ...string) string { return strings.Join(parts, "") }

func bullets(items []string) string { return "* " + strings.Join(items, "\n* ") }

// verbatim is a text that stays as it is.
func verbatim(text string) string { return "{noformat}\n" + wikiVerbatim(text) + "\n{noformat}" }

func plain(text string) string { return wikiEscape(text) }

// strong is a part in bold. The braces let markup begin and end inside a word.
func strong(text string) string {
	if text = wikiEscape(text); text == "" {
		return ""
	}
	return "{*}" + text + "{*}"
}

func link(text, address string) string {
	return "[" + wikiEscape(text) + "|" + wikiAddress(address) + "]"
}

// units is the length of a text as Jira counts it.
func units(text string) int {
	n := 0
	for _, r := range text {
		n += utf16.RuneLen(r)
	}
	return n
}

// cutLine is a line of at most most units, with a mark where it was cut.
func cutLine(text string, most int) string {
	if units(text) <= most {
		return text
	}
	n := 1 // the mark
	for i, r := range text {
		n += utf16.RuneLen(r)
		if n > most {
			return strings.TrimRight(text[:i], " ") + "…"
		}
	}
	return text
}

// String is the document as one text.
func (d document) String() string { return strings.Join(d, "\n\n") }

// fitted is a document of at most most units. write makes it with no quotation longer than a number of bytes; it is made
// shorter until the whole fits.
func fitted(write func(quote int) document, most int) string {
	for quote := most / 4; ; quote /= 2 {
		if text := write(quote).String(); units(text) <= most || quote == 0 {
			return cutLine(text, most)
		}
	}
}

// cutText is a text of several lines of at most limit bytes, with a mark where it
// was cut: it keeps the end, where programs say why they failed.
func cutText(text string, limit int) string {
	return textfmt.Tail(strings.Trim(safetext.Block(text), "\n"), max(limit, 40))
}
