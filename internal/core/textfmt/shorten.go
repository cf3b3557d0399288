package textfmt

import (
	"strings"
)

// Shorten cuts s to at most limit bytes, at a rune boundary, marking the cut.
// It keeps the beginning.
func Shorten(s string, limit int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= limit {
		return s
	}
	const mark = "…"
	cut := max(limit-len(mark), 0)
	for cut > 0 && s[cut]&0xC0 == 0x80 {
		cut--
	}
	return s[:cut] + mark
}

// Tail cuts s to at most limit bytes, at a rune boundary, marking the cut.
// It keeps the end, where programs say why they failed.
func Tail(s string, limit int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= limit {
		return s
	}
	const mark = "…"
	cut := min(len(s)-limit+len(mark), len(s))
	for cut < len(s) && s[cut]&0xC0 == 0x80 {
		cut++
	}
	return mark + s[cut:]
}
