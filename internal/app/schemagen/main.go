package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	source := flag.String("source", ".", "the module's directory, whose docstrings become descriptions")
	out := flag.String("out", "docs/schema", "directory to write team.json and worker.json into")
	pages := flag.String("pages", "docs", "directory of team-file.md and worker-file.md, whose tables are written anew")
	flag.Parse()
	if err := write(*source, *out, *pages); err != nil {
		fmt.Fprintln(flag.CommandLine.Output(), "schemagen:", err)
		os.Exit(1)
	}
}

// write generates both schemas into a directory, and the tables into the pages.
func write(source, out, pages string) error {
	words, err := readWords(source)
	if err != nil {
		return err
	}
	var failed []error
	for _, d := range documents {
		if err := d.write(words, out, pages); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", d.name, err))
		}
	}
	return errors.Join(failed...)
}

func (d document) write(w words, out, pages string) error {
	s, err := d.generate(w)
	if err != nil {
		return err
	}
	data, err := encode(s)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(out, d.name), data, 0o644); err != nil {
		return err
	}
	page := filepath.Join(pages, d.page)
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	tables, err := d.tables(s)
	if err != nil {
		return err
	}
	written, err := fill(string(text), tables)
	if err != nil {
		return fmt.Errorf("%s: %w", d.page, err)
	}
	return os.WriteFile(page, []byte(written), 0o644) //nolint:gosec // the file that was read
}
