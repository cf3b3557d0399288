package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// postgres is a PostgreSQL server with its default settings, on a port of 127.0.0.1. It ends with this process.
type postgres struct {
	cmd  *exec.Cmd
	dir  string
	port string
	who  *syscall.Credential
}

// postgresProgram is the path of a program of PostgreSQL, which Debian keeps outside of PATH; empty: there is none.
func postgresProgram(name string) string {
	if found, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + name); err == nil && len(found) > 0 {
		return found[len(found)-1]
	}
	path, _ := exec.LookPath(name)
	return path
}

// startPostgres starts a server, as the user postgres if this is root: PostgreSQL refuses to run as root.
func startPostgres(ctx context.Context) (p *postgres, err error) {
	p = &postgres{}
	ports, err := freePorts(1)
	if err != nil {
		return nil, err
	}
	p.port = ports[0]
	if p.dir, err = os.MkdirTemp("", "maestro-bench-postgres-"); err != nil { // a directory that its user may enter
		return nil, err
	}
	if os.Geteuid() == 0 {
		u, err := user.Lookup("postgres")
		if err != nil {
			return nil, errors.Join(err, os.RemoveAll(p.dir))
		}
		uid, _ := strconv.ParseUint(u.Uid, 10, 32)
		gid, _ := strconv.ParseUint(u.Gid, 10, 32)
		p.who = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := os.Chown(p.dir, int(uid), int(gid)); err != nil {
			return nil, errors.Join(err, os.RemoveAll(p.dir))
		}
	}
	data := filepath.Join(p.dir, "data")
	if out, err := p.command("initdb", "--pgdata", data, "--auth", "trust", "--username", "postgres").CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("initdb: %w: %s", err, out), os.RemoveAll(p.dir))
	}
	p.cmd = p.command("postgres", "-D", data, "-p", p.port, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=",
		"-c", "max_connections=300")
	if err := p.cmd.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(p.dir))
	}
	answers := func() bool { _, err := p.query(ctx, "postgres", "select 1::float8"); return err == nil }
	if err := within(ctx, time.Minute, 10*time.Millisecond, answers); err != nil {
		return nil, errors.Join(fmt.Errorf("PostgreSQL does not answer: %w", err), p.stop())
	}
	return p, nil
}

// command is a program of the server, with the server's user.
func (p *postgres) command(name string, arguments ...string) *exec.Cmd {
	cmd := exec.Command(postgresProgram(name), arguments...)
	cmd.Dir = p.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: p.who, Pdeathsig: syscall.SIGINT}
	return cmd
}

// stop ends the server and removes its data.
func (p *postgres) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGINT)
	_ = p.cmd.Wait()
	return os.RemoveAll(p.dir)
}

// url is that of a database.
func (p *postgres) url(database string) string {
	return "postgres://postgres@127.0.0.1:" + p.port + "/" + database + "?sslmode=disable"
}

// query returns the one figure that a statement returns, zero if it returns none.
func (p *postgres) query(ctx context.Context, database, statement string) (n float64, err error) {
	c, err := pgx.Connect(ctx, p.url(database))
	if err != nil {
		return 0, err
	}
	defer c.Close(ctx) //nolint:errcheck // it was read
	if err := c.QueryRow(ctx, statement).Scan(&n); err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return 0, err
	}
	return n, nil
}

// makeDatabase makes an empty database and returns its URL.
func (p *postgres) makeDatabase(ctx context.Context, name string) (string, error) {
	_, err := p.query(ctx, "postgres", "create database "+name)
	return p.url(name), err
}

// size is that of a database in bytes, without the write-ahead log.
func (p *postgres) size(ctx context.Context, database string) (float64, error) {
	return p.query(ctx, "postgres", "select pg_database_size('"+database+"')::float8")
}

// transactions counts those of a database so far; a statement outside of a transaction is one of its own.
func (p *postgres) transactions(ctx context.Context, database string) (float64, error) {
	return p.query(ctx, "postgres",
		"select (xact_commit + xact_rollback)::float8 from pg_stat_database where datname = '"+database+"'")
}

// freePorts are ports of 127.0.0.1 that nobody listens on, and that the kernel gives to no outgoing connection. Temporal keeps
// some of them in columns that end at 32767.
func freePorts(n int) (ports []string, err error) {
	for tries := 100; len(ports) < n; tries-- {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(22_000))) //nolint:gosec // no secret
		if err != nil && tries == 0 {
			return nil, err
		} else if err != nil {
			continue
		}
		defer l.Close() //nolint:errcheck // all are held until the last is found, so that none is found twice
		_, port, _ := net.SplitHostPort(l.Addr().String())
		ports = append(ports, port)
	}
	return ports, nil
}

// within waits until a condition holds, which it looks at every so often.
func within(ctx context.Context, limit, every time.Duration, holds func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
	return nil
}
