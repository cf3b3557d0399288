package activities

import (
	"context"
	"fmt"

	"go.temporal.io/sdk/activity"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// sessionContext is the loaded state of an activity's session: a checkpoint, and the team
// that the checkpoint names.
type sessionContext struct {
	key        session.Key
	checkpoint session.Checkpoint
	team       spec.Team
}

// loadSessionContext reads the checkpoint and its team from the store.
func loadSessionContext(ctx context.Context, sessions Sessions, head spec.Digest) (sessionContext, error) {
	info := activity.GetInfo(ctx)
	s := sessionContext{key: sessionKey(info)}
	var err error
	if s.checkpoint, err = sessions.Checkpoint(ctx, head); err != nil {
		return s, fmt.Errorf("read checkpoint %s: %w", head.Short(), err)
	}
	s.team, err = sessions.Team(ctx, s.checkpoint.Team.Blob)
	return s, err
}

func sessionKey(info activity.Info) session.Key {
	return session.Key{Namespace: info.Namespace, Session: info.WorkflowExecution.ID}
}

// done indexes the finished assignments: the checkpoint's and, over them, more.
func (s sessionContext) done(more []session.CheckpointAssignment) map[spec.AssignmentID]session.CheckpointAssignment {
	done := map[spec.AssignmentID]session.CheckpointAssignment{}
	for _, a := range s.checkpoint.Assignments {
		done[a.AssignmentID] = a
	}
	for _, a := range more {
		done[a.AssignmentID] = a
	}
	return done
}
