package statetest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/store/state"
)

func idsOf(entries []state.AuditEntry) []int64 {
	ids := make([]int64, len(entries))
	for i, e := range entries {
		ids[i] = e.ID
	}
	return ids
}

// auditIsInOrder reads while many write: whoever has seen an entry has seen, or can see, all before it.
func auditIsInOrder(t *testing.T, b *bench) {
	const writers, each = 6, 15
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for range each {
				e, err := b.AddAudit(t.Context(), state.AuditEntry{Actor: fmt.Sprint(w), Action: "session.start"})
				if assert.NoError(t, err) {
					assert.NoError(t, b.EndAudit(t.Context(), e.ID, "done", ""))
				}
				b.clock.Pass(-time.Second)
			}
		})
	}
	ended := make(chan struct{})
	go func() { all.Wait(); close(ended) }()
	for done := false; !done; {
		select {
		case <-ended:
			done = true
		default:
		}
		seen, err := b.Audit(t.Context(), state.AuditFilter{Limit: 1000})
		require.NoError(t, err)
		for i, e := range seen {
			require.EqualValues(t, len(seen)-i, e.ID, "each id once, and none is missing")
			if i > 0 {
				require.False(t, e.At.After(seen[i-1].At), "times do not fall, also when the clock does")
			}
			require.True(t, !done || e.Outcome == "done" && !e.EndedAt.IsZero())
		}
		require.True(t, !done || len(seen) == writers*each)
	}
}

// auditIsFiltered looks for entries by each of their columns.
func auditIsFiltered(t *testing.T, b *bench) {
	var entries []state.AuditEntry
	for _, e := range []state.AuditEntry{
		{Actor: "ann", Action: "session.cancel", Session: "s1", Team: "web"},
		{Actor: "ci", Owner: "ann", Action: "session.start", Session: "s2", Team: "web", Outcome: "denied", Error: "no"},
		{Actor: "bob", Action: "sessions.start", Session: "s1", Team: "api"},
		{Actor: "bob", Action: "session"},
	} {
		made, err := b.AddAudit(t.Context(), e)
		require.NoError(t, err)
		entries = append(entries, made)
		b.clock.Pass(time.Second)
	}
	for _, one := range []struct {
		filter state.AuditFilter
		want   []int64
	}{
		{state.AuditFilter{}, []int64{4, 3, 2, 1}},
		{state.AuditFilter{Before: 3}, []int64{2, 1}},
		{state.AuditFilter{Actor: "ann"}, []int64{2, 1}},
		{state.AuditFilter{Session: "s1"}, []int64{3, 1}},
		{state.AuditFilter{Session: "s1", Team: "web"}, []int64{1}},
		{state.AuditFilter{Action: "session"}, []int64{4, 2, 1}},
		{state.AuditFilter{Action: "session.start"}, []int64{2}},
		{state.AuditFilter{Action: "sess"}, []int64{}},
		{state.AuditFilter{Since: entries[1].At, Until: entries[3].At}, []int64{3, 2}},
		{state.AuditFilter{Since: entries[3].At.Add(time.Microsecond)}, []int64{}},
		{state.AuditFilter{Until: entries[3].At.Add(time.Hour)}, []int64{4, 3, 2, 1}},
	} {
		one.filter.Limit = 100
		got, err := b.Audit(t.Context(), one.filter)
		require.NoError(t, err)
		require.Equal(t, one.want, idsOf(got), "%+v", one.filter)
	}
	first, err := b.Audit(t.Context(), state.AuditFilter{Limit: 1})
	require.NoError(t, err)
	require.Equal(t, entries[3:], first)
	require.NoError(t, b.EndAudit(t.Context(), 2, "done", ""))
	denied, err := b.Audit(t.Context(), state.AuditFilter{Session: "s2", Limit: 1})
	require.NoError(t, err)
	require.Equal(t, entries[1:2], denied, "an outcome is final")
}
