//go:build compose

package deploy_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	// withinUp bounds a start of all services, and withinSession a session's only phase, which takes a second.
	withinUp, withinSession = 3 * time.Minute, 30 * time.Second
	// withinBuild bounds what is made once: images of other projects, and the worker's.
	withinBuild = 15 * time.Minute
	// restarts is how often all services are taken down and started again.
	restarts = 5
)

// composition is docker-compose.yml, started as a project of its own with ports of its own.
type composition struct {
	t       *testing.T
	project string
	files   []string
}

// command runs a command in the repository's directory within a time.
func command(ctx context.Context, within time.Duration, argv ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = "..", append(os.Environ(), "POSTGRES_PASSWORD=0123456789abcdef"), time.Second
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		err = fmt.Errorf("it did not end within %s: %w", within, errors.Join(err, ctx.Err()))
	}
	return string(out), err
}

// tried runs a command that succeeds within a time.
func tried(t *testing.T, within time.Duration, argv ...string) string {
	t.Helper()
	began := time.Now()
	out, err := command(t.Context(), within, argv...)
	require.NoError(t, err, "%s\n%s", strings.Join(argv, " "), out)
	t.Logf("%5.1f s  %s", time.Since(began).Seconds(), strings.Join(argv, " "))
	return out
}

// compose is a command line of docker compose.
func (c *composition) compose(args ...string) []string {
	return append(append([]string{"docker", "compose", "--project-name", c.project}, c.files...), args...)
}

func (c *composition) up(args ...string) {
	c.t.Helper()
	tried(c.t, withinUp, c.compose(append([]string{"up", "--detach", "--wait"}, args...)...)...)
}

// runs has a session's first phase done, which takes a worker's answer to each step.
func (c *composition) runs(session string) {
	c.t.Helper()
	said := tried(c.t, withinSession, c.compose("exec", "-T", "worker-1", "maestro", "run", "/etc/maestro/team.yaml", "--only",
		"requirements",
		"--session", session, "--watch", "Shorten addresses.")...)
	require.Contains(c.t, said, "session "+session+": completed")
}

// newComposition makes what the services need. Cleaning up removes this project's containers and volumes, and no others.
func newComposition(t *testing.T) *composition {
	t.Helper()
	for _, needed := range [][]string{{"docker", "info"}, {"docker", "compose", "version"}} {
		if out, err := command(t.Context(), time.Minute, needed...); err != nil {
			t.Skipf("this needs a running engine and Docker Compose; `%s` says: %v\n%s", strings.Join(needed, " "), err, out)
		}
	}
	project := fmt.Sprintf("maestro-test-%d", os.Getpid())
	ours := func(service string) string { return fmt.Sprintf("  %s: {image: %s}\n", service, project) }
	override := "services:\n" + ours("namespace") + ours("worker-1") + ours("worker-2") + fmt.Sprintf("  dashboard: {image: %s, "+
		"ports: !override [\"127.0.0.1::8088\"]}\n", project)
	for service, port := range map[string]int{"temporal": 7233, "ui": 8080, "prometheus": 9090} {
		override += fmt.Sprintf("  %s: {ports: !override [\"127.0.0.1::%d\"]}\n", service, port)
	}
	file := filepath.Join(t.TempDir(), "override.yml")
	require.NoError(t, os.WriteFile(file, []byte(override), 0o600))
	c := &composition{t: t, project: project, files: []string{"--file", "docker-compose.yml", "--file", file}}
	t.Cleanup(func() {
		if t.Failed() {
			out, _ := command(context.Background(), time.Minute, c.compose("logs", "--tail", "40")...)
			t.Log(out)
		}
		out, err := command(context.Background(), withinUp, c.compose("down", "--volumes", "--rmi", "local")...)
		require.NoError(t, err, out)
		_, _ = command(context.Background(), time.Minute, "docker", "image", "rm", project)
		if os.Getenv("KEEP") == "" {
			out, err = command(context.Background(), withinUp, "deploy/validation/images.sh", "--remove")
			require.NoError(t, err, out)
		}
	})
	tried(t, withinBuild, "deploy/validation/images.sh")
	tried(t, withinBuild, c.compose("build")...)
	return c
}

