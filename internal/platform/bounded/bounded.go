// Package bounded reads files of unknown size, and removes directories of unknown depth.
package bounded

import (
	"fmt"
	"io"
	"os"
)

// ReadFile reads a file of at most limit bytes. A larger one, and a device that has
// no end, is an error that names the limit; no more than limit bytes are read of it.
// Pipes are read, too. Other errors are those of [os.Open] and of reading.
func ReadFile(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		return nil, fmt.Errorf("%s is larger than %s, which is the most that is read", path, sizeOf(limit))
	}
	return data, err
}

// sizeOf writes a limit in the unit in which it is a whole number.
func sizeOf(limit int64) string {
	if limit%1_000_000 == 0 {
		return fmt.Sprintf("%d MB", limit/1_000_000)
	}
	return fmt.Sprintf("%d KiB", limit/1024)
}
