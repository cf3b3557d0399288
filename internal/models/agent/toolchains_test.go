package agent

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestToolchainsOfAHome has an agent read the directories of toolchains in the worker's HOME, by default and by a variable.
func TestToolchainsOfAHome(t *testing.T) {
	t.Parallel()
	for _, isolation := range []string{IsolationNone, IsolationRequired} {
		t.Run(isolation, func(t *testing.T) {
			t.Parallel()
			if isolation == IsolationRequired {
				inRooms(t)
			}
			b := newBench(t)
			home := t.TempDir()
			b.vars["HOME"], b.vars["JAVA_HOME"] = home, filepath.Join(home, "jdks", "25")
			for _, dir := range []string{".rustup", "jdks/25"} {
				require.NoError(t, os.MkdirAll(filepath.Join(home, dir), 0o755))
				require.NoError(t, os.WriteFile(filepath.Join(home, dir, "name"), []byte(dir+"\n"), 0o644))
			}
			require.NoError(t, os.Chmod(home, 0o755))
			out, err := b.run(b.set(Config{Isolation: isolation, Agents: map[string]Definition{"x": {
				Kind: KindCommand, Env: []string{"RUSTUP_HOME", "PYENV_ROOT", "JAVA_HOME"},
				Argv: []string{"/bin/sh", "-c", `cat $RUSTUP_HOME/name $JAVA_HOME/name; echo "pyenv: $PYENV_ROOT."; touch $RUSTUP_HOME/new 2> /dev/null || true; echo x > made`},
			}}}))
			require.NoError(t, err, string(out.Log))
			require.Contains(t, string(out.Log), ".rustup\njdks/25\npyenv: .\n")
			if isolation == IsolationRequired {
				require.NoFileExists(t, filepath.Join(home, ".rustup", "new"))
			}
		})
	}
}
