package httpapi

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/ops/control"
)

// TestAnOperationOfAnyMethodCanBeATool, not only those that are one.
func TestAnOperationOfAnyMethodCanBeATool(t *testing.T) {
	t.Parallel()
	mux, api := newAPI(&control.Base{}, "1")
	for _, r := range []Route{ReadTeam.Route, CancelSession.Route, RemoveTeam.Route} {
		fields := newTool(r, "", mux, api).Schema["properties"]
		require.NotEmpty(t, fields, "%s", r.Name)
	}
}
