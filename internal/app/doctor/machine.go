package doctor

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/models/agent"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/platform/buildinfo"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
)

// program names this program's version.
func program(context.Context, *host) []control.Finding {
	v := buildinfo.This()
	return ok("maestro %s, %s, Temporal SDK %s", v.Version, v.Go, terminal.Dash(v.SDK))
}

func serverProgram(_ context.Context, h *host) []control.Finding {
	switch {
	case h.Server != "":
		return ok("%s", h.Server)
	case h.Container: // images run no server
		return nil
	}
	return with(warn("build it to run `maestro dev` or `maestro demo` here",
		"maestro-server is not in the directory of this program"), "make build")
}

func git(ctx context.Context, h *host) []control.Finding {
	version, err := h.versionOf(ctx, "git")
	if err != nil {
		return with(warn("install it if agents have `git: true`, or to apply work as a branch", "%s", err), agent.InstallGit)
	}
	return ok("%s", version)
}

// versionPatience bounds the wait for a program to say its version.
const versionPatience = 4 * time.Second

// versionOf returns the version of a program: the first line of `--version`.
func (h *host) versionOf(ctx context.Context, program string) (string, error) {
	path, err := inPath(program, h.Getenv("PATH"))
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, versionPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--version") // git, or a program that the worker file has agents start
	cmd.Env = h.Environ
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("%s --version did not end within %s", path, versionPatience)
	case err != nil:
		return "", fmt.Errorf("%s --version: %w", path, err)
	}
	return safetext.Clip(textfmt.FirstLine(strings.TrimSpace(string(out))), 60), nil
}

// inPath finds a program in a PATH that need not be this process's.
func inPath(program, path string) (string, error) {
	if strings.Contains(program, "/") {
		return program, nil
	}
	for dir := range strings.SplitSeq(path, ":") {
		if found, err := exec.LookPath(dir + "/" + program); dir != "" && err == nil {
			return found, nil
		}
	}
	return "", fmt.Errorf("%s is not in PATH", program)
}
