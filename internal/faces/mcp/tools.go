package mcp

import (
	"context"
	"time"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/faces/httpapi"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/ops/sessionstatus"
)

// The limits of what one call returns or waits for.
const (
	maxFiles   = 200
	maxDiff    = 200 << 10
	maxOutput  = 64 << 10
	maxWait    = 5 * time.Minute
	usualWait  = time.Minute
	lookPause  = time.Second
	usualLimit = 20
)

type listInput struct {
	Team   string            `json:"team,omitempty" jsonschema:"only sessions of this team"`
	Status string            `json:"status,omitempty" jsonschema:"only sessions in this state: admitted, running, waiting_breaker, help_needed, awaiting_approval, completed, failed or cancelled"`
	Labels map[string]string `json:"labels,omitempty" jsonschema:"only sessions with these labels"`
	Cursor string            `json:"cursor,omitempty" jsonschema:"continue after the page that ended with this cursor"`
	Limit  int               `json:"limit,omitempty" jsonschema:"how many at most, 1 to 200; 20 if left out"`
}

type waitInput struct {
	httpapi.OfSession
	Seconds int `json:"seconds,omitempty" jsonschema:"how long to wait at most, 1 to 300; 60 if left out"`
}

// waited is the state of a session after a wait.
type waited struct {
	sessionstatus.Document
	// Ready: the session has ended, or waits for a person. Otherwise the time was over.
	Ready bool `json:"ready"`
}

func (t tools) sessions(s control.Sessions) {
	reads(t, "list_sessions", "List sessions, newest first.", func(ctx context.Context, in listInput) (control.SessionList, error) {
		if in.Limit == 0 {
			in.Limit = usualLimit
		}
		f := control.SessionFilter{Team: in.Team, Status: session.State(in.Status), Cursor: in.Cursor, Limit: min(in.Limit, 200)}
		for key, value := range in.Labels {
			f.Labels = append(f.Labels, key+"="+value)
		}
		return s.List(ctx, f)
	})
	reads(t, "read_session", "Read a session's status: its phases, assignments, cost, decisions, open requests, and what people did to its course.",
		func(ctx context.Context, in httpapi.OfSession) (sessionstatus.Document, error) {
			v, err := s.Status(ctx, in.Session)
			return v.Document(), err
		})
	reads(t, "wait_session", "Wait until a session has ended or waits for a person, and read its status. Call it again while ready is false.",
		func(ctx context.Context, in waitInput) (waited, error) {
			limit := min(time.Duration(in.Seconds)*time.Second, maxWait)
			if in.Seconds <= 0 {
				limit = usualWait
			}
			return wait(ctx, s, in.Session, limit)
		})
	is(t, "cancel_session", "Cancel a session: its agents are stopped, finished work stays.", httpapi.CancelSession)
}

// wait looks at a session until it is ready or the time is over.
func wait(ctx context.Context, s control.Sessions, sessionID string, limit time.Duration) (waited, error) {
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ticker := time.NewTicker(lookPause)
	defer ticker.Stop()
	for {
		v, err := s.Read(ctx, sessionID)
		if err != nil {
			return waited{}, err
		}
		if ready(v.Status) || bounded.Err() != nil {
			v, err = s.Status(ctx, sessionID)
			return waited{v.Document(), ready(v.Status)}, err
		}
		select {
		case <-bounded.Done():
		case <-ticker.C:
		}
	}
}

// ready reports whether a session has ended, or waits for a person.
func ready(v session.Status) bool {
	for _, h := range v.Help {
		if !h.Kind.NoticeOnly() {
			return true
		}
	}
	return v.Status.Closed()
}

type answerInput struct {
	httpapi.OfSession
	Request string `json:"request" jsonschema:"the request's id"`
	Action  string `json:"action" jsonschema:"one of the request's actions: retry, skip or abort; approve or reject"`
	Note    string `json:"note,omitempty" jsonschema:"the reason, for the agents that work next; needed to reject"`
}

func (t tools) requests(r control.Requests) {
	is(t, "list_requests", "List what waits for a person, over all sessions: the kind, since when, the cost, and the actions that answer it.",
		httpapi.ListRequests)
	changes(t, "answer_request", "Answer an open request of a session.",
		func(ctx context.Context, in answerInput) (control.Answered, error) {
			return r.Answer(ctx, control.AnswerInput{Session: in.Session, Request: in.Request, Body: control.Answer{Action: session.Action(in.Action), Note: in.Note}})
		})
}

type diffInput struct {
	httpapi.OfSession
	Phase string   `json:"phase,omitempty" jsonschema:"the phase whose changes are shown, or A..B for the trees after two phases; all changes if left out"`
	With  string   `json:"with,omitempty" jsonschema:"another session, OTHER or OTHER:PHASE, to compare with"`
	Paths []string `json:"paths,omitempty" jsonschema:"only these files, directories or patterns"`
	Stat  bool     `json:"stat,omitempty" jsonschema:"only the names of files and counts of lines"`
}

func (t tools) reviews(r control.Reviews) {
	reads(t, "diff", "Show what a session, or a phase of it, changed, as a patch for each file.",
		func(ctx context.Context, in diffInput) (control.Diff, error) {
			return r.Diff(ctx, control.DiffInput{
				Session: in.Session, Which: in.Phase, With: in.With, Paths: in.Paths, Stat: in.Stat, MaxFiles: maxFiles, MaxBytes: maxDiff,
			})
		})
	is(t, "list_artifacts", "List the files that a session's phases have created or changed.", httpapi.ListArtifacts)
}

type attemptsInput struct {
	httpapi.OfSession
	Select string `json:"select,omitempty" jsonschema:"PHASE or PHASE/PERSONA; all if left out"`
}

type logInput struct {
	httpapi.OfSession
	Phase   string `json:"phase"`
	Persona string `json:"persona"`
	Round   int    `json:"round"`
	Attempt int    `json:"attempt"`
	From    int64  `json:"from,omitempty" jsonschema:"the offset in bytes to read from; negative: so many bytes before the end"`
}

func (t tools) attempts(a control.Attempts) {
	reads(t, "list_attempts", "List what agents have tried in a session: finished attempts with their outcome and cost, and those at work.",
		func(ctx context.Context, in attemptsInput) (control.AttemptList, error) {
			return a.List(ctx, control.AttemptFilter{Session: in.Session, Assignment: control.Select(in.Select)})
		})
	reads(t, "read_log", "Read a part of the transcript of a finished attempt, 64 KiB at most.",
		func(ctx context.Context, in logInput) (control.TranscriptRange, error) {
			id := control.AttemptInput{Session: in.Session, Phase: in.Phase, Persona: in.Persona, Round: in.Round, Attempt: in.Attempt}
			return a.Range(ctx, control.RangeInput{AttemptInput: id, From: in.From, Limit: maxOutput})
		})
}
