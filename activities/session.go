package activities

import (
	"context"
	"encoding/json"
	"fmt"

	"go.temporal.io/sdk/activity"

	"github.com/maestro-hive/maestro/internal/team"
)

// scene is what an activity knows of its session: a checkpoint, and the team
// that the checkpoint names.
type scene struct {
	key        team.SessionKey
	run        string
	checkpoint team.Checkpoint
	team       team.Team
}

// loadScene reads the checkpoint and its team from the store.
func loadScene(ctx context.Context, files Files, sessions Sessions, head team.Digest) (scene, error) {
	info := activity.GetInfo(ctx)
	s := scene{key: sessionKey(info), run: info.WorkflowExecution.RunID}
	var err error
	if s.checkpoint, err = sessions.Checkpoint(ctx, head); err != nil {
		return s, fmt.Errorf("read checkpoint %s: %w", head.Short(), err)
	}
	s.team, err = loadTeam(ctx, files, s.checkpoint.Team.Blob)
	return s, err
}

func sessionKey(info activity.Info) team.SessionKey {
	return team.SessionKey{Namespace: info.Namespace, Session: info.WorkflowExecution.ID}
}

func loadTeam(ctx context.Context, files Files, blob team.Digest) (team.Team, error) {
	var t team.Team
	data, err := files.Blob(ctx, blob)
	if err != nil {
		return t, fmt.Errorf("read team %s: %w", blob.Short(), err)
	}
	if err := json.Unmarshal(data, &t); err != nil {
		return t, fmt.Errorf("team %s: %w: %w", blob.Short(), team.ErrCorrupt, err)
	}
	return t, nil
}

// done indexes the finished assignments: the checkpoint's and, over them, more.
func (s scene) done(more []team.CheckpointAssignment) map[team.AssignmentID]team.CheckpointAssignment {
	done := map[team.AssignmentID]team.CheckpointAssignment{}
	for _, a := range s.checkpoint.Assignments {
		done[a.AssignmentID] = a
	}
	for _, a := range more {
		done[a.AssignmentID] = a
	}
	return done
}
