package control

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/ops/sessionstatus"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// Requests are the open requests of sessions to people.
type Requests struct{ *Base }

// Inbox is all open requests.
type Inbox struct {
	// Waiting has the open requests, oldest first, and after them the notices of outages, which
	// need no answer.
	Waiting []InboxEntry `json:"waiting"`
	// Left counts the requests beyond the limit of the filter.
	Left int `json:"left,omitempty"`
}

// InboxFilter selects open requests.
type InboxFilter struct {
	Team  string              `query:"team" maxLength:"100" doc:"only requests of sessions of this team"`
	Kind  session.RequestKind `query:"kind" enum:"help,budget,outage,approval" doc:"only requests of this kind"`
	Limit int                 `query:"limit" minimum:"1" maximum:"1000" doc:"how many at most; all if left out"`
	Brief bool                `query:"brief" doc:"shorten texts, and leave out failed attempts, advice and commands"`
}

// apply selects of the requests.
func (f InboxFilter) apply(doc *Inbox) {
	doc.Waiting = slices.DeleteFunc(doc.Waiting, func(e InboxEntry) bool {
		return f.Team != "" && e.Team != f.Team || f.Kind != "" && e.Kind != f.Kind
	})
	if f.Limit > 0 && len(doc.Waiting) > f.Limit {
		doc.Left = len(doc.Waiting) - f.Limit
		doc.Waiting = doc.Waiting[:f.Limit]
	}
	for i := range doc.Waiting {
		if e := &doc.Waiting[i]; f.Brief {
			e.Message, e.Requirement, e.Summary = textfmt.Shorten(e.Message, maxBrief), textfmt.Shorten(e.Requirement, maxBrief),
				textfmt.Shorten(e.Summary, maxBrief)
			e.Attempts, e.Suggestion, e.Command, e.SkipEffect, e.Choices, e.Commands = []session.AttemptFailure{}, "", "", "",
				[]session.Choice{}, []string{}
		}
	}
}

// maxBrief is how many bytes of a text a brief answer has.
const maxBrief = 200

// InboxEntry is an open request of a session for a person.
type InboxEntry struct {
	Session string        `json:"session"`
	Team    string        `json:"team"`
	Status  session.State `json:"status"`
	Store   string        `json:"store"`
	// Request has no id if only the session's state is known, because its store is not available.
	session.Request
	// Requirement is the beginning of the session's.
	Requirement string `json:"requirement,omitempty"`
	// Summary is what the agents say of the work that the request is about, and Files is how many files
	// this work changed; both are empty for work that is not done.
	Summary string `json:"summary,omitempty"`
	Files   int    `json:"files,omitempty"`
	// Redone: the work of the phase was sent back before, and has been done again.
	Redone bool `json:"redone,omitempty"`
	// Also are the other requests that wait for the same budget. They have no entries of their own:
	// one raise answers all of them.
	Also []RequestRef `json:"also,omitempty"`
	// Choices are the answers that the caller can give, the most common first.
	Choices []session.Choice `json:"choices"`
	// Usage is the session's so far.
	Usage cost.Usage `json:"usage"`
	// Lost: Temporal no longer has the session. It accepts no answer before it is resumed.
	Lost bool `json:"lost,omitempty"`
	// Stuck: the session makes no progress, whatever is answered. The entry is no request.
	Stuck bool `json:"stuck,omitempty"`
	// Commands are the commands that answer it. The one that continues the session is first.
	Commands []string `json:"commands"`
}

// RequestRef names a request of the same session, and whose work it is about.
type RequestRef struct {
	ID string `json:"id"`
	spec.AssignmentID
}

// NoticeOnly reports whether the entry is a notice only: the session continues by itself.
func (e InboxEntry) NoticeOnly() bool { return e.Kind.NoticeOnly() }

// Inbox lists open requests of all sessions. It needs no worker.
func (r Requests) Inbox(ctx context.Context, f InboxFilter) (Inbox, error) {
	doc := Inbox{Waiting: []InboxEntry{}}
	if err := access.Check(ctx, access.View, access.NoTeam); err != nil {
		return doc, err
	}
	var running []ListedSession
	var err error
	if conn := r.conn(); conn != nil {
		if running, err = visible(ctx, conn, allSessions, "ExecutionStatus = 'Running'"); err != nil {
			return doc, err
		}
	}
	if doc.Waiting, err = r.inThisStore(ctx, running); err != nil {
		return doc, err
	}
	doc.Waiting = Together(append(doc.Waiting, r.onlyInTemporal(ctx, running)...))
	slices.SortStableFunc(doc.Waiting, func(x, y InboxEntry) int {
		if x.NoticeOnly() == y.NoticeOnly() {
			return x.Since.Compare(y.Since)
		}
		if x.NoticeOnly() {
			return 1
		}
		return -1
	})
	for i, e := range doc.Waiting {
		doc.Waiting[i].Choices = ChoicesFor(ctx, e.Quorum, e.Choices)
	}
	f.apply(&doc)
	return doc, nil
}

