package control

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/models/transcript"
	"github.com/maestro-hive/maestro/internal/ops/sessionstatus"
)

// Progress is a session's status and the progress of its work.
type Progress struct {
	Session sessionstatus.Session `json:"session"`
	// Work is that of assignments which have started.
	Work []AssignmentProgress `json:"work"`
	// Reworks are the times that work was sent back.
	Reworks []session.Rework `json:"reworks"`
	// Needs has the phases that each phase depends on; empty: unknown.
	Needs map[string][]string `json:"needs"`
	// Checks names the checks that the team's work has to pass, each once.
	Checks []string `json:"checks"`
}

// AssignmentProgress is the progress of an assignment from its record.
type AssignmentProgress struct {
	spec.AssignmentID
	// Pass, Round and Attempt are those in progress, or the last ones.
	Pass    int `json:"pass"`
	Round   int `json:"round"`
	Attempt int `json:"attempt"`
	// Attempts have finished, the oldest first; without their output.
	Attempts []Attempt `json:"attempts"`
}

// ProgressOf is the progress of a record's assignment.
func ProgressOf(r session.Record) AssignmentProgress {
	p := AssignmentProgress{AssignmentID: r.Assignment, Attempts: append([]Attempt{}, AttemptsOf(r)...)}
	for i := range p.Attempts {
		p.Attempts[i].Output = ""
	}
	if len(r.Rounds) == 0 {
		return p
	}
	last := r.Rounds[len(r.Rounds)-1]
	p.Pass, p.Round, p.Attempt = last.Pass, last.Round, len(last.Attempts)
	switch {
	case last.Result != nil:
		p.Attempt = last.Result.Attempts
	case !last.GaveUp:
		p.Attempt++ // under way, or about to be
	}
	return p
}

// Progress is the current progress of a session. Data that the store cannot read is left out.
func (s Sessions) Progress(ctx context.Context, sessionID string) (Progress, error) {
	p := Progress{Work: []AssignmentProgress{}, Reworks: []session.Rework{}, Needs: map[string][]string{}, Checks: []string{}}
	var err error
	p.Session, err = s.Read(ctx, sessionID)
	if s.Serves {
		p.Session.Course.Source = nil // a directory of somebody's machine
	}
	if err != nil || s.Store == nil {
		return p, err
	}
	s.addOutput(ctx, &p.Session)
	records, _ := s.Store.State.Records(ctx, s.key(sessionID))
	for _, record := range records {
		if as := p.Session.Assignment(record.Assignment); as != nil && as.Status != session.Pending {
			p.Work = append(p.Work, ProgressOf(record))
		}
	}
	if p.Session.Checkpoint == "" {
		return p, nil
	}
	c, err := s.Store.Checkpoint(ctx, p.Session.Checkpoint)
	if err != nil {
		return p, nil
	}
	p.Reworks = append(p.Reworks, c.Reworks...)
	if t, err := s.Store.Team(ctx, c.Team.Blob); err == nil {
		for _, phase := range t.Phases {
			p.Needs[phase.Name] = append([]string{}, phase.Needs...)
		}
		for _, use := range t.CheckUses() {
			if !slices.Contains(p.Checks, use.Check) {
				p.Checks = append(p.Checks, use.Check)
			}
		}
	}
	return p, nil
}

// maxHeadline limits the end of a live log in which its newest line is searched, in bytes.
const maxHeadline = 16 << 10

// addOutput sets the progress of attempts at work on this host to the newest line of their output:
// heartbeats deliver it some seconds later.
func (s Sessions) addOutput(ctx context.Context, v *sessionstatus.Session) {
	if len(v.Live) == 0 {
		return
	}
	logs := s.LiveLogs(ctx)
	for id, at := range v.Live {
		as := v.Assignment(id)
		f, err := logs.open(s.key(v.Session), Attempt{AttemptRef: AttemptRef{AssignmentID: id}, StartedAt: at.Since.Add(-clockSlack)})
		if err != nil {
			continue
		}
		if _, text, err := linesOf(f, -maxHeadline, maxHeadline); err == nil && as != nil {
			as.Progress = cmp.Or(headline(text), as.Progress)
		}
		_ = f.Close() // only read
	}
}

// headline is the newest line of an output that is understandable alone.
func headline(text string) string {
	for _, line := range slices.Backward(strings.Split(text, "\n")) {
		if line = safetext.Line(line); line != "" && !transcript.Belongs(line) {
			return strings.TrimPrefix(line, "-- ")
		}
	}
	return ""
}
