package workflows

import (
	"fmt"

	"go.temporal.io/sdk/workflow"
)

// LogicVersion is the version of the logic that new sessions run with. A change of the
// commands that a session issues raises it by one, and is gated by [since]: sessions that
// began before keep the logic with which they began. The number is in the input once.
// workflow.GetVersion would add an event for each change to each session instead.
const LogicVersion = 1

type versionKey struct{}

// withVersion returns a context for code that runs with the logic of a version. It panics if
// this code does not have the version: then Temporal retries the workflow task until a newer
// worker executes it.
func withVersion(ctx workflow.Context, version int) workflow.Context {
	if version > LogicVersion {
		panic(fmt.Sprintf("the session runs with version %d of the session logic, and this worker knows versions up to %d: upgrade the worker", version, LogicVersion))
	}
	return workflow.WithValue(ctx, versionKey{}, version)
}

// since reports whether the session began with a version of the logic that has a change. It
// is the gate of that change: `if since(ctx, 2) { … }`.
func since(ctx workflow.Context, version int) bool {
	began, _ := ctx.Value(versionKey{}).(int)
	return began >= version
}
