package control

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/textfmt"
	"github.com/maestro-hive/maestro/internal/workdir"
)

const (
	// maxLive limits one read of a live log, in bytes.
	maxLive = 256 << 10
	// maxLine limits a line of progress, in bytes.
	maxLine = 4 << 10
	// clockSlack is the tolerated difference between the clocks of a worker and of Temporal.
	clockSlack = 2 * time.Second
)

// LiveLogs are the directories on this host in which agents of a store's workers work.
type LiveLogs []*workdir.Dirs

// LiveLogs lists the directories in which workers of this host work, from their offers.
func (b *Base) LiveLogs(ctx context.Context) LiveLogs {
	if b.Store == nil {
		return nil
	}
	roots := map[string]bool{workdir.DefaultRoot(b.Store.Dir()): true}
	host, err := os.Hostname()
	offers, _ := b.Store.Offers(ctx)
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

// open opens the newest live log of an assignment; [fs.ErrNotExist] if there is none.
func (d LiveLogs) open(key session.Key, id spec.AssignmentID) (newest *os.File, err error) {
	var at time.Time
	for _, dirs := range d {
		f, err := dirs.OpenLiveLog(key, id)
		if err != nil {
			continue
		}
		info, err := f.Stat()
		if err != nil || newest != nil && !info.ModTime().After(at) {
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

// LiveLines is the output of a running attempt.
type LiveLines struct {
	Session string `json:"session"`
	spec.AssignmentID
	// Running: an attempt is at work.
	Running bool `json:"running"`
	// Source is "log", or "heartbeat" if the agent works on another host: then Text is the newest
	// line of progress.
	Source string `json:"source"`
	// From and Next are the offsets of the text, in bytes. From is zero if the log is a new one.
	From int64  `json:"from"`
	Next int64  `json:"next"`
	Text string `json:"text"`
}

// Live reads what an assignment's running attempt has printed since an offset or, with a negative
// one, since that many bytes before the end. Lines are complete.
func (a Attempts) Live(ctx context.Context, sessionID string, id spec.AssignmentID, after int64) (LiveLines, error) {
	doc := LiveLines{Session: sessionID, AssignmentID: id}
	if err := id.Check(); err != nil {
		return doc, &Error{Kind: Invalid, Field: "assignment", err: err}
	}
	_, key, err := a.inStore(ctx, sessionID)
	if err != nil {
		return doc, err
	}
	w, err := a.watcher(sessionID)
	if err != nil {
		return doc, err
	}
	v, err := w.Look(ctx)
	if err != nil {
		return doc, looked(sessionID, err)
	}
	as := v.Assignment(id)
	if as == nil {
		return doc, notFoundf("the session has no assignment %s", id)
	}
	at, live := v.Live[id]
	if doc.Running = live || v.Live == nil && as.Status == session.Running; !doc.Running {
		return doc, nil
	}
	doc.Source = "heartbeat"
	f, err := a.LiveLogs(ctx).open(key, id)
	if err != nil {
		doc.Text = textfmt.Shorten(as.Progress, maxLine)
		return doc, nil
	}
	defer f.Close() //nolint:errcheck // only read
	if info, err := f.Stat(); err != nil || live && info.ModTime().Before(at.Since.Add(-clockSlack)) {
		return doc, err // the previous attempt's
	}
	doc.Source = "log"
	doc.From, doc.Text, err = linesOf(f, after)
	doc.Next = doc.From + int64(len(doc.Text))
	return doc, err
}

// linesOf reads complete lines from an offset of a file.
func linesOf(f *os.File, after int64) (from int64, text string, err error) {
	info, err := f.Stat()
	if err != nil {
		return 0, "", err
	}
	if from = after; after < 0 {
		from = max(info.Size()+after, 0)
	} else if after > info.Size() {
		from = 0
	}
	data := make([]byte, maxLive)
	n, err := f.ReadAt(data, from)
	if err != nil && !errors.Is(err, io.EOF) {
		return from, "", err
	}
	data = data[:n]
	if after < 0 && from > 0 { // the rest of a line
		cut := bytes.IndexByte(data, '\n') + 1
		data, from = data[cut:], from+int64(cut)
	}
	if end := bytes.LastIndexByte(data, '\n'); end >= 0 || n < maxLive {
		data = data[:end+1]
	}
	return from, string(data), nil
}
