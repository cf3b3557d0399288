package cli

import (
	"bytes"
	"maps"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/safetext"
	"github.com/maestro-hive/maestro/internal/sessionstatus"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/transcript"
)

const (
	// maxShownLive is how much of what an attempt under way has printed is shown with
	// a session, in bytes: its end.
	maxShownLive = 64 << 10
	// clockSlack is how far the clocks of a worker and of Temporal may be apart.
	clockSlack = 2 * time.Second
)

// follow reads what the attempts at work on this host have printed, and has their
// assignments' progress be the last of it: heartbeats bring it some seconds later.
func (c *closeUp) follow(v sessionstatus.Session) {
	if c.Store == nil {
		return
	}
	if c.live == nil {
		c.live = map[spec.AssignmentID]*liveLog{}
	}
	for i, p := range v.Phases {
		for j, as := range p.Assignments {
			id := spec.AssignmentID{Phase: p.Name, Persona: as.Persona}
			at, atWork := v.Live[id]
			if !atWork {
				c.forget(id)
				continue
			}
			l := c.live[id]
			if l == nil {
				l = &liveLog{}
				c.live[id] = l
			}
			if _, err := l.follow(c.Store, c.Key(), id, true); err != nil || !l.since(at.Since.Add(-clockSlack)) {
				continue // the status has what is known otherwise
			}
			if line := l.headline(); line != "" {
				v.Phases[i].Assignments[j].Progress = line
			}
		}
	}
}

// times are what is known of when assignments began and ended; of a first attempt under way
// its record says nothing yet.
func (c *closeUp) times(v sessionstatus.Session) map[spec.AssignmentID]workDone {
	times := maps.Clone(c.work)
	for id, at := range v.Live {
		w := times[id]
		if w.started.IsZero() {
			if times == nil {
				times = map[spec.AssignmentID]workDone{}
			}
			w.started = at.Since
			times[id] = w
		}
	}
	return times
}

// forget ends the following of an attempt that is over.
func (c *closeUp) forget(id spec.AssignmentID) {
	if l := c.live[id]; l != nil {
		l.close()
		delete(c.live, id)
	}
}

// forgetAll ends all following.
func (c *closeUp) forgetAll() {
	for id := range c.live {
		c.forget(id)
	}
}

// printed is the end of what the attempt under way has printed, in brief; empty where
// it is not known.
func (c *closeUp) printed(id spec.AssignmentID, at sessionstatus.Attempt) string {
	l := c.live[id]
	if l == nil || !l.since(at.Since.Add(-clockSlack)) {
		return ""
	}
	end := l.text
	if cut := len(end) - maxShownLive; cut > 0 {
		_, end, _ = bytes.Cut(end[cut:], []byte("\n"))
	}
	return transcript.InBrief(safetext.Block(string(end)))
}

// since reports whether the present file was written to after a time: it may be that of an
// attempt before.
func (l *liveLog) since(t time.Time) bool {
	if l.file == nil {
		return false
	}
	info, err := l.file.Stat()
	return err == nil && info.ModTime().After(t)
}

// headline is the newest line that is understandable alone.
func (l *liveLog) headline() string {
	for i := len(l.recent) - 1; i >= 0; i-- {
		if line := l.recent[i]; line != "" && !transcript.Belongs(line) {
			return strings.TrimPrefix(line, "-- ")
		}
	}
	return ""
}
