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
	// bodyPatience is how long the next paceBytes of a body may take.
	bodyPatience = 30 * time.Second
	paceBytes    = 512 << 10
)

// errSlowBody ends a body that is too slow, or whose sender's credential has ended.
var errSlowBody = &RefusedError{
	Status: http.StatusRequestTimeout, Title: "Too slow",
	Text: "the body of the request came too slowly", Err: os.ErrDeadlineExceeded,
}

// pacedBody is the body of a request that ends with an error if it is received too slowly. Otherwise
// clients that send nothing would hold the server's resources. Only the time of reads counts.
type pacedBody struct {
	io.ReadCloser
	conn *http.ResponseController
	// patience is how long pace bytes may take, left what remains of it, and received how many of them have come.
	patience, left time.Duration
	pace, received int

	mu    sync.Mutex
	ended bool
	// whole: all of it was read. A deadline would end the connection then, and with it the client's next request.
	whole bool
}

func newPacedBody(w http.ResponseWriter, body io.ReadCloser, patience time.Duration, pace int) *pacedBody {
	return &pacedBody{ReadCloser: body, conn: http.NewResponseController(w), patience: patience, left: patience, pace: pace}
}

func (b *pacedBody) Read(p []byte) (int, error) {
	began := time.Now() //nolint:forbidigo // deadlines of connections are in real time
	if !b.setDeadline(began.Add(b.left)) {
		return 0, errSlowBody
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= time.Since(began) //nolint:forbidigo // as above
	if b.received += n; b.received >= b.pace {
		b.received, b.left = 0, b.patience
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		b.end()
		err = errSlowBody
	case err != nil:
		b.setDeadline(time.Time{}) // a deadline after the end would cancel the request
		b.mu.Lock()
		b.whole = errors.Is(err, io.EOF)
		b.mu.Unlock()
	}
	return n, err
}

// setDeadline sets when a read fails, and reports whether the body may be read.
func (b *pacedBody) setDeadline(at time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.ended {
		_ = b.conn.SetReadDeadline(at)
	}
	return !b.ended
}

// end ends a waiting read and all later ones.
func (b *pacedBody) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	if !b.whole {
		_ = b.conn.SetReadDeadline(time.Unix(1, 0))
	}
}
