package agent

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/models/agent/preset"
)

// TestSettingsAreWrittenWhateverIsInTheirPlace: what an agent leaves in HOME must not stop its next attempt.
func TestSettingsAreWrittenWhateverIsInTheirPlace(t *testing.T) {
	t.Parallel()
	program := preset.For(preset.Gemini)
	name, text := program.SettingsFile, program.Settings
	for what, leave := range map[string]func(dir string) error{
		"nothing": func(string) error { return nil }, "a file": func(dir string) error { return os.WriteFile(dir, nil, 0o600) },
		"a directory":               func(dir string) error { return os.Mkdir(dir, 0o700) },
		"one without rights":        func(dir string) error { return os.Mkdir(dir, 0) },
		"a link that leads nowhere": func(dir string) error { return os.Symlink("/nowhere", dir) },
		"a link out of HOME":        func(dir string) error { return os.Symlink(os.TempDir(), dir) },
	} {
		home := t.TempDir()
		require.NoError(t, leave(filepath.Join(home, filepath.Dir(name))))
		require.NoError(t, writeSettings(home, program), what)
		require.Equal(t, text, read(t, filepath.Join(home, name)), what)
		require.NoError(t, os.WriteFile(filepath.Join(home, name), []byte("the agent's"), 0o600))
		require.NoError(t, writeSettings(home, program))
		require.Equal(t, "the agent's", read(t, filepath.Join(home, name)), "its own stay")
	}
}

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
