// Package diffview reads patches for pages: lines with their numbers, and in words what lines do not show.
package diffview

import (
	"html/template"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/ops/control"
)

// Kind is what became of a line, as the stylesheet names it.
type Kind string

// The kinds of lines.
const (
	Same    Kind = "same"
	Added   Kind = "add"
	Removed Kind = "del"
)

// File is a file of a difference, ready to be shown. Its change can be "renamed", too.
type File struct {
	control.ChangedFile
	// From is the file's earlier name if it was renamed.
	From string
	// Notes say in words what lines do not show: a changed mode, a link, no end of line.
	Notes []string
	// Folded says why the file's lines are not open at first; empty: they are.
	Folded string
	Hunks  []Hunk
	// Cut counts the lines that are left out.
	Cut int

	blob string // git's name for the content, before a removal or after an addition
}

// Hunk is a run of lines.
type Hunk struct {
	// Context is what git names after the line numbers: often a function.
	Context  string
	Old, New int
	Lines    []Line
}

// Line is a line of a hunk. Old and New are its numbers; zero where a side does not have it.
type Line struct {
	Kind     Kind
	Old, New int
	Text     string
	// Cut counts the bytes at the line's end that are not shown.
	Cut int
	// NoEnd: the file ends here without a line end.
	NoEnd bool
}

// Limits bound what is read of a difference.
type Limits struct {
	// Lines is for all files together, FileLines for each.
	Lines, FileLines int
}

// maxLine is how many bytes of a line are shown.
const maxLine = 2000

var hunkHead = regexp.MustCompile(`^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@ ?(.*)$`)

// Read parses the files of a difference in order.
func Read(changed []control.ChangedFile, limits Limits) []File {
	left := limits.Lines
	files := make([]File, 0, len(changed))
	for _, c := range changed {
		f := read(c, min(limits.FileLines, left))
		for _, h := range f.Hunks {
			left -= len(h.Lines)
		}
		files = append(files, f)
	}
	return joinRenames(files)
}

