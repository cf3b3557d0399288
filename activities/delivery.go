package activities

import (
	"slices"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// delivery describes to the agent what it delivers; nil if the phase does not deliver.
func (a *attempt) delivery(d *spec.Deliver) *session.DeliveryJob {
	if d == nil {
		return nil
	}
	fence := a.rows.opened.Fence
	return &session.DeliveryJob{
		AssignmentID: a.in.AssignmentID, Deliver: *d, Key: a.session.key, Run: fence.Run, Holder: fence.Holder,
		Pass:       a.rows.opened.Order.Pass,
		Checkpoint: a.session.checkpoint, Head: a.in.Head, Source: a.in.Source, Because: a.in.Because, Checks: checksOf(a.session.team),
	}
}

// checksOf lists the team's checks, each once.
func checksOf(t spec.Team) (names []string) {
	for _, use := range t.CheckUses() {
		names = append(names, use.Check)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
