package cli

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/control"
	"github.com/maestro-hive/maestro/internal/safetext"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/sessionstatus"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/tui"
)

// sessionDetail has what `watch` shows of a session besides its status: the records of
// assignments, the phases' order, and the output of running attempts. It reads from the store,
// and only what has changed.
type sessionDetail struct {
	*lookout
	digest     spec.Digest // of the checkpoint that was read
	revision   int64       // of the status document when records were read
	checkpoint session.Checkpoint
	needs      map[string][]string
	work       map[spec.AssignmentID]workDone
	webUI      string
	live       map[spec.AssignmentID]*control.Tail
}

// workDone summarizes the attempts of an assignment's record.
type workDone struct {
	pass, round, attempt int
	worked               time.Duration
	// began and ended are those of the first and the last finished attempt.
	began, ended time.Time
	finished     bool // the last round has its result
	// started is when the first attempt of the pass began, roundStarted that of the last
	// round, and done when the work was; zero where that is not known. failed are the failed
	// ones of the attempts of agents, oldest first.
	started, roundStarted, done time.Time
	attempts, failed            []control.Attempt
}

// failure returns a failed attempt; n counts from the last one. It is zero where it is not known.
func (w workDone) failure(n int) control.Attempt {
	if i := len(w.failed) - 1 - n; i >= 0 && n >= 0 {
		return w.failed[i]
	}
	return control.Attempt{}
}

// readWork reads the records of assignments: those of unfinished assignments each time, the
// others if the status document has changed. Unreadable records are omitted.
func (c *sessionDetail) readWork(ctx context.Context, v sessionstatus.Session) {
	if c.watcher.Store == nil {
		return
	}
	changed := v.Revision != c.revision || c.work == nil
	if changed {
		c.work, c.revision = map[spec.AssignmentID]workDone{}, v.Revision
		c.readWebUI(ctx)
	}
	for _, p := range v.Phases {
		for _, as := range p.Assignments {
			if as.Status == session.Pending || as.Status.Done() && !changed && c.finished(spec.AssignmentID{Phase: p.Name, Persona: as.Persona}) {
				continue
			}
			id := spec.AssignmentID{Phase: p.Name, Persona: as.Persona}
			if r, err := c.watcher.Store.Record(c.watcher.Key(), id); err == nil {
				c.work[id] = workDoneIn(control.ProgressOf(r))
			}
		}
	}
}

// finished reports whether the last record that was read of an assignment has its result.
func (c *sessionDetail) finished(id spec.AssignmentID) bool {
	w, known := c.work[id]
	return !known || w.finished
}

// readWebUI reads the address of the Web UI from the live workers' offers.
func (c *sessionDetail) readWebUI(ctx context.Context) {
	offers, _ := c.watcher.Store.Offers(ctx)
	for _, o := range offers {
		if o.WebUI != "" && o.Live(c.now()) {
			c.webUI = strings.TrimRight(o.WebUI, "/")
		}
	}
}

// readCheckpoint reads the newest checkpoint and its team. On an error the previous one is kept.
func (c *sessionDetail) readCheckpoint(ctx context.Context, name spec.Digest) {
	if c.watcher.Store == nil || name == "" || name == c.digest {
		return
	}
	found, err := c.watcher.Store.Checkpoint(ctx, name)
	if err != nil {
		return
	}
	c.digest, c.checkpoint = name, found
	t, err := c.watcher.Store.Team(ctx, found.Team.Blob)
	if err != nil {
		return
	}
	c.needs = map[string][]string{}
	for _, p := range t.Phases {
		c.needs[p.Name] = p.Needs
	}
}

// workDoneIn summarizes the attempts of an assignment.
func workDoneIn(p control.AssignmentProgress) workDone {
	w := workDone{pass: p.Pass, round: p.Round, attempt: p.Attempt, finished: p.Finished, attempts: p.Attempts}
	for _, at := range p.Attempts {
		w.worked += at.Worked(at.StartedAt)
		if w.began.IsZero() {
			w.began = at.StartedAt
		}
		w.ended = at.Ended()
	}
	w.times(p.Attempts)
	if n := len(p.Attempts); n > 0 { // the present round may have no attempt that has ended
		switch last := p.Attempts[n-1]; {
		case last.Pass != p.Pass:
			w.started, w.roundStarted, w.done = time.Time{}, time.Time{}, time.Time{}
		case last.Round != p.Round:
			w.roundStarted = time.Time{}
		}
	}
	return w
}

// times sets the times from attempts, oldest first.
func (w *workDone) times(attempts []control.Attempt) {
	for i, at := range attempts {
		if i == 0 || at.Pass != attempts[i-1].Pass {
			w.started, w.done = at.StartedAt, time.Time{}
		}
		if i == 0 || at.Pass != attempts[i-1].Pass || at.Round != attempts[i-1].Round {
			w.roundStarted = at.StartedAt
		}
		switch {
		case at.Status != session.Failed:
			w.done = at.Ended()
		case !at.Supplied: // else no attempt of the assignment's has failed
			w.failed = append(w.failed, at)
		}
	}
}

// passes returns the current pass of each assignment and, under an id without a persona, of
// each phase.
func (c *sessionDetail) passes(ctx context.Context, v sessionstatus.Session) map[spec.AssignmentID]int {
	if c.watcher == nil {
		c.readProgress()
	} else {
		c.readCheckpoint(ctx, v.Checkpoint)
		c.readWork(ctx, v)
	}
	passes := map[spec.AssignmentID]int{}
	for _, p := range v.Phases {
		phase := spec.AssignmentID{Phase: p.Name}
		passes[phase] = c.checkpoint.SentBack(p.Name, time.Time{}) + 1 // its records may have yet to begin
		for _, as := range p.Assignments {
			id := spec.AssignmentID{Phase: p.Name, Persona: as.Persona}
			passes[id] = c.work[id].pass
			if _, atWork := v.Live[id]; atWork && c.work[id].finished { // the record gets the round when it ends
				passes[id] = max(passes[id], c.checkpoint.SentBack(p.Name, time.Time{})+1)
			}
			passes[phase] = max(passes[phase], passes[id])
		}
	}
	return passes
}

