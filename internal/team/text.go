package team

import (
	"strconv"
	"strings"
	"unicode"
)

// Printable makes text that came from outside one line that cannot move a
// terminal's cursor or change its state.
func Printable(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return -1
		}
		return r
	}, text)
	return strings.Join(strings.Fields(text), " ")
}

// FirstLine is text up to its first line end.
func FirstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// Count is a number and its noun, as people write them.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}
