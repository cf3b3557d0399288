package access

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"time"
)

const (
	// pace is how often a body is looked at, and paceBytes what has to come of it meanwhile.
	pace      = 30 * time.Second
	paceBytes = 512 << 10
)

// errSlow ends a body that comes too slowly, or whose sender may send it no more.
var errSlow = &RefusedError{Status: http.StatusRequestTimeout, Title: "Too slow", Text: "the body of the request came too slowly", Err: os.ErrDeadlineExceeded}

// pacedBody is the body of a request, which ends with an error when too little of it comes: senders
// that send nothing would otherwise keep what the server reserves for them.
type pacedBody struct {
	io.ReadCloser
	conn  *http.ResponseController
	every time.Duration
	mu    sync.Mutex
	timer *time.Timer
	// came counts the bytes since the last look.
	came int
	// ended: nothing of it is waited for; refused: because of what came of it, or because of its sender.
	ended, refused bool
}

func newPacedBody(w http.ResponseWriter, body io.ReadCloser, every time.Duration) *pacedBody {
	b := &pacedBody{ReadCloser: body, conn: http.NewResponseController(w), every: every, ended: body == http.NoBody}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.timer = time.AfterFunc(every, b.look)
	return b
}

func (b *pacedBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	refused := b.refused
	b.mu.Unlock()
	if refused { // whoever reads may have set another deadline
		return 0, errSlow
	}
	n, err := b.ReadCloser.Read(p)
	b.mu.Lock()
	b.came += n
	b.mu.Unlock()
	if err != nil {
		b.stop() // a deadline after the end would cancel the request
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = errSlow
	}
	return n, err
}

// look ends the body if too little came of it.
func (b *pacedBody) look() {
	b.mu.Lock()
	enough := b.came >= paceBytes
	b.came = 0
	if enough && !b.ended {
		b.timer.Reset(b.every)
	}
	b.mu.Unlock()
	if !enough {
		b.end()
	}
}

// end ends a read that waits, and all that follow.
func (b *pacedBody) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.ended {
		b.ended, b.refused = true, true
		_ = b.conn.SetReadDeadline(time.Unix(1, 0))
	}
}

// stop is called when nothing more is read of the body.
func (b *pacedBody) stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	b.timer.Stop()
}
