package workflows

import "fmt"

// LogicVersion is the version of the logic that new sessions run with. A change of the
// commands that a session issues raises it by one, and is gated by the version in the session's input,
// `if s.in.Version >= 2 { … }`: sessions that began before keep the logic with which they began. The number
// is in the input once; workflow.GetVersion would add an event for each change to each session instead.
const LogicVersion = 1

// requireVersion panics if this code does not have a version of the logic: then Temporal retries the
// workflow task until a newer worker executes it.
func requireVersion(version int) {
	if version > LogicVersion {
		panic(fmt.Sprintf("the session runs with version %d of the session logic, and this worker knows versions up to %d: upgrade the worker", version, LogicVersion))
	}
}
