// Package clitest installs the agent programs that tests run, of the versions
// that a package-lock.json pins.
package clitest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
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
