package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/goccy/go-yaml"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/models/agent"
)

// LoadTeam reads a team file, including the instructions in files beside it, and fills in its
// defaults. Its error is always a [*Problems] with all problems.
func LoadTeam(path string) (spec.Team, error) {
	t, _, err := ReadTeam(path)
	return t, err
}

// ReadTeam is [LoadTeam], and returns the file's text, too.
func ReadTeam(path string) (spec.Team, string, error) {
	src, problem := readSource(path)
	if problem != nil {
		return spec.Team{}, "", asError(path, []Problem{*problem})
	}
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return spec.Team{}, "", asError(path, []Problem{{File: path, Message: "its directory cannot be read: " + whyUnreadable(err)}})
	}
	defer root.Close() //nolint:errcheck // Nothing was written.
	t, err := parseTeam(src, func(name string) (string, error) { return readBeside(root, name) })
	return t, src.text, err
}

// ParseTeam reads the text of a team file, like LoadTeam, without files beside it. file is its name
// in problems.
func ParseTeam(file string, text []byte) (spec.Team, error) {
	src, problem := newSource(file, text)
	if problem != nil {
		return spec.Team{}, asError(file, []Problem{*problem})
	}
	return parseTeam(src, func(name string) (string, error) {
		return "", fmt.Errorf("%q cannot be read, because only the text of this file was given; write the instructions into it", name)
	})
}

// parseTeam reads a team from a file's text. beside reads the files that it names.
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

// LoadWorker reads a worker file and fills in its defaults. Its error is always a [*Problems] with
// all problems. Scripts and relative programs are resolved from the file's directory when the
// worker starts.
func LoadWorker(path string) (agent.Config, error) {
	src, problem := readSource(path)
	if problem != nil {
		return agent.Config{}, asError(path, []Problem{*problem})
	}
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return agent.Config{}, asError(path, []Problem{{File: path, Message: "its directory cannot be found: " + err.Error()}})
	}
	return parseWorker(src, dir)
}

// parseWorker reads a worker's configuration from a file's text; relative paths in it start from
// dir.
func parseWorker(src *source, dir string) (agent.Config, error) {
	c, d := decode[agent.Config](src, workerFile, teamFile)
	c.Dir = dir
	d.addProblems(c.Problems)
	if err := asError(src.file, d.problems); err != nil {
		return agent.Config{}, err
	}
	return c.WithDefaults(), nil
}

// TeamText is a team as the text of a team file that [ParseTeam] reads as the same team.
func TeamText(t spec.Team) (string, error) {
	data, err := json.Marshal(t.Written())
	if err != nil {
		return "", err
	}
	text, err := yaml.JSONToYAML(data)
	return string(text), err
}
