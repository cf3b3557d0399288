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

// Agent is what the program of an agent that has rights of its own begins with, before its name.
const Agent = "agent/"

// Over names who acts: a person, or a program that uses the person's rights. program is empty for a person, an interface
// with the program's name, like mcp/claude-code, an interface alone, or [Agent] with an agent's name.
func Over(person, program string) string {
	by, name, named := strings.Cut(program, "/")
	switch {
	case program == "":
		return person
	case strings.HasPrefix(program, Agent):
		return name + ", an agent of " + person
	case named:
		return name + " for " + person + " (over " + strings.ToUpper(by) + ")"
	}
	return person + " (a program, over " + strings.ToUpper(by) + ")"
}