// inThisStore are the open requests of the store's sessions, of which Temporal, if it can be reached, confirms
// that they run. `checkpoints verify` reports sessions that cannot be read.
func (r Requests) inThisStore(ctx context.Context, running []ListedSession) ([]InboxEntry, error) {
	known, err := r.Store.State.Sessions(ctx, state.Filter{Namespace: r.Namespace, Status: session.OpenStates})
	if err != nil {
		return nil, err
	}
	entries, may := []InboxEntry{}, access.Visible(ctx)
	for _, s := range known {
		if !may(s.Team) {
			continue
		}
		e, err := r.Store.State.Execution(ctx, s.Key)
		if err != nil || e.Status.Status.Closed() {
			continue
		}
		runs, lost, err := r.confirm(ctx, e, running)
		if err != nil {
			return nil, err
		}
		if !runs && !lost {
			continue
		}
		status := e.Status
		if a, err := r.Store.State.Account(ctx, s.Key); err == nil {
			status = a.AddTo(status)
		}
		for _, h := range status.Help {
			entry := EntryOf(status, h)
			entry.Store, entry.Requirement = r.Store.ID(), s.Requirement
			if lost {
				entry.Lost, entry.Commands, entry.Choices, entry.Raise = true, []string{"maestro resume " + s.Session}, []session.Choice{},
					nil
			}
			entries = append(entries, entry)
		}
	}
	return entries, nil
}

// confirm reports whether Temporal has the run of a session that its store has, and whether it has lost the
// session. Temporal's list of running sessions may be late.
func (r Requests) confirm(ctx context.Context, e session.Execution, running []ListedSession) (runs, lost bool, err error) {
	if r.conn() == nil || slices.ContainsFunc(running, func(l ListedSession) bool { return l.Session == e.Session }) {
		return true, false, nil
	}
	w, err := r.reader(e.Session)
	if err != nil {
		return false, false, err
	}
	info, err := w.Describe(ctx)
	if errors.Is(err, sessionstatus.ErrUnknown) {
		return false, true, nil
	}
	return info.GetCloseTime() == nil && info.GetExecution().GetRunId() == e.RunID, false, err
}

// stuckSessions is how many sessions that make no progress an inbox has.
const stuckSessions = 20

// onlyInTemporal are entries of running sessions of which only Temporal says that they wait for a person, or
// that they make no progress although they have workers: see [sessionstatus.Reader.Stuck].
func (r Requests) onlyInTemporal(ctx context.Context, running []ListedSession) (entries []InboxEntry) {
	may, stuck := access.Visible(ctx), 0
	for _, l := range running {
		if !may(l.Team) {
			continue
		}
		entry := InboxEntry{
			Session: l.Session, Team: l.Team, Status: l.Status, Store: l.Store, Usage: l.usage, Choices: []session.Choice{},
			Request: session.Request{Kind: session.ForHelp, Message: l.reason}, Commands: []string{"maestro status " + l.Session},
		}
		if l.failing && stuck < stuckSessions {
			if why := r.stuck(ctx, l.Session); why != "" {
				halted := entry
				halted.Stuck, halted.Message = true, why
				entries, stuck = append(entries, halted), stuck+1
			}
		}
		if l.Status == session.AwaitingApproval {
			entry.Kind = session.ForApproval
		}
		if (l.Status == session.HelpIsNeeded || l.Status == session.AwaitingApproval) && !r.keeps(ctx, l) {
			entries = append(entries, entry)
		}
	}
	return entries
}

// stuck describes why a session makes no progress; empty: it does, or nobody knows.
func (r Requests) stuck(ctx context.Context, sessionID string) string {
	w, err := r.reader(sessionID)
	if err != nil {
		return ""
	}
	why, _ := w.Stuck(ctx)
	return why
}

// keeps reports whether the store has a session from Temporal's list.
func (r Requests) keeps(ctx context.Context, l ListedSession) bool {
	if l.Store != r.Store.ID() {
		return false
	}
	_, err := r.Store.State.Execution(ctx, r.key(l.Session))
	return err == nil
}

// EntryOf is the entry of a session's request.
func EntryOf(s session.Status, h session.Request) InboxEntry {
	e := InboxEntry{
		Session: s.Session, Team: s.Team, Status: s.Status, Request: h, Choices: h.Choices(), Usage: s.Usage,
		Commands: []string{},
	}
	for _, c := range h.Commands(s.Session, s.Help) {
		e.Commands = append(e.Commands, "maestro "+c.Line)
	}
	var summaries []string
	for _, p := range s.Phases {
		e.Redone = e.Redone || p.Name == h.Phase && p.SentBack && h.Kind.OfPhase()
		for _, a := range p.Assignments {
			if p.Name != h.Phase || h.Persona != "" && a.Persona != h.Persona {
				continue
			}
			if e.Files += a.Files; a.Summary != "" {
				summaries = append(summaries, a.Summary)
			}
		}
	}
	e.Summary = strings.Join(summaries, "\n")
	return e
}

// EntriesOf are the entries of a session's open requests.
func EntriesOf(s session.Status) (entries []InboxEntry) {
	for _, h := range s.Help {
		entries = append(entries, EntryOf(s, h))
	}
	return Together(entries)
}

// Together has one entry for all requests of a session that wait for the same budget: the first.
func Together(entries []InboxEntry) []InboxEntry {
	type cause struct {
		session string
		budget  session.BudgetRaise
	}
	first, out := map[cause]int{}, entries[:0:0]
	for _, e := range entries {
		if e.Raise == nil {
			out = append(out, e)
			continue
		}
		of := cause{e.Session, *e.Raise}
		if at, known := first[of]; known {
			out[at].Also = append(out[at].Also, RequestRef{e.ID, spec.AssignmentID{Phase: e.Phase, Persona: e.Persona}})
			continue
		}
		first[of] = len(out)
		out = append(out, e)
	}
	return out
}

func timeOf(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}
