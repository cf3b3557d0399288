package config

import (
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/maestro-hive/maestro/internal/spec"
)

// LoadTeam reads a team file, with the instructions that it has in files beside
// it, and fills in its defaults. Its error is always a [*Problems] with everything
// that is wrong.
func LoadTeam(path string) (spec.Team, error) {
	src, problem := readSource(path)
	if problem != nil {
		return spec.Team{}, asError(path, []Problem{*problem})
	}
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return spec.Team{}, asError(path, []Problem{{File: path, Message: "its directory cannot be read: " + whyUnreadable(err)}})
	}
	defer root.Close() //nolint:errcheck // Nothing was written.
	return parseTeam(src, func(name string) (string, error) { return readBeside(root, name) })
}

// parseTeam makes a team of a file's text. beside reads the files that it names.
func parseTeam(src *source, beside func(name string) (string, error)) (spec.Team, error) {
	t, d := decode[spec.Team](src, teamFile, workerFile)
	for _, name := range slices.Sorted(maps.Keys(t.Personas)) {
		p := t.Personas[name]
		if p.InstructionsFile == "" || p.Instructions != "" || d.oversized {
			continue
		}
		text, err := beside(p.InstructionsFile)
		if err != nil {
			d.report(spec.FieldPath("$.personas", name)+".instructions_file", "%s", visible(err.Error()))
			continue
		}
		p.Instructions, p.InstructionsFile = text, ""
		t.Personas[name] = p
	}
	d.addProblems(t.Problems)
	if err := asError(src.file, d.problems); err != nil {
		return spec.Team{}, err
	}
	return t.Resolved(), nil
}
