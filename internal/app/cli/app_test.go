package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
)

// hostile is what an agent may have written anywhere.
const hostile = "\x1b]8;;http://evil.example\x07here\x1b]8;;\x07\x1b[2J\r\u009b1A\u202etxt.exe\u200b\x07"

// TestNothingOfAnAgentReachesATerminalAsControls prints a hostile text wherever a command
// prints one of an agent, also where nothing there has made it safe.
func TestNothingOfAnAgentReachesATerminalAsControls(t *testing.T) {
	t.Parallel()
	for _, colours := range []bool{false, true} {
		var out, errs bytes.Buffer
		a := newApp(Env{Stdout: &out, Stderr: &errs})
		a.palette.On = colours
		a.print("%s", hostile)
		a.printErr("%s", hostile)
		a.reportError(fmt.Errorf("apply: %w", errors.New(hostile)))
		logs := logsCommand{app: a}
		logs.write(logsDocument{Logs: []attemptLog{{
			Attempt:    control.Attempt{Status: session.Failed, Message: hostile, Output: hostile, Agent: hostile, Summary: hostile},
			AttemptLog: control.AttemptLog{Text: hostile, Changes: hostile},
		}}})
		table := terminal.NewTable(a.palette)
		table.Add(hostile, terminal.Painted(hostile, terminal.Red))
		table.Write(&out)
		require.NoError(t, a.printJSON(map[string]string{"summary": hostile}))
		printed := out.String() + errs.String()
		for _, r := range "\x07\r\u009b\u202e\u200b" {
			require.NotContains(t, printed, string(r), "%q", printed)
		}
		for _, sequence := range []string{"\x1b]", "\x1b[2J"} {
			require.NotContains(t, printed, sequence)
		}
		if !colours {
			require.NotContains(t, printed, "\x1b")
		}
		require.NotContains(t, a.colouredPatch(hostile), "\x1b[2J")
		require.Contains(t, a.colouredPatch(hostile), `\x1b[2J`, "who reviews a patch sees it")
	}
}

func TestOnlyWhatMakesAStoreSaysWhereItIs(t *testing.T) {
	t.Parallel()
	var said bytes.Buffer
	dir := t.TempDir()
	a := newApp(Env{Stderr: &said, Environ: []string{"HOME=" + dir, "XDG_STATE_HOME=" + dir}})
	for _, find := range []func() (string, error){a.workerDir, a.storeDir, a.storeDir} {
		got, err := find()
		require.NoError(t, err)
		if got != filepath.Join(dir, "maestro") {
			t.Skip("this machine has a store at the usual place")
		}
	}
	require.Equal(t, 1, strings.Count(said.String(), filepath.Join(dir, "maestro")), said.String())
}

func TestRootRunsNoWorkerOnTheStoreOfAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give a directory to another user")
	}
	a, dir := newApp(Env{Now: time.Now}), t.TempDir()
	a.stateDir = dir
	_, err := a.createStore(a.workerDir)
	require.NoError(t, err)
	require.NoError(t, os.Chown(dir, 65533, 65533))
	_, err = a.createStore(a.workerDir)
	require.ErrorContains(t, err, dir+" belongs to user 65533")
	require.ErrorContains(t, err, "sudo -u '#65533' maestro")
	require.Equal(t, exitUsage, exitCode(err))
}
