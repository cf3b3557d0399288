package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"path"
	"strings"
	"unicode/utf8"
)

const columns = 130

// narrow returns an error that names each line of Go with more than 130 columns, a tab counted as one. A line of a raw string
// may be longer, because a break would be part of the string.
func narrow(root fs.FS) error {
	var problems []error
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (name == ".git" || name == "bin" || entry.Name() == "node_modules") {
			return fs.SkipDir
		}
		if entry.IsDir() || path.Ext(name) != ".go" {
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err != nil || generated.Match(text) {
			return err
		}
		for _, n := range wideLines(text) {
			problems = append(problems, fmt.Errorf("%s:%d: the line has more than %d columns", name, n, columns))
		}
		return nil
	})
	return errors.Join(append(problems, err)...)
}

// wideLines returns the numbers of the lines that are too long.
func wideLines(text []byte) []int {
	file := token.NewFileSet().AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, scanner.ScanComments)
	raw := map[int]bool{}
	for pos, kind, literal := s.Scan(); kind != token.EOF; pos, kind, literal = s.Scan() {
		if kind == token.STRING && literal[0] == '`' {
			for i := range strings.Count(literal, "\n") + 1 {
				raw[file.Line(pos)+i] = true
			}
		}
	}
	var wide []int
	number := 0
	for line := range bytes.Lines(text) {
		number++
		if utf8.RuneCount(bytes.TrimSuffix(line, []byte("\n"))) > columns && !raw[number] {
			wide = append(wide, number)
		}
	}
	return wide
}
