//go:build !failpoints

package failpoint

import (
	"io"
	"sync/atomic"
)

// Observer is called at failpoints. tear is nil except at [Torn], where it writes
// the first half of the data.
type Observer func(point string, tear func())

var observer atomic.Pointer[Observer]

// Observe has o called at every failpoint of the process, for simulations that stop
// parts of one process. Nil ends that.
func Observe(o Observer) {
	if o == nil {
		observer.Store(nil)
		return
	}
	observer.Store(&o)
}

// Here is the failpoint of this name.
func Here(point string) {
	if o := observer.Load(); o != nil {
		(*o)(point, nil)
	}
}

// Torn is the failpoint in the middle of writing data to w, for the file that
// is to be at path.
func Torn(path string, w io.Writer, data []byte) {
	if o := observer.Load(); o != nil {
		(*o)(path, func() { _, _ = w.Write(data[:len(data)/2]) })
	}
}
