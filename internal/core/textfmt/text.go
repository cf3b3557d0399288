package textfmt

import (
	"fmt"
	"strconv"
	"strings"
)

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

// Size writes a number of bytes for people.
func Size(bytes int64) string {
	const unit = 1024
	if bytes < unit {
		return fmt.Sprintf("%d B", bytes)
	}
	value, exp := float64(bytes)/unit, 0
	for value >= unit && exp < 4 {
		value, exp = value/unit, exp+1
	}
	return fmt.Sprintf("%.1f %ciB", value, "KMGTP"[exp])
}

// FirstOf names the first few of a list.
func FirstOf(all []string, few int) string {
	if len(all) <= few {
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(all[:few], ", "), len(all)-few)
}

// Over names who acts: a person, or a program that uses the person's rights over an interface like mcp. program is empty for a
// person.
func Over(person, program string) string {
	if program == "" {
		return person
	}
	return person + " (a program, over " + strings.ToUpper(program) + ")"
}
