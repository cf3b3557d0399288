package storage

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/maestro-hive/maestro/internal/failpoint"
)

// Append implements [Storage].
func (d *Directory) Append(key string, line []byte) error {
	path, err := d.path(key)
	if err != nil {
		return err
	}
	switch {
	case len(line) > MaxLine:
		return fmt.Errorf("%w: the line has %d bytes, and at most %d are allowed", ErrTooLarge, len(line), MaxLine)
	case bytes.ContainsRune(line, '\n'):
		return errors.New("a line with a line break cannot be appended to a journal")
	}
	line = append(bytes.Clone(line), '\n')
	return d.withReserve(func() error { return d.appendLine(path, line) })
}

func (d *Directory) appendLine(path string, line []byte) (err error) {
	f, err := d.openJournal(path)
	if err != nil {
		return err
	}
	defer closing(f, &err)
	end, err := cutTorn(f)
	if err == nil && end == 0 { // with an earlier line, its name is durable already
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		return err
	}
	there, err := endsWith(f, end, line)
	if err != nil {
		return err
	}
	if !there {
		failpoint.Torn(path, f, line)
		_, err = f.Write(line)
	}
	if err == nil {
		err = flushData(f)
	}
	if err != nil && !there {
		// If this fails, a later append removes the incomplete line.
		_ = f.Truncate(end)
	}
	return err
}

// openJournal opens a journal to append to it. It makes the journal if it does not exist.
func (d *Directory) openJournal(path string) (*os.File, error) {
	const mode = os.O_RDWR | os.O_APPEND | os.O_CREATE
	f, err := os.OpenFile(path, mode, fileMode)
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	if err := d.makeDir(filepath.Dir(path), Durable); err != nil {
		return nil, err
	}
	return os.OpenFile(path, mode, fileMode)
}

// cutTorn removes an incomplete last line, and returns the size of the rest.
func cutTorn(f *os.File) (int64, error) {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return 0, err
	}
	end := info.Size()
	for block := make([]byte, 4<<10); end > 0; {
		b := block[:min(int64(len(block)), end)]
		if _, err := f.ReadAt(b, end-int64(len(b))); err != nil {
			return 0, err
		}
		if at := bytes.LastIndexByte(b, '\n'); at >= 0 {
			end -= int64(len(b) - at - 1)
			break
		}
		end -= int64(len(b))
	}
	if end == info.Size() {
		return end, nil
	}
	return end, f.Truncate(end)
}

// endsWith reports whether a file of this size ends with the line.
func endsWith(f *os.File, size int64, line []byte) (bool, error) {
	from := size - int64(len(line))
	if from < 0 {
		return false, nil
	}
	last := make([]byte, len(line))
	if _, err := f.ReadAt(last, from); err != nil {
		return false, err
	}
	return bytes.Equal(last, line), nil
}
