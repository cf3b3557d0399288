package state_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/store/state"
	"github.com/maestro-hive/maestro/internal/store/state/statetest"
)

// TestSQLite runs the suite on a file of its own for each test.
func TestSQLite(t *testing.T) {
	t.Parallel()
	statetest.Run(t, func(t *testing.T, clock *statetest.Clock) *state.DB {
		t.Helper()
		db, err := state.OpenSQLite(t.Context(), t.TempDir(), state.Options{Now: clock.Now})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		return db
	})
}
