package serve

import (
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/control"
	"github.com/maestro-hive/maestro/internal/diskspace"
	"github.com/maestro-hive/maestro/internal/httpapi"
	"github.com/maestro-hive/maestro/internal/web"
)

const (
	// maxUploads is how many uploads run at once, of all people together. Each takes up to three
	// times its size on the disk for a while.
	maxUploads = 4
	// maxOwn is how many of them are those of one person or token.
	maxOwn = 2
	// uploadPause is what who is refused is to wait.
	uploadPause = 10 * time.Second
)

// uploads decides which requests may bring files, before their bodies are read.
type uploads struct {
	starts control.Starts
	mu     sync.Mutex
	// running counts the uploads of now by the name of the person or token, and total all.
	running map[string]int
	total   int
}

func newUploads(base *control.Base) *uploads {
	return &uploads{starts: control.Starts{Base: base}, running: map[string]int{}}
}

// body is [access.Options.Body]: only uploads are larger than usual. One that is not is left to
// its operation.
func (u *uploads) body(r *http.Request) (limit int64, done func(), err error) {
	to, ok := httpapi.UploadFor(r)
	if !ok {
		to, ok = web.UploadFor(r)
	}
	if !ok || r.ContentLength >= 0 && r.ContentLength <= access.DefaultBody {
		return 0, func() {}, nil
	}
	if err := u.may(r, to); err != nil {
		return 0, nil, err
	}
	actor, _ := access.Of(r.Context())
	if err := u.begin(actor.Name); err != nil {
		return 0, nil, err
	}
	return control.MaxUpload, func() { u.end(actor.Name) }, nil
}

// may refuses an upload by who may not, and one that the disk has no room for.
func (u *uploads) may(r *http.Request, to control.Recipient) error {
	err := u.starts.MayUpload(r.Context(), to)
	var failed *control.Error
	if errors.As(err, &failed) && failed.Kind == control.Invalid {
		return &access.RefusedError{Status: http.StatusUnprocessableEntity, Title: "Please correct the input", Text: err.Error()}
	}
	if err != nil {
		return err
	}
	if left, err := diskspace.Of(u.starts.Store.Dir()); err == nil && left.Bytes-max(r.ContentLength, 0) < left.LowBytes {
		return &access.RefusedError{Status: http.StatusInsufficientStorage, Title: "The disk is full", Text: "the store's disk has no room for these files; free space on it"}
	}
	return nil
}

// begin counts an upload.
func (u *uploads) begin(name string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.running[name] >= maxOwn:
		return &access.RefusedError{Status: http.StatusTooManyRequests, Title: "Too many uploads", Text: "you upload other files already; wait until they are stored", After: uploadPause}
	case u.total >= maxUploads:
		return &access.RefusedError{Status: http.StatusServiceUnavailable, Title: "Too many uploads", Text: "others upload files; try again in a moment", After: uploadPause}
	}
	u.running[name]++
	u.total++
	return nil
}

func (u *uploads) end(name string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.total--
	if u.running[name]--; u.running[name] == 0 {
		delete(u.running, name)
	}
}
