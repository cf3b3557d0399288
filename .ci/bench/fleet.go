package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/maestro-hive/maestro/internal/models/agent"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
	"github.com/maestro-hive/maestro/internal/store"
)

// fleet is Maestro on several hosts: PostgreSQL, Temporal's own server on it, and workers. Each worker is a process with a
// directory of its own; it shares only the database and the bucket with the others, as if it were a host.
type fleet struct {
	settings settings
	dir      string
	programs string
	postgres *postgres
	temporal *exec.Cmd
	address  string
	location store.Location
	conn     *temporalutil.Connection
	hosts    []*exec.Cmd // those alive
	started  int
	log      *os.File
}

// anyAgent is the agent that all hosts have. Each host has one more, by which a session is placed there.
const anyAgent = "any"

func agentOf(host int) string { return fmt.Sprintf("on-%d", host+1) }

// hostSlots is how many rooms of one agent a host may have.
const hostSlots = 1000

// stay notes when it began and ended, and stays in its room between as long as it is told, as an agent does that waits for
// its model.
const stay = `began=$(date +%s%N)
stay=$(sed -n 's/.*Stay \([0-9]*\) seconds.*/\1/p' | head -n 1)
sleep "${stay:-0}"
ended=$(date +%s%N)
echo "$began" > "$began.md"
echo "{\"summary\": \"$began $ended\"}" > "$MAESTRO_RESULT"
`

// measureFleet measures what was asked for, each part on a fleet of its own.
func measureFleet(ctx context.Context, s settings, dir string) error {
	for _, part := range []struct {
		name    string
		size    int
		measure func(context.Context, *fleet) error
	}{
		{"waiting", s.waiting, waitingSessions},
		{"rooms", s.rooms, roomsAtOnce},
		{"files", s.files, roomsOverFiles},
	} {
		if part.size == 0 {
			continue
		}
		f, err := newFleet(ctx, s, filepath.Join(dir, part.name))
		if err != nil {
			return err
		}
		if err := errors.Join(part.measure(ctx, f), f.close()); err != nil {
			return err
		}
	}
	return nil
}

func newFleet(ctx context.Context, s settings, dir string) (f *fleet, err error) {
	f = &fleet{settings: s, dir: dir}
	if f.programs, err = filepath.Abs(filepath.Dir(s.server)); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(dir, "bucket"), 0o700); err != nil {
		return nil, err
	}
	if f.log, err = os.Create(filepath.Join(dir, "log")); err != nil {
		return nil, err
	}
	if f.postgres, err = startPostgres(ctx); err != nil {
		return nil, err
	}
	if err := f.startTemporal(ctx); err != nil {
		return nil, errors.Join(err, f.close())
	}
	f.location = store.Location{Database: f.postgres.url("maestro"), Content: "file://" + filepath.Join(dir, "bucket")}
	return f, nil
}

// startTemporal starts Temporal's server on the fleet's PostgreSQL, as deploy/cluster does.
func (f *fleet) startTemporal(ctx context.Context) error {
	names := []string{
		"FRONTEND_GRPC_PORT", "FRONTEND_HTTP_PORT", "FRONTEND_MEMBERSHIP_PORT", "HISTORY_GRPC_PORT", "HISTORY_MEMBERSHIP_PORT",
		"MATCHING_GRPC_PORT", "MATCHING_MEMBERSHIP_PORT", "WORKER_GRPC_PORT", "WORKER_MEMBERSHIP_PORT",
	}
	ports, err := freePorts(len(names))
	if err != nil {
		return err
	}
	f.address = "127.0.0.1:" + ports[0]
	deploy := filepath.Join(f.programs, "..", "deploy", "temporal")
	env := []string{
		"PATH=" + f.programs + ":" + os.Getenv("PATH"), "SQL_HOST=127.0.0.1", "SQL_PORT=" + f.postgres.port, "SQL_USER=postgres",
		"DB=postgres12", "POSTGRES_SEEDS=127.0.0.1", "POSTGRES_USER=postgres", "DB_PORT=" + f.postgres.port,
		"BIND_ON_IP=127.0.0.1", "TEMPORAL_BROADCAST_ADDRESS=127.0.0.1", "TEMPORAL_ALLOW_NO_AUTH=true", "LOG_LEVEL=warn",
		"DYNAMIC_CONFIG_FILE_PATH=" + filepath.Join(deploy, "dynamicconfig.yaml"), "TEMPORAL_ADDRESS=" + f.address,
	}
	for i, name := range names {
		env = append(env, name+"="+ports[i])
	}
	if err := f.command(env, filepath.Join(deploy, "schema.sh")).Run(); err != nil {
		return f.failed("make Temporal's databases", err)
	}
	f.temporal = f.command(env, filepath.Join(f.programs, "temporal-server"), "start")
	if err := f.temporal.Start(); err != nil {
		return err
	}
	if err := f.command(env, filepath.Join(f.programs, "maestro-namespace")).Run(); err != nil {
		return f.failed("wait for Temporal", err)
	}
	f.conn, err = temporalutil.DialAddress(ctx, f.address, "default", slog.New(slog.DiscardHandler))
	return err
}

