package storage

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// The time for which a document is written again that others change meanwhile, and the
// longest pause between two tries.
const (
	updateLimit = 30 * time.Second
	updatePause = 50 * time.Millisecond
)

// Update replaces a document by what change makes of it. change reads the document and
// returns the new one, with the version that it has read; nil leaves it as it is. It is
// called again if another process has written the document meanwhile. The error is that of
// change, of the write, or [ErrConflict] after 30 seconds of conflicts.
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
		<-time.After(pause/2 + rand.N(pause)) //nolint:gosec // spreads waits; guards nothing
	}
}
