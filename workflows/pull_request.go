package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// PullRequestSignal reports to a session that something has happened to the pull request of a phase. Its argument is a
// [PullRequestNews]. The session looks at once; without the signal it looks later by itself.
const PullRequestSignal = "pull-request"

// PullRequestNews names the phase whose pull request has changed.
type PullRequestNews struct {
	Phase string `json:"phase"`
}

// wakeAfter is how long news of a pull request are collected before the session looks: a host sends several at a time, and each
// look adds to the history.
const wakeAfter = 5 * time.Second

// wakeDelivery ends the wait of a phase that delivers.
func (s *sessionRun) wakeDelivery(ctx workflow.Context, news PullRequestNews) {
	id := spec.AssignmentID{Phase: news.Phase, Persona: spec.DeliveryPersona}
	state := s.Schedule.assignment(id)
	if state == nil || state.waking || s.Status.Assignment(id).Status == session.Completed {
		return
	}
	state.waking = true
	workflow.Go(ctx, func(ctx workflow.Context) {
		if pause(ctx, wakeAfter, "news of the pull request of "+news.Phase) == nil {
			state.wake = true
		}
		state.waking = false
	})
}
