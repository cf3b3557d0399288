package control

import (
	"context"
	"fmt"
	"slices"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/ops/sessionstatus"
)

// resumeRunning continues a running session that is paused.
func (s Starts) resumeRunning(ctx context.Context, w *sessionstatus.Reader, in Resume) (doc Started, err error) {
	v, foreseen, err := s.paused(ctx, w, in)
	if err != nil {
		return doc, err
	}
	doc = Started{Foreseen: foreseen, RunID: v.RunID, Store: s.Store.ID(), Admitted: true}
	for _, phase := range foreseen.Continued {
		answered, err := goOn(ctx, w, v.Help, phase)
		if err != nil {
			return doc, err
		}
		doc.Admitted = doc.Admitted && answered
	}
	return doc, nil
}

// goOn answers the request of a phase after which a session is paused. Also while no worker runs, an earlier answer to it
// counts, and not this one.
func goOn(ctx context.Context, w *sessionstatus.Reader, open []session.Request, phase string) (accepted bool, err error) {
	i := slices.IndexFunc(open, func(h session.Request) bool { return h.Kind == session.ForApproval && h.Phase == phase })
	if i < 0 {
		return false, conflictf(w.Session, "session %s: the request of phase %s is not known yet; try again", w.Session, phase)
	}
	answer := session.Answer{Request: open[i].ID, Action: session.AnswerApprove, By: actor(ctx)}
	return sendAnswer(ctx, w.Conn, w.Session, answer, nil, nil)
}

// paused describes what resuming a running session does.
func (s Starts) paused(ctx context.Context, w *sessionstatus.Reader, in Resume) (v sessionstatus.Session, doc Foreseen,
	err error,
) {
	if v, err = w.Look(ctx); err != nil {
		return v, doc, s.asNotFound(ctx, w.Session, err)
	}
	if in.changes() {
		return v, doc, &Error{
			Problem{Kind: Conflict, Session: w.Session, Reason: AtWork, State: v.Status.Status},
			fmt.Errorf("session %s has not ended (%s), so its work cannot be changed; cancel it first", w.Session, v.Status.Status),
		}
	}
	doc = Foreseen{Session: w.Session, Run: v.Run, Continued: s.pausedAfter(ctx, v)}
	if len(doc.Continued) == 0 {
		if len(v.Help) > 0 {
			return v, doc, &Error{
				Problem{Kind: Conflict, Session: w.Session, Reason: AwaitsAnswer},
				fmt.Errorf("session %s is running and waits for an answer, which resuming it does not give", w.Session),
			}
		}
		doc.Unchanged = v.Status.Status
	}
	return v, doc, nil
}

// pausedAfter lists the phases after which a session is paused only because of its start options.
// Phases with approve in the team are not included: they need an approval.
func (s Starts) pausedAfter(ctx context.Context, v sessionstatus.Session) []string {
	var parked []string
	for _, p := range v.Phases {
		if p.Status == session.AwaitingApproval && !s.needsApproval(ctx, v.Session, p.Name) {
			parked = append(parked, p.Name)
		}
	}
	return parked
}

// needsApproval reports whether a phase of a session's team needs approval. If the team cannot be read, the result is true.
func (s Starts) needsApproval(ctx context.Context, sessionID, phase string) bool {
	k, err := s.keptTeam(ctx, sessionID)
	if err != nil {
		return true
	}
	p, ok := k.team.Phase(phase)
	return !ok || p.Approve.Wanted()
}
