package serve

import (
	"errors"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/faces/httpapi"
	"github.com/maestro-hive/maestro/internal/faces/web"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/platform/diskspace"
)

const (
	// maxUploads is how many uploads run at once, of all people together.
	maxUploads = 4
	// maxOwn is the limit for one person.
	maxOwn = 2
	// copies is how many times its size an upload needs on a disk while it is stored.
	copies = 3
	// uploadPause is the wait that a rejected caller is given.
	uploadPause = 10 * time.Second
)

// uploads decides which requests may bring files, before their bodies are read.
type uploads struct {
	starts control.Starts
	// running counts the current uploads by person.
	running *access.InFlight
	mu      sync.Mutex
	// reserved are the bytes that they may need.
	reserved int64
}

func newUploads(base *control.Base) *uploads {
	return &uploads{starts: control.Starts{Base: base}, running: access.NewInFlight(maxOwn, maxUploads)}
}

// body is [access.Options.Body]: only bodies of uploads are larger than usual. The operation
// rejects a body that is not an upload.
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
	size := r.ContentLength
	if size < 0 || size > control.MaxUpload { // nobody knows it, or no more of it is read
		size = control.MaxUpload
	}
	done, err = u.begin(actor.Identity(), size*copies)
	return control.MaxUpload, done, err
}

// may rejects an upload by a caller without the permission.
func (u *uploads) may(r *http.Request, to control.Recipient) error {
	err := u.starts.MayUpload(r.Context(), to)
	var failed *control.Error
	if errors.As(err, &failed) && failed.Kind == control.Invalid {
		return &access.RefusedError{Status: http.StatusUnprocessableEntity, Title: "Please correct the input", Text: err.Error()}
	}
	return err
}

// begin counts an upload, and reserves the bytes that it needs, until it is done.
func (u *uploads) begin(person string, need int64) (done func(), err error) {
	ended, own := u.running.Begin(person)
	switch {
	case own:
		return nil, &access.RefusedError{
			Status: http.StatusTooManyRequests, Title: "Too many uploads",
			Text: "you upload other files already; wait until they are stored", After: uploadPause,
		}
	case ended == nil:
		return nil, &access.RefusedError{
			Status: http.StatusServiceUnavailable, Title: "Too many uploads",
			Text: "others upload files; try again in a moment", After: uploadPause,
		}
	case !u.reserve(need):
		ended()
		return nil, &access.RefusedError{
			Status: http.StatusInsufficientStorage, Title: "The disk is full",
			Text: "the store's disk, or that of temporary files, has no room for these files; free space on it",
		}
	}
	return func() {
		u.mu.Lock()
		u.reserved -= need
		u.mu.Unlock()
		ended()
	}, nil
}

// reserve reports whether the disks of an upload have so much space in addition to what is
// reserved, and reserves it.
func (u *uploads) reserve(need int64) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, dir := range []string{u.starts.Store.Dir(), os.TempDir()} {
		if left, err := diskspace.Of(dir); err == nil && left.Bytes-u.reserved-need < left.LowBytes {
			return false
		}
	}
	u.reserved += need
	return true
}