func read(c control.ChangedFile, most int) File {
	f := File{ChangedFile: c}
	old, now, lines := 0, 0, 0
	modes := [2]string{}
	var hunk *Hunk
	for text := range strings.Lines(c.Diff) {
		text = strings.TrimSuffix(text, "\n")
		if head := hunkHead.FindStringSubmatch(text); head != nil && !inside(hunk, text) {
			old, now = number(head[1]), number(head[2])
			f.Hunks = append(f.Hunks, Hunk{Context: safetext.Clip(head[3], 120), Old: old, New: now})
			hunk = &f.Hunks[len(f.Hunks)-1]
			continue
		}
		if strings.HasPrefix(text, "diff --git ") { // a link in the place of a file has two parts
			hunk = nil
		}
		if hunk == nil {
			f.header(text, &modes)
			continue
		}
		if strings.HasPrefix(text, `\`) {
			if n := len(hunk.Lines); n > 0 {
				hunk.Lines[n-1].NoEnd = true
			}
			continue
		}
		if lines++; lines > most {
			f.Cut++
			continue
		}
		if line, ok := lineOf(text, &old, &now); ok {
			hunk.Lines = append(hunk.Lines, line)
		}
	}
	f.Hunks = slices.DeleteFunc(f.Hunks, func(h Hunk) bool { return len(h.Lines) == 0 })
	f.describe(modes)
	f.Folded = fold(f)
	return f
}

// inside reports whether a text that looks like a head is a line of a hunk: those begin with a mark.
func inside(hunk *Hunk, text string) bool { return hunk != nil && !strings.HasPrefix(text, "@@") }

func lineOf(text string, old, now *int) (Line, bool) {
	if text == "" {
		text = " "
	}
	l := Line{Text: text[1:]}
	switch text[0] {
	case ' ':
		l.Kind, l.Old, l.New = Same, *old, *now
		*old, *now = *old+1, *now+1
	case '+':
		l.Kind, l.New = Added, *now
		*now++
	case '-':
		l.Kind, l.Old = Removed, *old
		*old++
	default:
		return l, false
	}
	if len(l.Text) > maxLine {
		end := maxLine
		for end > 0 && !utf8.RuneStart(l.Text[end]) {
			end--
		}
		l.Cut, l.Text = len(l.Text)-end, l.Text[:end]
	}
	return l, true
}

// header reads a line above the hunks.
func (f *File) header(text string, modes *[2]string) {
	kind, rest, _ := strings.Cut(text, " mode ")
	switch kind {
	case "old", "deleted file":
		modes[0] = rest
	case "new", "new file":
		modes[1] = rest
	}
	if blobs, ok := strings.CutPrefix(text, "index "); ok {
		blobs, _, _ = strings.Cut(blobs, " ")
		before, after, _ := strings.Cut(blobs, "..")
		f.blob = after
		if f.Change == "removed" {
			f.blob = before
		}
	}
}

const (
	modeExecutable = "100755"
	modeLink       = "120000"
)

// describe says in words what the modes mean.
func (f *File) describe(modes [2]string) {
	switch {
	case modes[0] == modeLink && modes[1] == modeLink:
	case modes[0] != "" && modes[1] == modeLink:
		f.Notes = append(f.Notes, "The file became a symbolic link.")
	case modes[0] == modeLink && modes[1] != "":
		f.Notes = append(f.Notes, "The symbolic link became a file.")
	case modes[1] == modeLink:
		f.Notes = append(f.Notes, "This is a symbolic link. Its line is its target.")
	case modes[0] == modeLink:
		f.Notes = append(f.Notes, "A symbolic link was removed. Its line was its target.")
	case modes[0] != "" && modes[1] == modeExecutable:
		f.Notes = append(f.Notes, "The file became executable.")
	case modes[0] == modeExecutable && modes[1] != "":
		f.Notes = append(f.Notes, "The file is no longer executable.")
	case modes[1] == modeExecutable:
		f.Notes = append(f.Notes, "The file is executable.")
	}
	if f.Binary {
		f.Notes = append(f.Notes, "The content is binary or too large to compare by lines.")
	} else if len(f.Hunks) == 0 && f.Cut == 0 && len(f.Notes) == 0 {
		f.Notes = append(f.Notes, "The file is empty.")
	}
}

// joinRenames makes one file of a removed and an added one of the same content.
func joinRenames(files []File) []File {
	removed := map[string]int{}
	for i, f := range files {
		if f.Change == "removed" && f.blob != "" && f.Removed > 0 {
			removed[f.blob] = i
		}
	}
	gone := map[int]bool{}
	for i := range files {
		f := &files[i]
		from, ok := removed[f.blob]
		if f.Change != "added" || !ok || gone[from] {
			continue
		}
		gone[from] = true
		f.Change, f.From = "renamed", files[from].Path
		f.Added, f.Removed, f.Hunks, f.Cut, f.Folded = 0, 0, nil, 0, ""
		f.Notes = []string{"The file was renamed. Its content did not change."}
	}
	out := files[:0]
	for i, f := range files {
		if !gone[i] {
			out = append(out, f)
		}
	}
	return out
}

// largeFile is the number of lines from which a file is folded.
const largeFile = 400

var (
	generatedNames = regexp.MustCompile(`(?i)(^|/)(go\.sum|(bun|cargo|poetry|uv|gemfile|composer|flake|yarn)\.lock)$|` +
		`(^|/)((package|pnpm)-lock\.(json|yaml)|npm-shrinkwrap\.json)$|` +
		`(\.min\.(js|css)|\.map|\.pb\.go|_pb2\.py|_generated\.\w+|\.g\.dart|\.snap)$|(^|/)(vendor|node_modules|dist|generated)/`)
	generatedText = regexp.MustCompile(`(?i)code generated .*do not edit|@generated`)
)

// fold says why the lines of a file are not shown at first.
func fold(f File) string {
	shown := 0
	for _, h := range f.Hunks {
		shown += len(h.Lines)
	}
	beginning := f.Diff[:min(len(f.Diff), 2048)]
	switch {
	case shown == 0:
		return ""
	case generatedNames.MatchString(f.Path), generatedText.MatchString(beginning):
		return "Generated files are folded."
	case shown+f.Cut > largeFile:
		return strconv.Itoa(shown+f.Cut) + " lines: large files are folded."
	}
	return ""
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0
	}
	return n
}

// Visible is a text as HTML in which characters that are not seen, or that turn the direction of writing, are shown
// by their code.
func Visible(text string) template.HTML {
	if safetext.Source(text) == text {
		return template.HTML(template.HTMLEscapeString(text)) //nolint:gosec // all text is escaped
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		_, size := utf8.DecodeRuneInString(text[i:])
		r := text[i : i+size]
		if shown := safetext.Source(r); shown == r {
			b.WriteString(template.HTMLEscapeString(r))
		} else {
			b.WriteString(`<span class="unseen">` + template.HTMLEscapeString(shown) + `</span>`)
		}
		i += size
	}
	return template.HTML(b.String()) //nolint:gosec // all text is escaped
}