// command is a program that dies with this process. What it says goes to the fleet's log.
func (f *fleet) command(env []string, program string, arguments ...string) *exec.Cmd {
	cmd := exec.Command(program, arguments...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = env, f.dir, f.log, f.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return cmd
}

// failed is an error with the end of the fleet's log.
func (f *fleet) failed(what string, err error) error {
	const end = 2000
	said, _ := os.ReadFile(f.log.Name())
	return fmt.Errorf("%s: %w: %s", what, err, said[max(0, len(said)-end):])
}

// environ is that of the programs of a host.
func (f *fleet) environ(host string) []string {
	return append(f.location.Environ(), "PATH="+os.Getenv("PATH"), "HOME="+f.dir, "TEMPORAL_ADDRESS="+f.address,
		"MAESTRO_STATE_DIR="+filepath.Join(f.dir, host))
}

// addHosts starts hosts until there are so many, and waits until all say what they offer.
func (f *fleet) addHosts(ctx context.Context, hosts int) error {
	for len(f.hosts) < hosts {
		i := f.started
		f.started++
		program := agent.Definition{Kind: agent.KindCommand, Argv: []string{"/bin/sh", "-c", stay}, Concurrency: hostSlots}
		data, err := json.Marshal(agent.Config{
			Version: 1, Isolation: agent.IsolationRequired, Agents: map[string]agent.Definition{anyAgent: program, agentOf(i): program},
		})
		if err != nil {
			return err
		}
		file := filepath.Join(f.dir, agentOf(i)+".yaml")
		if err := os.WriteFile(file, data, 0o600); err != nil {
			return err
		}
		w := f.command(f.environ(agentOf(i)), filepath.Join(f.programs, "maestro-worker"),
			"--agents", file, "--drain", "0s", "--log-level", "error")
		if err := w.Start(); err != nil {
			return err
		}
		f.hosts = append(f.hosts, w)
	}
	c, err := f.crew(ctx, anyAgent, "")
	if err != nil {
		return err
	}
	defer c.store.Close() //nolint:errcheck // read only
	for _, w := range f.hosts {
		if err := c.offered(ctx, w.Process.Pid); err != nil {
			return f.failed("start a worker", err)
		}
	}
	return nil
}

// killBusiest ends the host with the most rooms at once, with all that runs on it.
func (f *fleet) killBusiest() {
	host, busiest := 0, []int(nil)
	for i, w := range f.hosts {
		if all := tree(w.Process.Pid); len(all) > len(busiest) {
			host, busiest = i, all
		}
	}
	for _, pid := range busiest {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	_ = f.hosts[host].Wait()
	f.hosts = slices.Delete(f.hosts, host, host+1)
}

// crew starts sessions of one phase, of an agent that is told what to do. It is a host of its own, without agents.
func (f *fleet) crew(ctx context.Context, agentName, instructions string) (*crew, error) {
	t := lineOf(1)
	for name, p := range t.Personas {
		p.Agent = agentName
		p.Instructions = "Do what there is to do. " + instructions
		t.Personas[name] = p
	}
	return newCrew(ctx, f.conn, filepath.Join(f.dir, "starter"), f.location, t)
}

// close ends all of it: first the workers.
func (f *fleet) close() (err error) {
	for _, w := range f.hosts {
		_ = w.Process.Signal(syscall.SIGTERM)
	}
	for _, w := range f.hosts {
		ended := time.AfterFunc(time.Minute, func() { _ = w.Process.Kill() })
		_ = w.Wait()
		ended.Stop()
	}
	if f.conn != nil {
		f.conn.Close()
	}
	if f.temporal != nil && f.temporal.Process != nil {
		_ = f.temporal.Process.Kill() // its data goes, too
		_ = f.temporal.Wait()
	}
	return errors.Join(f.postgres.stop(), f.log.Close(), os.RemoveAll(f.dir))
}
