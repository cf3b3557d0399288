package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/models/agent"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
	"github.com/maestro-hive/maestro/internal/store"
)

func again(command string) string { return "maestro " + command }

// examined is a host whose store would be in a directory of the test, without a Temporal.
func examined(t *testing.T, dir string) Options {
	t.Helper()
	away := func(context.Context) (*temporalutil.Connection, error) {
		return nil, &temporalutil.UnreachableError{Address: "192.0.2.1:7233", Err: errors.New("refused")}
	}
	return Options{StateDir: dir, Dial: away, Again: again, Getenv: os.Getenv, Environ: os.Environ(), Now: time.Now}
}

// of returns the first finding of a check.
func of(t *testing.T, found []control.Finding, check string) control.Finding {
	t.Helper()
	for _, f := range found {
		if f.Check == check {
			return f
		}
	}
	require.Fail(t, "no such finding", "%s among %+v", check, found)
	return control.Finding{}
}

// TestACheckThatHangsIsAFinding: the others run, and what it finds later is dropped.
func TestACheckThatHangsIsAFinding(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &host{}
		end := make(chan bool)
		found := h.examine(t.Context(), []check{
			{"hangs", nothing, func(_ context.Context, h *host) []control.Finding { <-end; h.dir = "late"; return ok("late") }, ""},
			{"next", nothing, func(context.Context, *host) []control.Finding { return ok("run") }, ""},
		})
		close(end)
		synctest.Wait()
		require.Empty(t, h.dir)
		require.Equal(t, "no answer within 6s", of(t, found, "hangs").Message)
		require.Equal(t, Bad, found[0].Result)
		require.Equal(t, "run", of(t, found, "next").Message)
	})
}

// TestAHostWithoutAnything: the checks say what is missing.
func TestAHostWithoutAnything(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "absent")
	o := examined(t, dir)
	o.Agents, o.Team = filepath.Join(dir, "agents.yaml"), spec.Team{Name: "solo"}
	found, err := Examine(t.Context(), o)
	require.NoError(t, err)
	require.Contains(t, of(t, found, "store").Message, "there is no store in "+dir+" yet (from --state-dir)")
	temporal := of(t, found, "temporal")
	require.Equal(t, []string{Bad, "maestro dev"}, []string{temporal.Result, temporal.Command})
	require.Equal(t, "maestro worker --agents "+o.Agents, of(t, found, "team solo").Command)
	require.Contains(t, of(t, found, "worker file").Message, "does not exist")
	require.NoDirExists(t, dir, "it changes nothing")
}

func TestAStoreIsExamined(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	s, err := store.Create(dir, store.Options{Clock: time.Now})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	require.NoError(t, os.Chmod(dir, 0o755))
	for by, examine := range map[string]func() ([]control.Finding, error){
		"from --state-dir":         func() ([]control.Finding, error) { return Examine(t.Context(), examined(t, dir)) },
		"which this server serves": func() ([]control.Finding, error) { return ExamineStore(t.Context(), s, nil, time.Now) },
	} {
		found, err := examine()
		require.NoError(t, err)
		require.Equal(t, s.ID()+" in "+dir+", "+by, of(t, found, "store").Message)
		require.Equal(t, OK, of(t, found, "store writable").Result)
		require.Equal(t, "chmod 700 "+dir, of(t, found, "store private").Command)
		require.Equal(t, Bad, of(t, found, "workers").Result)
		require.Equal(t, Bad, of(t, found, "temporal").Result)
		require.Equal(t, by == "from --state-dir", strings.Contains(fmt.Sprint(found), "server program"),
			"a server has no programs to look for")
	}
}

func TestRemediesForAStoreThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	h := &host{dir: "/proc", Options: Options{Again: again}}
	for _, c := range []struct {
		err  error
		want string
	}{
		{&os.PathError{Op: "open", Path: "x", Err: unix.EROFS}, "sudo mount -o remount,rw /"},
		{fmt.Errorf("write: %w", unix.ENOSPC), "maestro checkpoints prune --dry-run"},
		{&os.PathError{Op: "open", Path: "x", Err: unix.EACCES}, "chmod -R u+rwX /proc"},
		{errors.New("something else"), ""},
	} {
		f := h.unwritable(c.err)[0]
		require.Equal(t, Bad, f.Result)
		require.NotEmpty(t, f.Remedy)
		require.True(t, strings.HasPrefix(f.Command, c.want), f.Command)
	}
}

// TestRemediesInAContainer: no command of the host is advised there, and those that work stay.
func TestRemediesInAContainer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ own, command, remedy, left string }{
		{"mount the volume writable", "sudo mount -o remount,rw /", "mount the volume writable", ""},
		{"mount the volume writable", "maestro checkpoints prune", "do it", "maestro checkpoints prune"},
		{"start a container of a worker", "maestro worker --agents a.yaml", "start a container of a worker", ""},
		{"", "sudo apt-get install git", "do it, in the image", ""},
		{"", "sudo timedatectl set-ntp true", "do it, on the host of the container", ""},
		{"", "chmod 700 /x", "do it", "chmod 700 /x"},
	} {
		look := func(context.Context, *host) []control.Finding { return with(warn("do it", "it is so"), c.command) }
		table := []check{{"thing", nothing, look, c.own}}
		require.Equal(t, c.command, (&host{}).examine(t.Context(), table)[0].Command, "outside of a container")
		f := (&host{Options: Options{Container: true}}).examine(t.Context(), table)[0]
		require.Equal(t, c.remedy, f.Remedy)
		require.Equal(t, c.left, f.Command)
	}
}

// TestAnOldGitIsNamedWhereWorkIsDelivered looks at versions as git says them.
func TestAnOldGitIsNamedWhereWorkIsDelivered(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for version, old := range map[string]bool{
		"git version 2.37.4": true, "git version 1.9": true, "git version 2.39.5 (Apple Git-154)": false, "git version 3.0.0": false,
		"something else": false,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "git"), []byte("#!/bin/sh\necho '"+version+"'\n"), 0o700))
		h := &host{Options: Options{Getenv: func(name string) string { return map[string]string{"PATH": dir, "TOKEN": "x"}[name] }}}
		h.config = &agent.Config{Agents: map[string]agent.Definition{"github": {Kind: agent.KindDelivery, TokenEnv: "TOKEN"}}}
		found := programs(t.Context(), h)
		require.Len(t, found, 1, version)
		require.Equal(t, old, found[0].Result == Bad, version)
		require.Equal(t, old, strings.Contains(found[0].Message, version+" is older than 2.38"), found[0].Message)
	}
}
