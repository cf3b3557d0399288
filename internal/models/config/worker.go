package config

import (
	"path/filepath"

	"github.com/maestro-hive/maestro/internal/models/agent"
)

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
