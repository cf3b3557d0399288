package procgroup

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/secrets"
	"github.com/maestro-hive/maestro/internal/sandbox/room"
)

// dialArgument makes the test binary print what a server of 127.0.0.1 says, and what it finds
// open.
const dialArgument = "__test-dial"

func TestMain(m *testing.M) {
	room.Shim()
	if len(os.Args) == 3 && os.Args[1] == dialArgument {
		c, err := net.Dial("tcp", "127.0.0.1:"+os.Args[2])
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		said, _ := io.ReadAll(c)
		fds, _ := filepath.Glob("/proc/self/fd/*")
		sockets := 0
		for _, fd := range fds {
			var kind string
			if kind, _ = os.Readlink(fd); len(kind) > 6 && kind[:6] == "socket" {
				sockets++
			}
		}
		_, first := os.ReadDir("/proc/1/fd")
		fmt.Printf("%s, %d sockets, %v\n", said, sockets, os.IsPermission(first))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestServicesOfRooms has processes of two rooms reach a server of the worker each at the same
// port, where the host has another server.
func TestServicesOfRooms(t *testing.T) {
	t.Parallel()
	l := &Launcher{Secrets: secrets.New(nil), MaxOutput: 1 << 20, Threads: Threads{Each: 1000}, MaxFile: 1 << 30}
	if err := l.TryRoom(nil); err != nil {
		t.Skipf("this host permits no rooms: %v", err)
	}
	host, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer host.Close()
	port := host.Addr().(*net.TCPAddr).Port
	self, err := os.Executable()
	require.NoError(t, err)
	var both, ended sync.WaitGroup
	both.Add(2)
	for _, name := range []string{"one", "two"} {
		ended.Go(func() {
			served := false
			layout := room.NewLayout(nil)
			if os.Geteuid() == 0 {
				layout.UID, layout.GID = 64100, 64100
			}
			layout.Network = room.NetworkNone
			layout.Mounts = []room.Mount{{Source: filepath.Dir(self), Target: filepath.Dir(self)}}
			e := l.Run(t.Context(), Process{
				Argv: []string{self, dialArgument, strconv.Itoa(port)}, Dir: "/", Env: []string{}, Room: layout, Timeout: time.Minute,
				Services: []Service{{Port: uint16(port), Serve: func(in net.Listener, log *Capture) {
					both.Done()
					both.Wait() // both rooms have the port
					for c, err := in.Accept(); err == nil; c, err = in.Accept() {
						_, _ = io.WriteString(c, "this is "+name)
						_ = c.Close()
					}
					served = true
					log.Note("%s has ended", name)
				}}},
			})
			if !e.EndedItself() || e.Exit != 0 {
				t.Errorf("%+v: %s", e.Report, e.Log())
			}
			if want := "this is " + name + ", 1 sockets, true\nmaestro: " + name + " has ended\n"; string(e.Log()) != want {
				t.Errorf("%q is not %q", e.Log(), want)
			}
			if !served {
				t.Error("the server ends with the room")
			}
		})
	}
	ended.Wait()
}

// TestAServiceThatCannotListen gives a room a port that its shim may not use.
func TestAServiceThatCannotListen(t *testing.T) {
	t.Parallel()
	l := &Launcher{Secrets: secrets.New(nil), MaxOutput: 1 << 20, Threads: Threads{Each: 1000}, MaxFile: 1 << 30}
	if err := l.TryRoom(nil); err != nil {
		t.Skipf("this host permits no rooms: %v", err)
	}
	layout := room.NewLayout(nil)
	layout.Network = room.NetworkNone
	e := l.Run(t.Context(), Process{
		Argv: []string{"/bin/true"}, Dir: "/", Env: []string{}, Room: layout,
		Services: []Service{{Port: 7, Serve: func(net.Listener, *Capture) { t.Error("served") }}},
	})
	require.ErrorContains(t, e.Err, "make the room: listen at port 7 of the room: permission denied")
	require.False(t, e.Started)
}
