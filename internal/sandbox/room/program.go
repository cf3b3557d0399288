package room

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/maestro-hive/maestro/internal/platform/buildinfo"
)

// ProgramName is the file name of the program that only contains the shim. It starts in a tenth
// of the time of the worker's program.
const ProgramName = "maestro-shim"

// buildArgument makes the program print its build.
const buildArgument = "--build"

// programLimit is the time within which the program must print its build.
const programLimit = 5 * time.Second

// Program returns the path of the shim's program beside that of this process. The error says why
// it cannot be used; the caller then uses its own program as the shim.
func Program() (string, error) {
	own, err := os.Executable()
	if err != nil {
		return "", err
	}
	path := filepath.Join(filepath.Dir(own), ProgramName)
	if err := tryProgram(path); err != nil {
		return "", err
	}
	return path, nil
}

// tryProgram returns an error unless a program is the shim of this build.
func tryProgram(path string) error {
	if err := executable(path); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), programLimit)
	defer cancel()
	printed, err := exec.CommandContext(ctx, path, buildArgument).Output()
	if err != nil {
		return fmt.Errorf("run %s: %w", path, err)
	}
	if build := strings.TrimSpace(string(printed)); build != Build() {
		return fmt.Errorf("%s is of build %q, this program of %q", path, build, Build())
	}
	return nil
}

// Build identifies the source that this program was built from. It is part of the orders of each
// start.
var Build = sync.OnceValue(func() string {
	b := buildinfo.This()
	return fmt.Sprintf("%s %s %v", b.Go, b.Commit, b.Modified)
})
