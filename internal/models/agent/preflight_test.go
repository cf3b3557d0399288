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
	for name, c := range map[string]struct {
		config Config
		want   []Shortage
	}{
		"nothing": {config: Config{Agents: map[string]Definition{"a": {Kind: KindCommand, Argv: []string{"sh", plain}, Env: []string{"SET"}}}}},
		"a program that is not executable": {
			config: Config{Agents: map[string]Definition{"a": {Kind: KindCommand, Argv: []string{"./plain.sh"}}}},
			want: []Shortage{{
				Of: "agent a", Fatal: true, Message: "its program cannot be started: " + plain + " is not executable",
				Remedy: "make it executable", Command: "chmod +x " + plain,
			}},
		},
		"a preset's program": {
			config: Config{Agents: map[string]Definition{"a": {Kind: KindCommand, Preset: preset.Gemini, Argv: []string{"gemini"}}}},
			want: []Shortage{{
				Of: "agent a", Fatal: true, Message: "its program cannot be started: gemini is not in PATH",
				Remedy: "install it, or use its full path in argv", Command: "npm install --global @google/gemini-cli",
			}},
		},
		"scripts": {
			config: Config{
				Agents: map[string]Definition{
					"a": {Kind: KindCommand, Argv: []string{"sh", "-e", "/no/such.sh"}},
					"p": {Kind: KindCommand, Argv: []string{"sh", "-c", "/no/such.sh"}},
					"b": {Kind: KindCommand, Argv: []string{"sh", "in-the-tree.sh"}},
				},
				Checks: map[string]CheckDefinition{"k": {Argv: []string{"sh", "/no/such.sh"}}, "tree": {Argv: []string{"./own"}}},
			},
			want: []Shortage{
				{Of: "agent a", Fatal: true, Message: "its script /no/such.sh does not exist", Remedy: "create it, or fix the worker file"},
				{Of: "check k", Fatal: true, Message: "its script /no/such.sh does not exist", Remedy: "create it, or fix the worker file"},
			},
		},
		"variables": {
			config: Config{
				Providers: map[string]Provider{"a": {Format: wire.Anthropic, KeyEnv: "UNSET"}, "b": {Format: wire.OpenAI, KeyFile: "no-such-key"}},
				Checks:    map[string]CheckDefinition{"k": {Argv: []string{"true"}, Env: []string{"SET", "OTHER"}}},
			},
			want: []Shortage{
				{Of: "provider a", Message: "variable UNSET is not set", Remedy: "set UNSET in the environment of the worker"},
				{
					Of: "provider b", Message: "its key cannot be read: open " + filepath.Join(dir, "no-such-key") + ": no such file or directory",
					Remedy: "write the key to the file, readable by the worker's user",
				},
				{Of: "check k", Message: "variable OTHER is not set", Remedy: "set OTHER in the environment of the worker"},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.config.Dir = dir
			require.Equal(t, c.want, c.config.Shortages(func(name string) string { return set[name] }))
		})
	}
}

func TestQuotedForAShell(t *testing.T) {
	t.Parallel()
	require.Equal(t, "/a/b.sh", ShellWord("/a/b.sh"))
	require.Equal(t, `'/a b/it'\''s.sh'`, ShellWord("/a b/it's.sh"))
}
