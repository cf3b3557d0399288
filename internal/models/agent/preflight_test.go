package agent

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/models/agent/preset"
	"github.com/maestro-hive/maestro/internal/models/wire"
)

func TestShortages(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain.sh")
	require.NoError(t, os.WriteFile(plain, []byte("#!/bin/sh\n"), 0o600))
	set := map[string]string{"PATH": os.Getenv("PATH"), "SET": "x"}
	program := func(preset string, argv ...string) Definition {
		return Definition{Kind: KindCommand, Preset: preset, Argv: argv, Env: []string{"SET"}}
	}
	c := Config{
		Dir: dir,
		Agents: map[string]Definition{
			"good": program("", "sh", plain), "plain": program("", "./plain.sh"), "preset": program(preset.Gemini, "gemini"),
			"script": program("", "sh", "-e", "/no/such.sh"), "no script": program("", "sh", "-c", "/no/such.sh"),
			"in the tree": program("", "sh", "in-the-tree.sh"),
		},
		Checks: map[string]CheckDefinition{
			"script": {Argv: []string{"sh", "/no/such.sh"}}, "tree": {Argv: []string{"./own"}},
			"variable": {Argv: []string{"true"}, Env: []string{"SET", "OTHER"}},
		},
		Providers: map[string]Provider{
			"a": {Format: wire.Anthropic, KeyEnv: "UNSET"},
			"b": {Format: wire.OpenAI, KeyFile: "no-such-key"},
		},
	}
	const noScript, create = "its script /no/such.sh does not exist", "create it, or fix the worker file"
	require.ElementsMatch(t, []Shortage{
		{"agent plain", true, "its program cannot be started: " + plain + " is not executable", "make it executable", "chmod +x " +
			plain},
		{
			"agent preset", true, "its program cannot be started: gemini is not in PATH", "install it, or use its full path in argv",
			"npm install --global @google/gemini-cli",
		},
		{"agent script", true, noScript, create, ""},
		{"check script", true, noScript, create, ""},
		{"provider a", false, "variable UNSET is not set", "set UNSET in the environment of the worker", ""},
		{
			"provider b", false, "its key cannot be read: open " + dir + "/no-such-key: no such file or directory",
			"write the key to the file, readable by the worker's user", "",
		},
		{"check variable", false, "variable OTHER is not set", "set OTHER in the environment of the worker", ""},
	}, c.Shortages(func(name string) string { return set[name] }))
}

func TestQuotedForAShell(t *testing.T) {
	t.Parallel()
	require.Equal(t, "/a/b.sh", ShellWord("/a/b.sh"))
	require.Equal(t, `'/a b/it'\''s.sh'`, ShellWord("/a b/it's.sh"))
}
