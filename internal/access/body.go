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
	// bodyCheckInterval is how often a body is checked, and paceBytes how much of it must be received in between.
	bodyCheckInterval = 30 * time.Second
	paceBytes         = 512 << 10
)

// errSlowBody ends a body that is too slow, or whose sender's credential has ended.
var errSlowBody = &RefusedError{Status: http.StatusRequestTimeout, Title: "Too slow", Text: "the body of the request came too slowly", Err: os.ErrDeadlineExceeded}

// pacedBody is the body of a request that ends with an error if it is received too slowly. Otherwise
// clients that send nothing would hold the server's resources.
type pacedBody struct {
	io.ReadCloser
	conn  *http.ResponseController
	every time.Duration
	mu    sync.Mutex
	timer *time.Timer
	// received counts the bytes since the last check.
	received int
	// ended: nothing of it is waited for; refused: because of what came of it, or because of its sender.
	ended, refused bool
}

func newPacedBody(w http.ResponseWriter, body io.ReadCloser, every time.Duration) *pacedBody {
	b := &pacedBody{ReadCloser: body, conn: http.NewResponseController(w), every: every, ended: body == http.NoBody}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.timer = time.AfterFunc(every, b.check)
	return b
}

// newTimedBody is a body that ends with an error after a time, however much has come.
func newTimedBody(w http.ResponseWriter, body io.ReadCloser, patience time.Duration) *pacedBody {
	b := &pacedBody{ReadCloser: body, conn: http.NewResponseController(w), ended: body == http.NoBody}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.timer = time.AfterFunc(patience, b.end)
	return b
}

func (b *pacedBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	refused := b.refused
	b.mu.Unlock()
	if refused { // whoever reads may have set another deadline
		return 0, errSlowBody
	}
	n, err := b.ReadCloser.Read(p)
	b.mu.Lock()
	b.received += n
	b.mu.Unlock()
	if err != nil {
		b.stop() // a deadline after the end would cancel the request
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = errSlowBody
	}
	return n, err
}

// check ends the body if too little of it was received.
func (b *pacedBody) check() {
	b.mu.Lock()
	enough := b.received >= paceBytes
	b.received = 0
	if enough && !b.ended {
		b.timer.Reset(b.every)
	}
	b.mu.Unlock()
	if !enough {
		b.end()
	}
}

// end ends a waiting read and all later ones.
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
