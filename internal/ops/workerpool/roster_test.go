package workerpool

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestABuildThatWasReplacedAsksForNothing(t *testing.T) {
	t.Parallel()
	since := time.Date(2026, 5, 4, 3, 0, 0, 0, time.UTC)
	w := Worker{Identity: "maestro-abc@desk-0 v1.1.0", Since: since}
	for _, c := range []struct {
		identity string
		asked    time.Time
		replaced bool
	}{
		{"maestro-abc@desk-0 v1.0.0", since.Add(-time.Second), true},
		{"maestro-abc@desk-0", since.Add(-time.Second), true},
		{"maestro-abc@desk-0 v1.0.0", since.Add(time.Second), false}, // it asks still: on another copy of the store
		{"maestro-abc@desk-0 v1.1.0", since.Add(-time.Second), false},
		{"maestro-abc@desk-1 v1.0.0", since.Add(-time.Second), false},
	} {
		require.Equal(t, c.replaced, w.replaced(c.identity, c.asked), "%+v", c)
	}
}
