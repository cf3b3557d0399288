// Package postgrestest starts a PostgreSQL server for a test, and a proxy that cuts its connections.
package postgrestest

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

	"github.com/maestro-hive/maestro/internal/testkit/proctest"
)

// Server is a PostgreSQL server of a test on a port of 127.0.0.1, with its default settings.
type Server struct {
	t testing.TB
	// Address is its host and port.
	Address string
	dir     string
	who     *syscall.SysProcAttr
	made    atomic.Int64
	killed  bool
}

// Start starts a server that ends with the test, as another user if this is root: PostgreSQL refuses to run as root.
func Start(t testing.TB) *Server {
	t.Helper()
	dir, err := os.MkdirTemp("", "maestro-postgres-*") // the path of a socket is short
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	s := &Server{t: t, dir: dir, Address: "127.0.0.1:" + proctest.FreePort(t), who: &syscall.SysProcAttr{}}
	if os.Geteuid() == 0 {
		u, err := user.Lookup("postgres")
		require.NoError(t, err)
		uid, err := strconv.Atoi(u.Uid)
		require.NoError(t, err)
		gid, err := strconv.Atoi(u.Gid)
		require.NoError(t, err)
		require.NoError(t, os.Chown(dir, uid, gid))
		s.who.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)} //nolint:gosec // ids are not negative
	}
	s.run("initdb", "--pgdata", s.data(), "--auth", "trust", "--username", "postgres", "--no-sync")
	s.Resume()
	t.Cleanup(func() {
		if !s.killed {
			s.run("pg_ctl", "--pgdata", s.data(), "--mode", "immediate", "--wait", "stop")
		}
	})
	return s
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// Kill kills the server and all of its processes with SIGKILL.
func (s *Server) Kill() {
	s.t.Helper()
	file := filepath.Join(s.data(), "postmaster.pid")
	data, err := os.ReadFile(file)
	require.NoError(s.t, err)
	line, _, _ := strings.Cut(string(data), "\n")
	pid, err := strconv.Atoi(line)
	require.NoError(s.t, err)
	proctest.KillTrees(s.t, pid)
	for _, stale := range []string{file, filepath.Join(s.dir, ".s.PGSQL."+s.port()+".lock")} {
		require.NoError(s.t, os.Remove(stale)) // another process may have the id that it names, or nobody has reaped the old one
	}
	s.killed = true
}

// Resume starts the server again.
func (s *Server) Resume() {
	options := fmt.Sprintf("-p %s -c listen_addresses=127.0.0.1 -c unix_socket_directories=%s -c max_connections=300",
		s.port(), s.dir)
	s.run("pg_ctl", "--pgdata", s.data(), "--log", filepath.Join(s.dir, "log"), "--options", options, "--wait", "start")
	s.killed = false
}

// NewDatabase makes a database, and returns its URL.
func (s *Server) NewDatabase() string {
	name := "d" + strconv.FormatInt(s.made.Add(1), 10)
	s.run("createdb", "--host", s.dir, "--port", s.port(), "--username", "postgres", name)
	return s.URL(s.Address, name)
}

func (s *Server) port() string {
	_, port, _ := strings.Cut(s.Address, ":")
	return port
}

// URL is that of a database at an address.
func (s *Server) URL(address, database string) string {
	return (&url.URL{
		Scheme: "postgres", User: url.User("postgres"), Host: address, Path: "/" + database, RawQuery: "sslmode=disable",
	}).String()
}

// run runs a program of the server, which Debian keeps outside of PATH.
func (s *Server) run(program string, arguments ...string) {
	s.t.Helper()
	path := program
	if found, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + program); err == nil && len(found) > 0 {
		path = found[len(found)-1]
	}
	cmd := exec.Command(path, arguments...) // not of the test's context: it stops the server at the test's end
	cmd.SysProcAttr, cmd.Dir = s.who, s.dir
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(s.t, cmd.Run(), "%s: %s; install PostgreSQL if it is missing", program, &out)
}
