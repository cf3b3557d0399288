package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// Problem is an error in a file, for a person to fix.
type Problem struct {
	// File is the file's path as it was given.
	File string `json:"file"`
	// Line and Column count from 1, columns in characters; both are 0 if the problem is that of the
	// whole file.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
	// Field is the field's path, like phases[2].personas[0]; empty if the problem is not that of a
	// field.
	Field string `json:"field,omitempty"`
	// Message describes what is wrong and how to correct it.
	Message string `json:"message"`
	// Excerpt shows the line and the one before it, with a caret under the
	// column.
	Excerpt string `json:"excerpt,omitempty"`
}

// String is the problem in one line: file:line:column: field: message.
func (f Problem) String() string {
	var b strings.Builder
	b.WriteString(f.File)
	if f.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", f.Line, f.Column)
	}
	if f.Field != "" {
		b.WriteString(": " + f.Field)
	}
	b.WriteString(": " + f.Message)
	return b.String()
}

// Problems is the error of an invalid file: its problems, in the order of the file.
type Problems struct {
	// File is the file's path as it was given.
	File string
	// List has at least one problem.
	List []Problem
}

// shownProblems limits how many problems Error prints.
const shownProblems = 30

// Error shows each problem in one line, with its excerpt below.
func (f *Problems) Error() string {
	var b strings.Builder
	for i, problem := range f.List {
		if i == shownProblems {
			fmt.Fprintf(&b, "%s: and %d more\n", f.File, len(f.List)-i)
			break
		}
		b.WriteString(problem.String() + "\n" + problem.Excerpt)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// asError is the error with the problems, sorted and without duplicates; nil if there are none.
func asError(file string, list []Problem) error {
	if len(list) == 0 {
		return nil
	}
	slices.SortStableFunc(list, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return &Problems{File: file, List: slices.Compact(list)}
}

// place is a position in a file, counted from 1; its zero value is the whole file.
type place struct{ line, column int }

func (s *source) problem(at place, path, format string, args ...any) Problem {
	at.line = min(at.line, len(s.lines))
	return Problem{
		File: s.file, Line: at.line, Column: at.column, Field: fieldOf(path),
		Message: fmt.Sprintf(format, args...), Excerpt: s.excerpt(at),
	}
}

// fieldOf is a YAMLPath without its root and without what cannot be printed.
func fieldOf(path string) string {
	return textfmt.Shorten(visible(strings.TrimPrefix(strings.TrimPrefix(path, "$"), ".")), 200)
}

// excerptWidth limits the characters of a line in an excerpt.
const excerptWidth = 300

// excerpt shows the line at a position and the previous one. It shows no position beyond its width.
func (s *source) excerpt(at place) string {
	if at.line < 1 || at.line > len(s.lines) || at.column > excerptWidth {
		return ""
	}
	var b strings.Builder
	shown := func(line int) string { return strings.TrimRight(visible(s.lines[line-1]), " ") }
	if at.line > 1 && strings.TrimSpace(s.lines[at.line-2]) != "" {
		fmt.Fprintf(&b, "  %5d | %s\n", at.line-1, cut(shown(at.line-1), excerptWidth))
	}
	line := shown(at.line)
	fmt.Fprintf(&b, "> %5d | %s\n", at.line, cut(line, excerptWidth))
	// Wide characters: the caret must be in the column where a terminal shows the character.
	before := []rune(line)
	before = before[:min(max(at.column-1, 0), len(before))]
	fmt.Fprintf(&b, "        | %s^\n", strings.Repeat(" ", ansi.StringWidth(string(before))))
	return b.String()
}

// visible replaces tabs and unprintable characters one by one, so columns stay the same and no file
// can change a terminal's state.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return '→'
		case !printable(r):
			return '\uFFFD'
		}
		return r
	}, s)
}
