// Command size prints how many lines of product code each folder has: lines of Go, SQL and HTML templates that are neither
// blank nor comment. Tests, the test kit, generated files, examples and tools do not count.
//
// With -check it prints nothing, and fails if the total is above the figure in the file SIZE, or if a line is too long.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

func main() {
	check := flag.Bool("check", false, "fail if the total is above the figure in SIZE, or a line is too long")
	root := flag.String("root", ".", "the repository's directory")
	flag.Parse()
	if err := run(os.DirFS(*root), *check); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(root fs.FS, check bool) error {
	if check {
		if err := narrow(root); err != nil {
			return err
		}
	}
	folders, err := measure(root)
	if err != nil {
		return err
	}
	total := 0
	for _, lines := range folders {
		total += lines
	}
	if check {
		return ratchet(root, total)
	}
	for _, folder := range slices.SortedFunc(maps.Keys(folders), func(a, b string) int {
		return cmp.Or(cmp.Compare(folders[b], folders[a]), cmp.Compare(a, b))
	}) {
		fmt.Printf("%7d  %s\n", folders[folder], folder)
	}
	fmt.Printf("%7d  total\n", total)
	return nil
}

func ratchet(root fs.FS, total int) error {
	text, err := fs.ReadFile(root, "SIZE")
	if err != nil {
		return err
	}
	first, _, _ := strings.Cut(string(text), "\n")
	limit, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil {
		return fmt.Errorf("SIZE:1: want a number of lines: %w", err)
	}
	if total > limit {
		return fmt.Errorf("%d lines of product code, and SIZE permits %d: delete %d, or raise the figure in a commit of its own "+
			"that says why",
			total, limit, total-limit)
	}
	return nil
}

// notProduct are folders of the test kit, of tools and of examples; folders whose names end in "test" are no product either.
var notProduct = []string{
	"bin", "docs/picture", "examples", "internal/app/schemagen", "internal/testkit",
}

// measure returns the lines of each folder that has product code.
func measure(root fs.FS) (map[string]int, error) {
	folders := map[string]int{}
	return folders, fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := path.Base(name)
		if entry.IsDir() {
			if name != "." && (base[0] == '.' || base == "testdata" || base == "node_modules" || strings.HasSuffix(base, "test") ||
				slices.Contains(notProduct, name)) {
				return fs.SkipDir
			}
			return nil
		}
		count, known := counters[path.Ext(base)]
		if !known || strings.HasSuffix(base, "_test.go") {
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		if lines := count(text); lines > 0 {
			folders[path.Dir(name)] += lines
		}
		return nil
	})
}

var counters = map[string]func([]byte) int{
	".go":   goLines,
	".sql":  without(`(?s)/\*.*?\*/|--[^\n]*`),
	".html": without(`(?s)\{\{-?\s*/\*.*?\*/\s*-?\}\}|<!--.*?-->`),
}

var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// goLines counts the lines with a token on them. A raw string is one token on several lines, some of which may be blank.
func goLines(text []byte) int {
	if generated.Match(text) {
		return 0
	}
	file := token.NewFileSet().AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, 0)
	lines := map[int]bool{}
	for {
		pos, kind, literal := s.Scan()
		if kind == token.EOF {
			return len(lines)
		}
		if kind == token.SEMICOLON && literal != ";" { // inserted at the end of a line
			continue
		}
		first := file.Line(pos)
		for i, line := range strings.Split(literal, "\n") {
			if i == 0 || strings.TrimSpace(line) != "" {
				lines[first+i] = true
			}
		}
	}
}

// without counts the lines that are not blank when what the pattern matches is removed.
func without(comment string) func([]byte) int {
	pattern := regexp.MustCompile(comment)
	return func(text []byte) int {
		lines := 0
		for line := range strings.Lines(string(pattern.ReplaceAll(text, nil))) {
			if strings.TrimSpace(line) != "" {
				lines++
			}
		}
		return lines
	}
}
