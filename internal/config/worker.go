package config

import (
	"path/filepath"

	"github.com/maestro-hive/maestro/internal/agent"
)

// LoadWorker reads a worker file and fills in its defaults. Its error is always
// a [*Faults] with everything that is wrong. Scripts and relative programs are
// found from the file's directory when the worker starts.
func LoadWorker(path string) (agent.Config, error) {
	src, fault := readSource(path)
	if fault != nil {
		return agent.Config{}, asError(path, []Fault{*fault})
	}
	cfg, d := decode[agent.Config](src)
	d.addFaults(cfg.Faults())
	if err := asError(src.file, d.faults); err != nil {
		return agent.Config{}, err
	}
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return agent.Config{}, asError(path, []Fault{{File: path, Message: "its directory cannot be found: " + err.Error()}})
	}
	cfg.Dir = dir
	return cfg.WithDefaults(), nil
}
