//go:build failpoints

package failpoint

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// variable says where the process dies: `name@n` is the n-th time that a
// failpoint is reached whose name, or whose path, contains the name.
const variable = "MAESTRO_FAILPOINT"

var (
	mu         sync.Mutex
	name, left = chosen(os.Getenv(variable))
)

func chosen(value string) (string, int) {
	if value == "" {
		return "", 0
	}
	name, times, _ := strings.Cut(value, "@")
	n, err := strconv.Atoi(times)
	if err != nil || name == "" || n < 1 {
		panic(fmt.Sprintf("%s=%s: want name@n", variable, value))
	}
	return name, n
}

// Here is the failpoint of this name.
func Here(point string) {
	mu.Lock()
	defer mu.Unlock()
	if due(point) {
		end(point)
	}
}

// Torn is the failpoint in the middle of writing data to w, for the file that
// is to be at path.
func Torn(path string, w io.Writer, data []byte) {
	mu.Lock()
	defer mu.Unlock()
	if !due(path) {
		return
	}
	_, _ = w.Write(data[:len(data)/2])
	end(path)
}

func due(point string) bool {
	if name == "" || !strings.Contains(point, name) {
		return false
	}
	left--
	return left == 0
}

// end ends the process as kill -9 does, and does not return.
func end(point string) {
	fmt.Fprintln(os.Stderr, "failpoint:", point)
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}
