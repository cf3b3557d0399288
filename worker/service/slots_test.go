package service

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestASeatIsTheSameWhateverBuildHoldsIt(t *testing.T) {
	t.Parallel()
	a := &workerSlot{name: "box-0"}
	require.Equal(t, "maestro-st@box-0 v1.2.3+abc1234", identity("st", a, "v1.2.3+abc1234"))
	require.Equal(t, "maestro-st@box-0", identity("st", a, ""))
	require.True(t, sameSlot(identity("st", a, "v1"), identity("st", a, "v2")))
	require.True(t, sameSlot("maestro-st@box-0", identity("st", a, "v2")), "that of a build which did not say")
	require.False(t, sameSlot(identity("st", a, "v1"), identity("st", &workerSlot{name: "box-01"}, "v1")))
}
