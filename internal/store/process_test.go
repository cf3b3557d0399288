package store_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/cas/castest"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// roles are what other processes do with the store in their first argument.
var roles = map[string]func(dir string, args []string) error{
	"create": func(dir string, _ []string) error {
		s, err := store.Create(dir, options())
		if err == nil {
			fmt.Println(s.ID())
		}
		return err
	},
	"lock": func(dir string, _ []string) error {
		s, err := store.Open(dir, options())
		if err != nil {
			return err
		}
		_, ok, err := s.Lock(context.Background(), webSession, id("backend"))
		fmt.Println(ok)
		_, _ = io.Copy(io.Discard, os.Stdin) // until the test ends it
		return err
	},
	"write": func(dir string, args []string) error {
		s, err := store.Open(dir, options())
		if err != nil {
			return err
		}
		fmt.Println("ready")
		for i := 0; ; i++ {
			data := bytes.Repeat([]byte(args[0]+strconv.Itoa(i)), 20_000)
			if _, err := s.Content.PutBlob(context.Background(), data); err != nil {
				return err
			}
			if _, err := s.PutCheckpoint(context.Background(), webSession, session.Checkpoint{
				CurrentPhase: phases[i%len(phases)], CreatedAt: now.Add(time.Duration(i) * time.Minute), Requirement: args[0],
			}); err != nil {
				return err
			}
			r := session.RoundRecord{RoundLog: session.RoundLog{Lost: i, AtWork: true}}
			if err := s.PutRound(context.Background(), webSession, id("backend"), r, nil); err != nil && !errors.Is(err, state.ErrFenced) {
				return err
			}
		}
	},
}

func TestMain(m *testing.M) { castest.Main(m, roles) }

// together runs processes at the same time and returns what they print.
func together(t *testing.T, cmds []*exec.Cmd) []string {
	t.Helper()
	outs := make([]bytes.Buffer, len(cmds))
	for i, cmd := range cmds {
		cmd.Stdout, cmd.Stderr = &outs[i], &outs[i]
		require.NoError(t, cmd.Start())
	}
	texts := make([]string, len(cmds))
	for i, cmd := range cmds {
		require.NoError(t, cmd.Wait(), outs[i].String())
		texts[i] = strings.TrimSpace(outs[i].String())
	}
	return texts
}

func TestProcessesThatCreateTogetherMakeOneStore(t *testing.T) {
	t.Parallel()
	for range 5 {
		dir := filepath.Join(t.TempDir(), "state", "store")
		var cmds []*exec.Cmd
		for range 8 {
			cmds = append(cmds, castest.Process(t, "create", dir))
		}
		ids := together(t, cmds)
		s, err := store.Open(dir, options())
		require.NoError(t, err)
		for _, id := range ids {
			require.Equal(t, s.ID(), id)
		}
	}
}

func TestALockDiesWithItsProcess(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	cmd := castest.Process(t, "lock", s.Dir())
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	defer in.Close()
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "true\n", line)

	_, ok, err := s.Lock(t.Context(), webSession, id("backend"))
	require.NoError(t, err)
	require.False(t, ok, "another process holds it")
	lock, ok, err := s.Lock(t.Context(), webSession, id("frontend"))
	require.NoError(t, err)
	require.True(t, ok, "another assignment is free")
	_, again, err := s.Lock(t.Context(), webSession, id("frontend"))
	require.NoError(t, err)
	require.False(t, again, "in the same process it excludes, too")
	lock.Unlock()
	lock, ok, err = s.Lock(t.Context(), webSession, id("frontend"))
	require.NoError(t, err)
	require.True(t, ok)
	lock.Unlock()

	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	lock, ok, err = s.Lock(t.Context(), webSession, id("backend"))
	require.NoError(t, err)
	require.True(t, ok)
	lock.Unlock()
}

func TestWritersMayBeKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for round := range 4 {
		var cmds []*exec.Cmd
		for i := range 3 {
			cmd := castest.Process(t, "write", s.Dir(), fmt.Sprintf("%d-%d", round, i))
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			_, err = bufio.NewReader(out).ReadString('\n')
			require.NoError(t, err)
			cmds = append(cmds, cmd)
		}
		written := func() int {
			names, err := filepath.Glob(filepath.Join(s.Dir(), "blobs", "sha256", "*", "*"))
			require.NoError(t, err)
			return len(names)
		}
		before := written()
		require.Eventually(t, func() bool { return written() > before+10*(round+1) }, time.Minute, time.Millisecond)
		for _, cmd := range cmds {
			require.NoError(t, cmd.Process.Kill())
			require.Error(t, cmd.Wait())
		}
		report, err := s.VerifyAll(t.Context())
		require.NoError(t, err)
		require.Empty(t, report.Faults)
		require.Positive(t, report.Checkpoints)
	}
}
