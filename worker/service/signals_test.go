package service_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/worker/service"
)

// asSignalled names the variable that makes this program one that hears signals as
// a worker does.
const asSignalled = "MAESTRO_TEST_SIGNALLED"

// beSignalled says which signals arrive, until its standard input ends or a signal
// ends it.
func beSignalled() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // as in Main: a second one ends the process
	reloads, unhear := service.Reloads()
	defer unhear()
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	fmt.Println("hears")
	stopped := ctx.Done()
	for {
		select {
		case <-reloads:
			fmt.Println("reloads")
		case <-stopped:
			fmt.Println("drains")
			stopped = nil
		case <-hangups:
			if stopped == nil {
				fmt.Println("still drains")
			}
		}
	}
}

// signalled starts that program on a terminal of its own. hangUp takes the terminal
// away; says waits for what it says next.
func signalled(t *testing.T, argv ...string) (cmd *exec.Cmd, hangUp func(), says func(string)) {
	t.Helper()
	master, tty, err := pty.Open()
	require.NoError(t, err)
	cmd = exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), asSignalled+"=1")
	cmd.Stdin = tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	require.NoError(t, tty.Close())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	lines := make(chan string)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			lines <- s.Text()
		}
	}()
	says = func(want string) {
		t.Helper()
		select {
		case line, ok := <-lines:
			require.True(t, ok, "it has ended instead of saying %q", want)
			require.Equal(t, want, line)
		case <-time.After(time.Minute):
			require.Fail(t, "it does not say "+want)
		}
	}
	says("hears")
	return cmd, func() { require.NoError(t, master.Close()) }, says
}

// TestALostTerminalStopsOnce has a shell and the kernel both tell of the loss, as
// they do: the second must not end what drains.
func TestALostTerminalStopsOnce(t *testing.T) {
	t.Parallel()
	cmd, hangUp, says := signalled(t, os.Args[0])
	require.NoError(t, cmd.Process.Signal(syscall.SIGHUP))
	says("reloads")
	hangUp()
	says("drains")
	for range 3 {
		require.NoError(t, cmd.Process.Signal(syscall.SIGHUP))
		says("still drains")
	}
	// SIGINT would be ignored where the tests run in the background of a shell.
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.EqualError(t, cmd.Wait(), "signal: terminated")
}

// TestWhatIsToOutliveItsTerminalDoes starts it as nohup does.
func TestWhatIsToOutliveItsTerminalDoes(t *testing.T) {
	t.Parallel()
	cmd, hangUp, says := signalled(t, "sh", "-c", `trap "" HUP; exec "$0"`, os.Args[0])
	hangUp()
	says("reloads")
	require.NoError(t, cmd.Process.Signal(syscall.SIGHUP))
	says("reloads")
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	says("drains")
}
