// Package clitest installs the agent programs that tests run, of the versions
// that a package-lock.json pins, and has a model lead them.
package clitest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/maestro-hive/maestro/internal/testkit/providertest"
)

// Install returns the absolute directory of the named programs, and installs what
// is pinned in dir first if one is not there. Processes that do so at once wait
// for each other.
func Install(dir string, programs ...string) (bin string, err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return "", err
	}
	pins, err := os.Open(filepath.Join(dir, "package-lock.json"))
	if err != nil {
		return "", err
	}
	defer pins.Close() //nolint:errcheck // only locked
	if err := syscall.Flock(int(pins.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock %s: %w", pins.Name(), err)
	}
	bin = filepath.Join(dir, "node_modules", ".bin")
	for _, name := range programs {
		if _, err := os.Stat(filepath.Join(bin, name)); err == nil {
			continue
		}
		cmd := exec.Command("npm", "ci", "--no-audit", "--no-fund")
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("npm ci in %s: %w\n%s", dir, err, out)
		}
		break
	}
	return bin, nil
}

// Run is the call with which a model has one of the programs run a shell command.
func Run(program string, r providertest.Request, command string) providertest.Call {
	switch {
	case program == "claude":
		return providertest.Tool("Bash", map[string]string{"command": command, "description": "work"})
	case program == "gemini":
		return providertest.Tool("run_shell_command", map[string]string{"command": command, "description": "work"})
	case slices.Contains(r.Tools, "exec"): // Codex's newer models write JavaScript that calls the tools
		quoted, _ := json.Marshal(command) // a string
		return providertest.Call{Name: "exec", Arguments: "text(await tools.exec_command({cmd: " + string(quoted) + "}))"}
	case slices.Contains(r.Tools, "exec_command"):
		return providertest.Tool("exec_command", map[string]string{"cmd": command})
	}
	return providertest.Tool("shell_command", map[string]string{"command": command})
}
