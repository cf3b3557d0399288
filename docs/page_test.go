package docs_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// page is a Markdown text as its reader follows it.
//
// What a reader does is in fenced blocks, and in the order of the page:
//
//   - A block marked console is what a terminal shows. Lines that begin with `$ `
//     are typed, and continue in the next line after a backslash at their end; the
//     lines below each are what it prints. `...` alone stands for any lines, `…`
//     for anything in its line, and times, digests and the like may differ; see
//     [normal]. A command below which nothing is shown may print anything.
//   - `exit=N` behind console is the exit status of the block's last command; all
//     others have 0.
//   - `terminal=NAME` behind console is another terminal. Its last command stays
//     at work as soon as it has printed what is shown; a line `^C` in a later
//     block of that terminal interrupts it.
//   - A block of another language whose first line, or second line below `#!`, is
//     a comment with a file's name is that file, which the reader writes.
//   - A block inside a comment of the page, from a line `<!-- console`, or with
//     another language, to one `-->`, is done, too, and not shown: what a page takes
//     for granted.
//
// All other blocks are only looked at.
type page struct {
	name  string
	steps []step
}

// step is one block: commands to type, or a file to write.
type step struct {
	line     int // of the page
	file     string
	content  string
	commands []command
	terminal string
	// exit is the last command's exit status.
	exit int
}

// interrupt is the command that stands for Ctrl-C.
const interrupt = "^C"

// command is a line that is typed, and the lines that the page shows below it.
type command struct {
	line  int
	typed string
	shown []string
}

var (
	fileName = regexp.MustCompile(`^(?:#|//) ([\w./-]+\.(?:yaml|sh|py|go|json))$`)
	opening  = regexp.MustCompile("^(?:```(\\w+)(.*)|<!-- (console|yaml|sh)((?: [a-z]+=\\w+)*))$")
)

// parsePage reads the steps of a page. It fails where a block is not as [page] says.
func parsePage(name, text string) (page, error) {
	p := page{name: name}
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		m := opening.FindStringSubmatch(lines[i])
		if m == nil {
			continue
		}
		end, closing := i+1, "```"
		if m[3] != "" {
			closing = "-->"
		}
		for end < len(lines) && lines[end] != closing {
			end++
		}
		if end == len(lines) {
			return page{}, fmt.Errorf("%s:%d: the block does not end", name, i+1)
		}
		s := step{line: i + 1}
		if err := s.read(m[1]+m[3], strings.Fields(m[2]+m[4]), lines[i+1:end]); err != nil {
			return page{}, fmt.Errorf("%s:%d: %w", name, i+1, err)
		}
		if s.file != "" || len(s.commands) > 0 {
			p.steps = append(p.steps, s)
		}
		i = end
	}
	return p, nil
}

func (s *step) read(language string, options, lines []string) error {
	if language != "console" {
		s.readFile(lines)
		return nil
	}
	for _, o := range options {
		key, value, _ := strings.Cut(o, "=")
		var err error
		switch key {
		case "exit":
			s.exit, err = strconv.Atoi(value)
		case "terminal":
			s.terminal = value
		default:
			err = fmt.Errorf("console knows exit=N and terminal=NAME, not %s", o)
		}
		if err != nil {
			return err
		}
	}
	return s.readConsole(lines)
}

func (s *step) readFile(lines []string) {
	for i := range min(2, len(lines)) {
		if m := fileName.FindStringSubmatch(lines[i]); m != nil && (i == 0 || strings.HasPrefix(lines[0], "#!")) {
			s.file, s.content = m[1], strings.Join(lines, "\n")+"\n"
		}
	}
}

func (s *step) readConsole(lines []string) error {
	goesOn := false
	for i, line := range lines {
		last := len(s.commands) - 1
		typed, isCommand := strings.CutPrefix(line, "$ ")
		switch {
		case goesOn:
			s.commands[last].typed += "\n" + strings.TrimPrefix(line, "> ")
		case isCommand, line == interrupt:
			if line == interrupt {
				typed = interrupt
			}
			s.commands = append(s.commands, command{line: s.line + 1 + i, typed: typed})
		case last < 0:
			return fmt.Errorf("a block marked console begins with a command, after `$ `")
		default:
			s.commands[last].shown = append(s.commands[last].shown, line)
		}
		goesOn = (goesOn || isCommand) && strings.HasSuffix(line, `\`)
	}
	return nil
}

// varying is what differs from one run to the next, and the word that stands for
// it in both what a page shows and what was printed.
var varying = []struct {
	what *regexp.Regexp
	word string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?Z?`), "DATE"},
	{regexp.MustCompile(`\b\d\d:\d\d:\d\d\b`), "TIME"},
	{regexp.MustCompile(`\b(\d+h ?)?(\d+m ?)?\d+(\.\d+)?(ms|µs|s)\b`), "DURATION"},
	{regexp.MustCompile(`\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`), "UUID"},
	{regexp.MustCompile(`\b([0-9a-f]{64}|[0-9a-f]{40}|[0-9a-f]{12})\b`), "DIGEST"},
	{regexp.MustCompile(`go1\.\d+(\.\d+)?`), "GO"},
	{regexp.MustCompile(`  +`), " "}, // columns are as wide as what stands in them
	{regexp.MustCompile(`(?m) +$`), ""},
}

// normal is text without what differs from one run to the next: times of day,
// dates, durations below an hour that name seconds, digests, ids of runs, Go's
// version, and how wide columns are.
func normal(text string) string {
	for _, v := range varying {
		text = v.what.ReplaceAllString(text, v.word)
	}
	return text
}

// shows reports whether what was printed is what the lines of a page show. With more,
// it may continue past them. Empty lines at the end are for the eye.
func shows(lines []string, printed string, more bool) bool {
	for len(lines) > 0 && lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	var pattern strings.Builder
	pattern.WriteString(`\A`)
	for _, line := range lines {
		if strings.TrimSpace(line) == "..." {
			pattern.WriteString(`(?:.*\n)*?`)
			continue
		}
		parts := strings.Split(normal(line), "…")
		for i, part := range parts {
			parts[i] = regexp.QuoteMeta(part)
		}
		pattern.WriteString(strings.Join(parts, `.*`) + `\n`)
	}
	if !more {
		pattern.WriteString(`\z`)
	}
	printed = normal(printed)
	if !more {
		printed = strings.TrimRight(printed, "\n") + "\n"
	}
	return regexp.MustCompile(pattern.String()).MatchString(printed)
}
