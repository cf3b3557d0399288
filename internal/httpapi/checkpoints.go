package httpapi

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"github.com/maestro-hive/maestro/internal/control"
	"github.com/maestro-hive/maestro/internal/store"
)

// ofCheckpoint is the input of an operation on a checkpoint.
type ofCheckpoint struct {
	Session    string `path:"session" maxLength:"200" doc:"the session's id"`
	Checkpoint string `path:"checkpoint" maxLength:"200" doc:"the phase that it was taken after, or the beginning of its digest"`
}

func checkpoints(api huma.API, c control.Checkpoints) {
	register(api, operation("GET /sessions/{session}/checkpoints", "list-checkpoints", "List a session's checkpoints, newest first"),
		func(ctx context.Context, in *ofSession) (control.CheckpointList, error) {
			return c.List(ctx, in.Session)
		})
	register(api, operation("GET /sessions/{session}/checkpoints/{checkpoint}", "read-checkpoint", "Read a checkpoint"),
		func(ctx context.Context, in *ofCheckpoint) (control.ShownCheckpoint, error) {
			return c.Read(ctx, in.Session, in.Checkpoint)
		})
	register(api, operation("POST /sessions/{session}/checkpoints/verify", "verify-checkpoints", "Compare a session's data with their digests, and repair what can be repaired"),
		func(ctx context.Context, in *ofSession) (store.Report, error) { return c.Verify(ctx, in.Session) })
}
