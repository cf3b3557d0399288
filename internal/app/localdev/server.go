package localdev

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/maestro-hive/maestro/internal/platform/retryafter"
	"github.com/maestro-hive/maestro/internal/sandbox/proctree"
	"github.com/maestro-hive/maestro/workflows"
)

const (
	// Loopback is where everything listens.
	Loopback = "127.0.0.1"
	// serverProgram is the name of the Temporal server that is built with Maestro.
	serverProgram = "maestro-server"
	// serverPatience bounds the wait for a server to answer, and stopPatience
	// that for it to end.
	serverPatience = time.Minute
	stopPatience   = 8 * time.Second
	// restartPause is between the death of a server and its successor's start.
	restartPause = time.Second
)

// server is a Temporal server under supervision: while it is not stopped, it is
// started again whenever it dies, at the same address. It dies with this process.
type server struct {
	options Options
	// address and ui are where the server and its Web UI are, once it is up.
	address, ui string

	stopping context.CancelFunc
	done     chan struct{}
}

// FindServer finds [serverProgram] beside our own executable.
func FindServer(executable string) (string, error) {
	if resolved, err := filepath.EvalSymlinks(executable); err == nil {
		executable = resolved
	}
	path := filepath.Join(filepath.Dir(executable), serverProgram)
	if info, err := os.Stat(path); executable == "" || err != nil || info.IsDir() {
		return "", fmt.Errorf("%s is not in the directory of this program (expected %s); build it with `make build`, or use another "+
			"Temporal with --address and `maestro worker`",
			serverProgram, path)
	}
	return path, nil
}

// startServer returns a server that answers.
func startServer(ctx context.Context, o Options) (*server, error) {
	life, stopping := context.WithCancel(context.WithoutCancel(ctx))
	s := &server{options: o, stopping: stopping, done: make(chan struct{})}
	up := make(chan error, 1)
	go s.supervise(life, up)
	select {
	case err := <-up:
		if err != nil {
			s.stop()
			return nil, err
		}
		return s, nil
	case <-ctx.Done():
		s.stop()
		return nil, ctx.Err()
	case <-time.After(serverPatience):
		s.stop()
		return nil, fmt.Errorf("the Temporal server did not answer within %s", serverPatience)
	}
}

// stop ends the server and returns when its process is gone.
func (s *server) stop() {
	s.stopping()
	<-s.done
}

// supervise runs one server process after the other. The first result goes to
// up: nil once a process answers, else why none does.
func (s *server) supervise(life context.Context, up chan<- error) {
	defer close(s.done)
	// On Linux the server's process dies with the thread that started it, so
	// this thread has to last as long as the process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	first := true
	for life.Err() == nil {
		err := s.once(life, func() {
			if first {
				up <- nil
				first = false
				return
			}
			s.options.Say("the Temporal server is running again")
		})
		if life.Err() != nil {
			return
		}
		if first {
			up <- fmt.Errorf("the Temporal server did not start, as its messages say: %w", err)
			return
		}
		s.options.Say("%s; restarting in %s", err, restartPause)
		retryafter.Wait(life, restartPause)
	}
}

// once runs a server process to its end, which is an error unless life has
// ended. ready is called when it answers.
func (s *server) once(life context.Context, ready func()) error {
	cmd := exec.Command(s.options.Server, s.arguments()...)
	cmd.Stderr = s.options.Stderr
	// The server asks for its user's name, and a container's user may have none.
	cmd.Env = append([]string{"USER=maestro"}, cmd.Environ()...)
	// A terminal's Ctrl-C does not reach the server: it is stopped in its turn.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	proctree.EndWithThread(cmd.SysProcAttr)
	// The server also ends when its standard input does, which it does with us.
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the Temporal server: %w", err)
	}
	stopped := context.AfterFunc(life, func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		time.AfterFunc(stopPatience, func() { _ = cmd.Process.Kill() })
	})
	defer stopped()
	if s.announced(stdout) {
		ready()
	}
	_, _ = io.Copy(io.Discard, stdout)
	err = cmd.Wait()
	_ = stdin.Close()
	return fmt.Errorf("the Temporal server ended (%w)", cmp.Or(err, errors.New("exit status 0")))
}

func (s *server) arguments() []string {
	o := s.options
	args := []string{
		"--ip", Loopback, "--port", strconv.Itoa(int(o.Port)), "--db-filename",
		filepath.Join(o.Store.Dir(), "temporal", "temporal.db"), "--until-stdin-closes",
	}
	if o.Headless {
		args = append(args, "--headless")
	} else if o.UIPort != 0 {
		args = append(args, "--ui-port", strconv.Itoa(int(o.UIPort)))
	}
	for _, key := range workflows.SearchAttributes() {
		args = append(args, "--search-attribute", key.GetName()+"="+key.GetValueType().String())
	}
	return args
}

// announced reads where the server is, which it says once it answers, and keeps
// the ports for its successors. It is false for a server that ends before.
func (s *server) announced(stdout io.Reader) bool {
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), "  ")
		value = strings.TrimSpace(value)
		switch { // a successor has the same ports, and others read the addresses meanwhile
		case name == "Temporal" && s.address == "":
			s.address, s.options.Port = value, portOf(value)
		case name == "Web UI" && s.ui == "":
			s.ui, s.options.UIPort = value, portOf(strings.TrimPrefix(value, "http://"))
		case name == "Database": // the last line
			return true
		}
	}
	return false
}

func portOf(address string) uint16 {
	at, _ := netip.ParseAddrPort(address) // 0 takes a free port
	return at.Port()
}
