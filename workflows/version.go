package workflows

import (
	"fmt"

	"go.temporal.io/sdk/workflow"
)

// LogicVersion is the version of the logic that new sessions run with. A change of the
// commands that a session issues raises it by one, and asks [since] for the number: sessions
// that began before keep the logic that they began with, however long they wait. In place of
// workflow.GetVersion, which adds an event for each change to each session, the input has
// the number once.
const LogicVersion = 1

type versionKey struct{}

// withVersion has everything under a context run with the logic of a version. It panics if
// this code does not know the version: the workflow task is tried again until a worker
// takes it that does.
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
