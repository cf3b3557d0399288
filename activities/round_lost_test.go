package activities_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/session"
)

// TestLossesAfterStoredAnswersAreForgiven: a conversation that gets further each time is not
// given up, though more workers are lost than may be in a row.
func TestLossesAfterStoredAnswersAreForgiven(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	const losses = 7
	lost := 0
	c := &conversation{turns: losses + 1}
	c.die = func(at string) bool {
		now := lost < losses && at == fmt.Sprintf("%d settled", lost+1)
		if now {
			lost++
		}
		return now
	}
	d.converse(c)
	for range losses {
		_, err := d.round()
		require.ErrorContains(t, err, "killed")
	}
	result, err := d.round()
	require.NoError(t, err)
	require.Equal(t, losses, result.Lost)
	require.Equal(t, 1, result.Attempts)
	require.Len(t, c.paid, losses+1)
}

func TestForeignStoreIsRefused(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	var a activities.Admission
	d.execute(admissions(d.store, d.db()).Admit, activities.AdmitInput{Start: session.Start{Store: "another"}}, &a)
	require.Len(t, a.Problems, 1)
	require.Contains(t, a.Problems[0], "belongs to store another")
}
