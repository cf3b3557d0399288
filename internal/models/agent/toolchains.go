package agent

import (
	"os"
	"path/filepath"

	"github.com/maestro-hive/maestro/internal/sandbox/room"
)

// toolchains are the variables that name the directory of a toolchain, with its default below a user's HOME. Agents and checks
// have another HOME: those that list the variable get its value, or the default if that exists, and rooms show the directory.
var toolchains = map[string]string{
	"RUSTUP_HOME": ".rustup", "PYENV_ROOT": ".pyenv", "JAVA_HOME": "", "MAVEN_HOME": "", "GRADLE_HOME": "", "GOROOT": "",
}

// variable is the value of a variable for the agents and checks that list it; empty: they do not have it.
func (s *Set) variable(name string) string {
	value := s.o.Getenv(name)
	if below := toolchains[name]; value == "" && below != "" {
		dir := filepath.Join(s.o.Getenv("HOME"), below)
		if info, err := os.Stat(dir); err == nil && info.IsDir() && filepath.IsAbs(dir) {
			return dir
		}
	}
	return value
}

// toolchainMounts show the directories of the toolchains among some variables.
func (s *Set) toolchainMounts(names []string) (mounts []room.Mount) {
	for _, name := range names {
		dir := s.variable(name)
		if _, ok := toolchains[name]; ok && filepath.IsAbs(dir) && !room.Shows(dir) && !room.Reserved(dir) {
			mounts = append(mounts, room.Mount{Source: dir, Target: dir, Optional: true})
		}
	}
	return mounts
}
