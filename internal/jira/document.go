package jira

import (
	"encoding/json"
	"strings"
	"unicode/utf16"

	"github.com/maestro-hive/maestro/internal/safetext"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// Jira's limits, in UTF-16 code units, with room to spare: Cloud's may be of the
// document with its structure, and an administrator can have set lower ones.
const (
	maxSummary     = 255
	maxDescription = 32_000
	maxComment     = 32_000
)

// document is what a ticket or a comment says, whatever form Jira wants it in.
type document []block

// block is a part of a document, one below the other.
type block struct {
	kind blockKind
	// spans are a heading's or paragraph's text; items a list's.
	spans []span
	items [][]span
	// text is what stands in a code block, as it is.
	text string
}

type blockKind int

const (
	heading blockKind = iota
	paragraph
	bullets
	code
)

// span is a part of a line.
type span struct {
	text   string
	strong bool
	// link is where it leads; empty: nowhere.
	link string
}

func plain(text string) span  { return span{text: text} }
func strong(text string) span { return span{text: text, strong: true} }

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

// text is a document in the form that the deployment's API takes. write makes it
// with no quotation longer than a number of bytes; it is made shorter until the
// whole is at most most units long.
func (c *Client) text(write func(quote int) document, most int) any {
	for quote := most / 4; ; quote /= 2 {
		d := write(quote)
		if c.config.Deployment == DataCenter {
			if wiki := d.wiki(); units(wiki) <= most || quote == 0 {
				return cutLine(wiki, most)
			}
			continue
		}
		adf := d.adf()
		if data, err := json.Marshal(adf); err == nil && units(string(data)) <= most || quote == 0 {
			return adf
		}
	}
}

// cutText is a text of several lines of at most limit bytes, with a mark where it
// was cut: it keeps the end, where programs say why they failed.
func cutText(text string, limit int) string {
	return textfmt.Tail(strings.Trim(safetext.Block(text), "\n"), max(limit, 40))
}
