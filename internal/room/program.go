package room

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

// ProgramName is the file name of the program that is a shim and nothing else. It starts in a
// tenth of the time of a worker's own program.
const ProgramName = "maestro-shim"

// buildArgument has the program print its build.
const buildArgument = "--build"

// programLimit is the time that the program has to print its build.
const programLimit = 5 * time.Second

// Program finds the shim's program beside that of this process. It is empty if there is
// none, or one of another build: then a process uses its own program.
func Program() string {
	own, err := os.Executable()
	if err != nil {
		return ""
	}
	path := filepath.Join(filepath.Dir(own), ProgramName)
	if executable(path) != nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), programLimit)
	defer cancel()
	printed, err := exec.CommandContext(ctx, path, buildArgument).Output()
	if err != nil || strings.TrimSpace(string(printed)) != Build() {
		return ""
	}
	return path
}

// Build names the source that this program was built from. Every start of a process names it.
var Build = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	build := info.GoVersion
	for _, s := range info.Settings {
		if strings.HasPrefix(s.Key, "vcs.") {
			build += " " + s.Value
		}
	}
	return build
})
