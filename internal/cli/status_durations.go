package cli

import (
	"context"
	"time"

	"github.com/maestro-hive/maestro/internal/sessionstatus"
	"github.com/maestro-hive/maestro/internal/spec"
)

// addDurations adds the durations of a session's phases and assignments, for running ones
// so far, from their records and running attempts.
func addDurations(ctx context.Context, w *sessionstatus.Watcher, v *sessionstatus.Session) {
	detail := &sessionDetail{Watcher: w}
	detail.readWork(ctx, *v)
	now := w.Now()
	for i := range v.Phases {
		p := &v.Phases[i]
		var began, ended time.Time
		for j := range p.Assignments {
			id := spec.AssignmentID{Phase: p.Name, Persona: p.Assignments[j].Persona}
			work := detail.work[id]
			if at, ok := v.Live[id]; ok && !at.Since.IsZero() {
				if work.began.IsZero() {
					work.began = at.Since
				}
				work.worked, work.ended = work.worked+now.Sub(at.Since), now
			}
			p.Assignments[j].Seconds = work.worked.Seconds()
			if !work.began.IsZero() && (began.IsZero() || work.began.Before(began)) {
				began = work.began
			}
			if work.ended.After(ended) {
				ended = work.ended
			}
		}
		if !began.IsZero() && !p.Status.Done() && !v.Status.Status.Closed() {
			ended = now
		}
		p.Seconds = max(ended.Sub(began).Seconds(), 0)
	}
}

// seconds is a number of seconds as a duration.
func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
