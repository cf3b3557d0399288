//go:build system

package state_test

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/store/state"
	"github.com/maestro-hive/maestro/internal/store/state/statetest"
)

// TestPostgreSQL runs the suite on a server of its own, with a database for each test.
func TestPostgreSQL(t *testing.T) {
	t.Parallel()
	server := startPostgres(t)
	var n atomic.Int64
	statetest.Run(t, func(t *testing.T, _ *statetest.Clock) *state.DB {
		t.Helper()
		name := "d" + strconv.FormatInt(n.Add(1), 10)
		server.run(t, "psql", "--host", server.socket, "--dbname", "postgres", "--command", "create database "+name)
		db, err := state.OpenPostgres(t.Context(), server.url(name))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		return db
	})
}

// postgres is a server of a test, on a socket.
type postgres struct {
	socket string
	who    *syscall.SysProcAttr
}

// startPostgres starts a server with its default settings, as another user if this is root: PostgreSQL refuses to run as root.
func startPostgres(t *testing.T) *postgres {
	t.Helper()
	dir, err := os.MkdirTemp("", "maestro-postgres-*") // the path of a socket is short
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	p := &postgres{socket: dir, who: &syscall.SysProcAttr{}}
	if os.Geteuid() == 0 {
		u, err := user.Lookup("postgres")
		require.NoError(t, err)
		uid, err := strconv.Atoi(u.Uid)
		require.NoError(t, err)
		gid, err := strconv.Atoi(u.Gid)
		require.NoError(t, err)
		require.NoError(t, os.Chown(dir, uid, gid))
		p.who.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)} //nolint:gosec // ids are not negative
	}
	data := filepath.Join(dir, "data")
	p.run(t, program(t, "initdb"), "--pgdata", data, "--auth", "trust", "--username", "postgres", "--no-sync")
	options := fmt.Sprintf("-c listen_addresses= -c unix_socket_directories=%s -c max_connections=300", dir)
	p.run(t, program(t, "pg_ctl"), "--pgdata", data, "--log", filepath.Join(dir, "log"), "--options", options, "--wait", "start")
	t.Cleanup(func() { p.run(t, program(t, "pg_ctl"), "--pgdata", data, "--mode", "immediate", "--wait", "stop") })
	return p
}

// program finds a program of the server, which Debian keeps outside of PATH.
func program(t *testing.T, name string) string {
	t.Helper()
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	require.NoError(t, err)
	if len(found) == 0 {
		path, err := exec.LookPath(name)
		require.NoError(t, err, "install PostgreSQL")
		return path
	}
	return found[len(found)-1]
}

func (p *postgres) run(t *testing.T, argv ...string) {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...) // not of the test's context: it stops the server at the test's end
	cmd.SysProcAttr, cmd.Dir = p.who, p.socket
	cmd.Env = append(os.Environ(), "PGUSER=postgres")
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, cmd.Run(), "%s: %s", argv[0], &out)
}

func (p *postgres) url(database string) string {
	return (&url.URL{
		Scheme: "postgres", User: url.User("postgres"), Path: "/" + database,
		RawQuery: url.Values{"host": {p.socket}}.Encode(),
	}).String()
}
