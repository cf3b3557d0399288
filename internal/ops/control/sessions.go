package control

import (
	"context"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/ops/sessionstatus"
)

// Sessions are the sessions of a namespace.
type Sessions struct{ *Base }

// Read is the current state of a session.
func (s Sessions) Read(ctx context.Context, sessionID string) (sessionstatus.Session, error) {
	w, err := s.reader(sessionID)
	if err != nil {
		return sessionstatus.Session{}, err
	}
	if err := s.may(ctx, access.View, sessionID); err != nil {
		return sessionstatus.Session{}, err
	}
	v, err := w.Look(ctx)
	return v, s.asNotFound(ctx, sessionID, err)
}

// Cancellation is the document of a cancelled session.
type Cancellation struct {
	Session string `json:"session"`
	RunID   string `json:"run_id"`
	// Requested is always true: the session ends after its agents have stopped.
	Requested bool `json:"requested"`
}

// Cancel ends a session: its agents are stopped, and finished work is kept. A session whose workflow task keeps failing
// cannot act on that: it is terminated.
func (s Sessions) Cancel(ctx context.Context, sessionID string) (doc Cancellation, err error) {
	w, err := s.reader(sessionID)
	if err != nil {
		return doc, err
	}
	err = s.change(ctx, access.Operate, sessionID, access.Event{Action: "session.cancel"}, func(ctx context.Context) error {
		info, err := s.describeRunning(ctx, w)
		if err != nil {
			return err
		}
		doc = Cancellation{sessionID, info.GetExecution().GetRunId(), true}
		if stuck, err := w.Stuck(ctx); err == nil && stuck != "" {
			return w.Conn.TerminateWorkflow(ctx, sessionID, "", "cancelled; "+stuck)
		}
		return w.Conn.CancelWorkflow(ctx, sessionID, "") // an empty run id: it may have continued as new since
	})
	return doc, err
}
