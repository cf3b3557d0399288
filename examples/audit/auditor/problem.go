package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// problem is something that the toolchain finds wrong.
type problem struct {
	Package string `json:"package,omitempty"`
	// Analyzer is that of go vet which has found it.
	Analyzer string `json:"analyzer,omitempty"`
	// File is relative to the module's directory; empty: in no file. Line and
	// Column count from 1; 0: unknown.
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Message string `json:"message"`
}

// place says where it is, like server/store.go:12:3.
func (p problem) place() string {
	switch {
	case p.File == "":
		return p.Package
	case p.Line == 0:
		return p.File
	case p.Column == 0:
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	default:
		return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
	}
}

// String is the problem on one line.
func (p problem) String() string {
	message := strings.Join(strings.Fields(p.Message), " ")
	if place := p.place(); place != "" {
		return place + ": " + message
	}
	return message
}

var (
	// located is a line of a tool's that says where; cover puts more before it.
	located = regexp.MustCompile(`^(?:vet: |go: |[0-9/]+ [0-9:]+ cover: \S+: )?([^\s:]+):([0-9]+)(?::([0-9]+))?: (.*)$`)
	// ofModule is what the go command says of a module that another requires.
	ofModule = regexp.MustCompile(`^(\S+)@v[^\s:]+: `)
	// headed is the line before the problems of a package.
	headed = regexp.MustCompile(`^# (?:\[([^\s\]]+)\]|([^\s\[]\S*))(?: \[\S+\])?$`)
)

// parseProblems reads what the compiler, go vet and the go command print. Lines
// that are indented belong to the one before; what says nothing of a place is left out.
func parseProblems(output, root string) []problem {
	var found []problem
	pkg, open := "", false
	for line := range strings.Lines(output) {
		line = strings.TrimRight(line, "\r\n")
		if m := headed.FindStringSubmatch(line); m != nil {
			pkg, open = m[1]+m[2], false
			continue
		}
		if m := located.FindStringSubmatch(line); m != nil {
			p := problem{Package: pkg, File: relative(root, m[1]), Message: m[4]}
			p.Line, _ = strconv.Atoi(m[2])
			p.Column, _ = strconv.Atoi(m[3])
			found = append(found, p)
			open = true
			continue
		}
		if open && (strings.HasPrefix(line, "\t") || strings.HasPrefix(line, "  ")) {
			last := &found[len(found)-1]
			last.Message = shorten(last.Message+"\n"+line, 2000)
			continue
		}
		open = false
	}
	return found
}

// problemsOf finds what is wrong in the output of a command that has failed: at
// least one problem, be it the output as it is.
func (a *auditor) problemsOf(output string) []problem {
	if found := distinct(parseProblems(output, a.root)); len(found) > 0 {
		return found
	}
	var said []string
	for line := range strings.Lines(output) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "go: downloading ") {
			said = append(said, line)
		}
	}
	p := problem{Message: shorten(strings.Join(said, "\n"), 4000)}
	if p.Message == "" {
		p.Message = "the toolchain has failed without a word"
	}
	p.Message = strings.TrimPrefix(p.Message, "go: ")
	if rest, ok := strings.CutPrefix(p.Message, "go.mod requires go "); ok {
		p.File, p.Line, p.Message = "go.mod", a.required("go"), "requires go "+rest
	} else if m := ofModule.FindStringSubmatch(p.Message); m != nil {
		if p.Line = a.required(m[1]); p.Line > 0 {
			p.File = "go.mod"
		}
	}
	return []problem{p}
}

// required returns the number of the line of go.mod that requires a module, or a version
// of go; 0: there is none.
func (a *auditor) required(name string) int {
	data, err := os.ReadFile(filepath.Join(a.root, "go.mod"))
	if err != nil {
		return 0
	}
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		if words := strings.Fields(strings.TrimPrefix(line, "require ")); len(words) > 1 && strings.Trim(words[0], "\"`") == name {
			return number
		}
	}
	return 0
}

// distinct drops what is said twice of one place, as for a package and again for
// its tests. The order stays.
func distinct(problems []problem) []problem {
	type key struct{ place, message string }
	seen := map[key]bool{}
	return slices.DeleteFunc(problems, func(p problem) bool {
		k := key{p.place(), p.Message}
		again := seen[k]
		seen[k] = true
		return again
	})
}

// without returns the problems that are not among others. Tools do not agree on columns
// and words, so that what is in a file is known by its line.
func without(problems, others []problem) []problem {
	return slices.DeleteFunc(slices.Clone(problems), func(p problem) bool {
		return slices.ContainsFunc(others, func(o problem) bool {
			return o.File == p.File && o.Line == p.Line && (p.File != "" || o.Message == p.Message)
		})
	})
}