// closed returns what is said of a checkout under umask 077, before and after its files were opened as it says.
func (c *composition) closed() (before, after string) {
	c.t.Helper()
	checkout := filepath.Join(c.t.TempDir(), "checkout")
	require.NoError(c.t, os.Mkdir(checkout, 0o755)) //nolint:gosec // what is above a mount does not matter
	tried(c.t, time.Minute, "cp", "-r", "docker-compose.yml", "deploy", "examples", checkout)
	tried(c.t, time.Minute, "chmod", "-R", "go-rwx", checkout)
	closed := composition{c.t, c.project + "-closed", []string{
		"--project-directory", checkout, "--file",
		filepath.Join(checkout, "docker-compose.yml"),
	}}
	c.t.Cleanup(func() {
		out, err := command(context.Background(), withinUp, closed.compose("down", "--volumes")...)
		require.NoError(c.t, err, out)
	})
	said, err := command(c.t.Context(), withinUp, closed.compose("up", "--detach", "--wait", "postgresql")...)
	require.Error(c.t, err)
	require.Contains(c.t, said, `service "mounts" didn't complete successfully`)
	before = tried(c.t, time.Minute, closed.compose("logs", "mounts")...)
	tried(c.t, time.Minute, "sh", "-c", "cd "+checkout+" && chmod -R go+rX deploy examples/shortener")
	return before, tried(c.t, withinUp, closed.compose("run", "--rm", "mounts")...)
}

// TestComposeDelivers does what docs/deployment.md tells people to do: a start, sessions, the loss of a worker, an upgrade of
// the services, and stops of everything, after which sessions are delivered as soon as the services are healthy.
func TestComposeDelivers(t *testing.T) {
	c := newComposition(t)
	before, after := c.closed()
	for _, file := range []string{
		"./deploy/temporal/schema.sh", "./deploy/temporal/dynamicconfig.yaml", "./deploy/prometheus",
		"./examples/shortener", "chmod -R go+rX deploy examples/shortener",
	} {
		require.Contains(t, before, file)
		require.NotContains(t, after, file)
	}
	c.up()
	tried(t, withinSession, c.compose("exec", "-T", "worker-1", "maestro", "agents")...)
	for _, service := range []string{"dashboard", "worker-1"} {
		require.NotContains(t, tried(t, withinSession, c.compose("exec", "-T", service, "maestro", "doctor")...), "\nbad ")
	}
	require.Contains(t, tried(t, withinSession, c.compose("exec", "-T", "dashboard", "maestro", "serve", "--link")...),
		"http://localhost:8088/")

	const session = "whole"
	tried(t, withinSession, c.compose("exec", "-T", "worker-1", "maestro", "run", "/etc/maestro/team.yaml", "--session", session,
		"Shorten addresses.")...)
	require.Eventually(t, func() bool {
		said, err := command(t.Context(), withinSession, c.compose("exec", "-T", "worker-2", "maestro", "status", session)...)
		return err == nil && strings.Contains(said, "architect  completed")
	}, withinUp, time.Second, "the session does not begin")
	tried(t, withinSession, c.compose("kill", "--signal", "KILL", "worker-1")...)
	require.Contains(t, tried(t, 5*time.Minute, c.compose("exec", "-T", "worker-2", "maestro", "watch", session)...), "session "+
		session+": completed")
	c.up()
	c.runs("after-the-kill")

	for _, service := range []string{"worker-1", "worker-2", "dashboard"} {
		c.up("--force-recreate", "--no-deps", service)
	}
	c.runs("after-the-upgrade")

	for n := range restarts {
		tried(t, withinUp, c.compose("down")...)
		c.up()
		c.runs(fmt.Sprintf("after-restart-%d", n+1))
	}
	list := tried(t, withinSession, c.compose("exec", "-T", "dashboard", "maestro", "list")...)
	require.Contains(t, list, session, "down keeps the sessions")
}
