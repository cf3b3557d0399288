package cli

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/control"
	"github.com/maestro-hive/maestro/internal/sessionstatus"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/transcript"
)

const (
	// maxShownLive bounds the output of a running attempt that is shown, in bytes from its end.
	maxShownLive = 64 << 10
	// clockSlack is the tolerated difference between the clocks of a worker and of Temporal.
	clockSlack = 2 * time.Second
)

// followOutput reads the output of the attempts that run on this host, and sets their
// assignments' progress to the last line: heartbeats deliver it some seconds later.
func (c *sessionDetail) followOutput(ctx context.Context, v sessionstatus.Session) {
	if c.watcher == nil || c.watcher.Store == nil {
		return
	}
	if c.live == nil {
		c.live = map[spec.AssignmentID]*control.Tail{}
	}
	logs := (&control.Base{Store: c.watcher.Store, Now: c.now}).LiveLogs(ctx)
	for i, p := range v.Phases {
		for j, as := range p.Assignments {
			id := spec.AssignmentID{Phase: p.Name, Persona: as.Persona}
			at, atWork := v.Live[id]
			if !atWork {
				c.stopFollowing(id)
				continue
			}
			l := c.live[id]
			if l == nil {
				l = &control.Tail{}
				c.live[id] = l
			}
			if _, err := l.Follow(logs, c.watcher.Key(), id, true); err != nil || !l.WrittenSince(at.Since.Add(-clockSlack)) {
				continue // the status has the last heartbeat's line
			}
			if line := headline(l); line != "" {
				v.Phases[i].Assignments[j].Progress = line
			}
		}
	}
}

// times returns the known times of assignments. The start of a first attempt that still runs
// is not in its record, and comes from Temporal.
func (c *sessionDetail) times(v sessionstatus.Session) map[spec.AssignmentID]workDone {
	times := maps.Clone(c.work)
	if times == nil {
		times = map[spec.AssignmentID]workDone{}
	}
	for id, w := range times {
		if w.pass > 0 && w.pass <= c.checkpoint.SentBack(id.Phase, time.Time{}) { // its record is of the pass before
			w.started, w.roundStarted, w.done = time.Time{}, time.Time{}, time.Time{}
			times[id] = w
		}
	}
	for id, at := range v.Live {
		w := times[id]
		w.started, w.roundStarted = cmp.Or(w.started, at.Since), cmp.Or(w.roundStarted, at.Since)
		times[id] = w
	}
	return times
}

// stopFollowing closes the live log of an attempt that has ended.
func (c *sessionDetail) stopFollowing(id spec.AssignmentID) {
	if l := c.live[id]; l != nil {
		l.Close()
		delete(c.live, id)
	}
}

// close closes all live logs.
func (c *sessionDetail) close() {
	for id := range c.live {
		c.stopFollowing(id)
	}
}

// output returns the end of a running attempt's output, shortened; empty if unknown.
func (c *sessionDetail) output(id spec.AssignmentID, at sessionstatus.Attempt) string {
	l := c.live[id]
	if l == nil || !l.WrittenSince(at.Since.Add(-clockSlack)) {
		return ""
	}
	return transcript.InBrief(l.Output(maxShownLive))
}

// headline returns the newest line that can be understood alone.
func headline(l *control.Tail) string {
	for _, line := range slices.Backward(l.Recent()) {
		if line != "" && !transcript.Belongs(line) {
			return strings.TrimPrefix(line, "-- ")
		}
	}
	return ""
}
