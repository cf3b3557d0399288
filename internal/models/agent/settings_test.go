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
