// Command schemagen writes the JSON Schemas of team and worker files.
//
// What a file may say is in the Go types that it is read into, and what it means in
// their docstrings; both are taken from there. What the types do not say — bounds,
// patterns, which keys go together — is in the rules here, and a test holds every
// one of them against the loader, which has the last word. A schema refuses
// nothing that the loader accepts, but for empty text, which the loader takes for
// a key that is left out, and for numbers like 500_000 where a reader of YAML 1.2
// takes them for text.
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
	flag.Parse()
	if err := write(*source, *out); err != nil {
		fmt.Fprintln(flag.CommandLine.Output(), "schemagen:", err)
		os.Exit(1)
	}
}

// write generates both schemas into a directory.
func write(source, out string) error {
	words, err := readWords(source)
	if err != nil {
		return err
	}
	var failed []error
	for _, d := range documents {
		data, err := d.generate(words)
		if err == nil {
			err = os.WriteFile(filepath.Join(out, d.name), data, 0o644)
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}
