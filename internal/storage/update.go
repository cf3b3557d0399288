package storage

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// updateLimit is how long Update repeats a write after conflicts, and updatePause is the longest
// pause between two attempts.
const (
	updateLimit = 30 * time.Second
	updatePause = 50 * time.Millisecond
)

// Update replaces a document by the result of change. change reads the document and returns the
// new content, with the version that it has read; nil content leaves the document as it is.
// Update calls change again if another process has written the document in the meantime. The
// error is that of change, of the write, or [ErrConflict] after 30 seconds of conflicts.
func Update(docs Documents, key string, d Durability, change func() ([]byte, Version, error)) error {
	waited := time.Duration(0)
	for pause := time.Millisecond; ; pause = min(2*pause, updatePause) {
		data, version, err := change()
		if err != nil || data == nil {
			return err
		}
		if _, err = docs.Write(key, data, version, d); !errors.Is(err, ErrConflict) {
			return err
		}
		if waited += pause; waited > updateLimit {
			return fmt.Errorf("other processes have changed it for %s: %w", updateLimit, err)
		}
		<-time.After(pause/2 + rand.N(pause)) //nolint:gosec // jitter; not used for security
	}
}
