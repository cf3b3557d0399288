package activities_test

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/session"
)

// boundary is what the workflow sends: the status as it knows it.
func (p *past) boundary() activities.Boundary {
	p.t.Helper()
	e, err := p.store.State.Execution(p.t.Context(), p.key())
	require.NoError(p.t, err)
	e.Checkpoint = p.head
	return activities.Boundary{At: time.Now().UTC().Truncate(time.Microsecond), Status: e.Status, FirstRun: testRun}
}

func (p *past) key() session.Key {
	return session.Key{Namespace: "default-test-namespace", Session: "default-test-workflow-id"}
}