// view returns the session as the live view shows it.
func (c *sessionDetail) view(ctx context.Context, g *guide, v sessionstatus.Session) tui.Session {
	c.followOutput(ctx, v)
	passes := c.passes(ctx, v)
	s := tui.Session{
		ID: v.Session, Team: v.Team, State: v.Status.Status, Incarnation: v.Incarnation, Requirement: v.Requirement,
		Usage: v.Usage, Limit: v.Limit, Spent: v.Spent, Reason: v.Reason,
	}
	if v.StartedAt != nil {
		s.Started = *v.StartedAt
	}
	if v.ClosedAt != nil {
		s.Closed = *v.ClosedAt
	}
	if c.webUI != "" {
		s.WebUI = c.webUI + "/namespaces/" + url.PathEscape(c.watcher.Key().Namespace) + "/workflows/" + url.PathEscape(c.session)
	}
	var waits []string
	for i, p := range v.Phases {
		phase := tui.Phase{Name: p.Name, State: p.Status, SentBack: c.checkpoint.SentBack(p.Name, timeOf(v.StartedAt)), Left: !v.Course.Selects(p.Name)}
		if needs, ok := c.needs[p.Name]; ok {
			phase.Needs = needs
		} else if i > 0 { // the graph is unknown
			phase.Needs = []string{v.Phases[i-1].Name}
		}
		for _, as := range p.Assignments {
			phase.Assignments = append(phase.Assignments, c.viewAssignment(v, p.Name, as, passes))
			if p.Status == session.Pending && as.Status == session.Running {
				phase.State = session.Running // the status document follows
			}
			if as.Awaits != nil {
				waits = append(waits, as.Awaits.String())
			}
		}
		if p.Status == session.Running && waitsForPerson(p) {
			phase.State = session.HelpIsNeeded
		}
		s.Phases = append(s.Phases, phase)
	}
	for _, note := range notesOf(v) {
		if !slices.ContainsFunc(waits, func(w string) bool { return strings.Contains(note, w) }) { // the view lists breakers itself
			s.Notes = append(s.Notes, note)
		}
	}
	s.Requests, s.Budgets = g.viewRequests(v.Status), ownBudget(v)
	return s
}

// waitsForPerson reports whether all unfinished work of a phase waits for a person.
func waitsForPerson(p session.PhaseStatus) bool {
	still := false
	for _, as := range p.Assignments {
		if as.Status == session.Running || as.Status == session.Waiting {
			return false
		}
		still = still || as.Status == session.HelpIsNeeded
	}
	return still
}

func (c *sessionDetail) viewAssignment(v sessionstatus.Session, phase string, as session.AssignmentStatus, passes map[spec.AssignmentID]int) tui.Assignment {
	id := spec.AssignmentID{Phase: phase, Persona: as.Persona}
	work, known := c.work[id]
	if !known {
		work = workDone{round: as.Rounds, attempt: min(as.Attempts, 1)}
	}
	out := tui.Assignment{
		Persona: as.Persona, State: as.Status, Agent: as.Agent, Pass: passes[id], Round: work.round, Attempt: work.attempt, Worked: work.worked,
		Usage: as.Usage, Progress: as.Progress, Summary: as.Summary, Failures: as.Failures, LostWorkers: as.LostWorkers, Awaits: as.Awaits,
	}
	if at, ok := v.Live[id]; ok {
		out.Since, out.Live = at.Since, c.output(id, at)
		if out.Pass > work.pass {
			out.Round, out.Attempt = 1, 1
		}
		out.Round = max(out.Round, 1) // the record may be a moment behind
		out.Attempt = cmp.Or(at.Number, max(out.Attempt, 1))
	}
	if as.Status == session.Pending {
		out.Pass, out.Round, out.Attempt = 0, 0, 0
	}
	return out
}

// viewRequests lists the open requests with the commands that answer them. For a session
// that ended without completing it has the command that resumes it.
func (g *guide) viewRequests(s session.Status) []tui.Request {
	goOn := tui.Command{Text: g.target.commandLine("resume " + s.Session), Does: "resumes with the finished work restored"}
	var all []tui.Request
	for _, h := range s.Help {
		r := tui.Request{Title: h.Subject() + " " + h.Need() + ": " + messageOf(h), Until: h.Until}
		for _, w := range h.Commands(s.Session, s.Help) {
			r.Commands = append(r.Commands, tui.Command{Text: g.target.commandLine(w.Line), Does: w.Does})
		}
		if s.Status.Closed() {
			r.Commands = []tui.Command{goOn}
		} else {
			addKeyActions(&r, h)
		}
		all = append(all, r)
	}
	switch {
	case len(all) > 0:
	case s.Status == session.AwaitingApproval:
		for _, p := range s.Phases {
			if p.Status == session.AwaitingApproval {
				all = append(all, tui.Request{
					Title:    "phase " + p.Name + " is done; the session pauses after it (--pause-after)",
					Commands: []tui.Command{{Text: g.target.commandLine("resume " + s.Session), Does: "continues the session"}},
				})
			}
		}
	case s.Status == session.Failed, s.Status == session.WasCancelled:
		title := safetext.Line(s.Reason)
		if title == "" {
			title = "the session ended without completing"
		}
		all = append(all, tui.Request{Title: title, Commands: []tui.Command{goOn}})
	}
	return all
}
