package control

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/models/transcript"
	"github.com/maestro-hive/maestro/internal/sandbox/workdir"
)

// maxHeadline limits the end of a live log in which its newest line is searched, in bytes.
const maxHeadline = 16 << 10

// LiveLogs are the directories on this host in which agents of a store's workers work.
type LiveLogs []*workdir.Dirs

// LiveLogs lists the directories in which workers of this host work, from their offers.
func (b *Base) LiveLogs(ctx context.Context) LiveLogs {
	roots := map[string]bool{workdir.DefaultRoot(b.Store.Dir()): true}
	host, err := os.Hostname()
	offers, _ := b.Store.State.Offers(ctx)
	for _, o := range offers {
		if err == nil && o.Host == host && o.Work != "" && o.Live(b.Now()) {
			roots[o.Work] = true
		}
	}
	var all LiveLogs
	for root := range roots {
		all = append(all, workdir.New(workdir.Options{Root: root}))
	}
	return all
}

// open opens the live log of an attempt in progress; [fs.ErrNotExist] if there is none. The one of the attempt before was
// last written before this one has started.
func (d LiveLogs) open(key session.Key, of Attempt) (newest *os.File, err error) {
	at := of.StartedAt
	for _, dirs := range d {
		f, err := dirs.OpenLiveLog(key, of.AssignmentID)
		if err != nil {
			continue
		}
		info, err := f.Stat()
		if err != nil || info.ModTime().Before(at) {
			_ = f.Close() // only read
			continue
		}
		if newest != nil {
			_ = newest.Close()
		}
		newest, at = f, info.ModTime()
	}
	if newest == nil {
		return nil, fs.ErrNotExist
	}
	return newest, nil
}

// headline is the newest line of the output of an attempt in progress that is understandable alone; empty: there is none.
func (d LiveLogs) headline(key session.Key, of Attempt) string {
	f, err := d.open(key, of)
	if err != nil {
		return ""
	}
	defer f.Close()                                     //nolint:errcheck // only read
	_, text, _ := linesOf(f, -maxHeadline, maxHeadline) // it is only a hint
	for _, line := range slices.Backward(strings.Split(text, "\n")) {
		if line = safetext.Line(line); line != "" && !transcript.Belongs(line) {
			return strings.TrimPrefix(line, "-- ")
		}
	}
	return ""
}

// linesOf reads complete lines from an offset of a file, a number of bytes at most.
func linesOf(f *os.File, after int64, limit int) (from int64, text string, err error) {
	info, err := f.Stat()
	if err != nil {
		return 0, "", err
	}
	if from = after; after < 0 {
		from = max(info.Size()+after, 0)
	} else if after > info.Size() {
		from = 0
	}
	data := make([]byte, limit)
	n, err := f.ReadAt(data, from)
	if err != nil && !errors.Is(err, io.EOF) {
		return from, "", err
	}
	data = data[:n]
	if after < 0 && from > 0 { // the rest of a line
		cut := bytes.IndexByte(data, '\n') + 1
		data, from = data[cut:], from+int64(cut)
	}
	if end := bytes.LastIndexByte(data, '\n'); end >= 0 || n < limit {
		data = data[:end+1]
	}
	return from, string(data), nil
}
