package agent

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/agent/preset"
	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/procgroup"
	"github.com/maestro-hive/maestro/internal/wire"
)

// shellIn runs a script as a person's shell where agent x works, and returns what it printed.
func (b *bench) shellIn(s *Set, script string) string {
	b.t.Helper()
	null, err := os.Open(os.DevNull)
	require.NoError(b.t, err)
	r, w, err := os.Pipe()
	require.NoError(b.t, err)
	rest, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	require.NoError(b.t, err)
	status, err := s.Shell(b.t.Context(), ShellJob{
		WorkDir: b.job().WorkDir, Agent: "x", Argv: []string{"/bin/sh", "-c", script}, Streams: &procgroup.Streams{In: null, Out: w, Err: rest},
	})
	require.NoError(b.t, err)
	require.Zero(b.t, status)
	printed, err := io.ReadAll(r)
	require.NoError(b.t, err)
	return string(printed)
}

// TestAShellOfEachKindOfAgent looks at the files of agents with and without a program.
func TestAShellOfEachKindOfAgent(t *testing.T) {
	t.Parallel()
	for _, isolation := range []string{IsolationNone, IsolationRequired} {
		home, user := "/home/agent", "agent"
		for name, c := range map[string]struct {
			config       Config
			script, want string
		}{
			"git":    {Config{Agents: map[string]Definition{"x": {Kind: KindCommand, Argv: []string{"true"}, Git: true}}}, "cat input; git log --format=%s; git status --short", "input\nThe input of this assignment\n"},
			"preset": {Config{Agents: map[string]Definition{"x": {Kind: KindCommand, Preset: preset.Claude}}}, "cat input; cd && pwd && echo x > mine && cat mine", "input\nHOME\nx\n"},
			"model":  {modelConfig(Provider{Format: wire.Anthropic, KeyEnv: "API_KEY", Models: map[string]cost.Prices{"m": {}}}), "cat input; echo ${API_KEY-none}", "input\nnone\n"},
			"run_as": {Config{RunAs: "nobody", Agents: map[string]Definition{"x": {Kind: KindCommand, Argv: []string{"true"}}}}, "cat input; id -un; echo x > mine", "input\nUSER\n"},
		} {
			t.Run(isolation+" "+name, func(t *testing.T) {
				t.Parallel()
				home, user := home, user
				b := newBench(t)
				b.isolation = isolation
				if isolation == IsolationRequired {
					inRooms(t)
				} else {
					home, user = b.job().Home, "nobody"
				}
				require.NoError(t, os.WriteFile(b.path("input"), []byte("input\n"), 0o600))
				if c.config.RunAs != "" {
					if os.Geteuid() != 0 {
						t.Skip("only root can run agents as another user")
					}
					b.letThrough()
				}
				require.Equal(t, strings.NewReplacer("HOME", home, "USER", user).Replace(c.want), b.shellIn(b.set(c.config), c.script))
			})
		}
	}
}

// TestTheProgramOfAnAgentIsShown has a room show a program of npm that PATH leads to by a link,
// with the packages that it depends on, and nothing beside them.
func TestTheProgramOfAnAgentIsShown(t *testing.T) {
	t.Parallel()
	inRooms(t)
	b := newBench(t)
	host := t.TempDir()
	fill(t, host, "secret", "lib/secret", "lib/node_modules/dep/data", "lib/node_modules/tool/cli", "bin/x")
	require.NoError(t, errors.Join(os.Remove(filepath.Join(host, "bin/x")), os.Symlink("../lib/node_modules/tool/cli", filepath.Join(host, "bin/tool"))))
	require.NoError(t, os.WriteFile(filepath.Join(host, "lib/node_modules/tool/cli"), []byte(`#!/bin/sh
cd "$(dirname "$(readlink -f "$0")")" && cat ../dep/data && ls ../.. ../../.. && ! touch ../new`), 0o755))
	b.letThrough()
	require.NoError(t, exec.Command("chmod", "-R", "go+rX", host).Run())
	b.vars["PATH"] = filepath.Join(host, "bin") + ":" + b.vars["PATH"]
	out, err := b.set(Config{Isolation: IsolationRequired, Agents: map[string]Definition{"x": {Kind: KindCommand, Argv: []string{"tool"}}}}).Run(t.Context(), b.job())
	require.NoError(t, err, string(out.Log))
	require.Contains(t, string(out.Log), "content of lib/node_modules/dep/data../..:\nnode_modules\n\n../../..:\nbin\nlib\n")
	require.Contains(t, string(out.Log), "Read-only file system")
}

// TestACacheChangesItsOwner when agents run as another user.
func TestACacheChangesItsOwner(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can run agents as another user")
	}
	b := newBench(t)
	b.letThrough()
	require.NoError(t, os.Mkdir(filepath.Join(b.dir, "caches"), 0o711))
	for _, user := range []string{"", "nobody"} {
		s := b.set(Config{
			RunAs: user, Caches: map[string]Cache{"one": {Env: "CACHE", Shared: true}},
			Agents: map[string]Definition{"x": {Kind: KindCommand, Argv: []string{"/bin/sh", "-c", "mkdir -p -m 700 $CACHE/d && echo x >> $CACHE/d/x && chmod 600 $CACHE/d/x"}, Caches: []string{"one"}}},
		})
		out, err := s.Run(t.Context(), b.job())
		require.NoError(t, err, string(out.Log))
	}
	data, err := os.ReadFile(filepath.Join(b.dir, "caches", "one", "d", "x"))
	require.NoError(t, err)
	require.Equal(t, "x\nx\n", string(data))
}
