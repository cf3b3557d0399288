package jira

import (
	"strings"

	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// Jira's limits of a summary, and of a description or a comment. It counts UTF-16 units, of which a text has no more than bytes.
const (
	maxSummary = 255
	maxText    = 32_000
)

// document is what a ticket or a comment says: its blocks, one below the other, in Jira's wiki markup, which version 2 of the
// API takes and gives on Cloud and on Data Center.
type document []string

func heading(text string) string { return "h3. " + plain(text) }

func bullets(items []string) string { return "* " + strings.Join(items, "\n* ") }

// verbatim is the text, or its end, as it is.
func verbatim(text string) string {
	return "{noformat}\n" + wikiVerbatim(cutText(text)) + "\n{noformat}"
}

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

// String is the document as one text.
func (d document) String() string { return strings.Join(d, "\n\n") }

// cutText is a text of several lines of at most maxQuote bytes, with a mark where it was cut: it keeps the end,
// where programs say why they failed.
func cutText(text string) string {
	return textfmt.Tail(strings.Trim(safetext.Block(text), "\n"), maxQuote)
}
