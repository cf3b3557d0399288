package state

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// BenchmarkCalls reserves and settles calls of one team's day: by one caller, and by sixteen at a time.
func BenchmarkCalls(b *testing.B) {
	for name, callers := range map[string]int{"1": 1, "16": 16} {
		b.Run(name, func(b *testing.B) {
			db, err := OpenSQLite(b.Context(), b.TempDir(), Options{Now: time.Now})
			require.NoError(b, err)
			b.Cleanup(func() { _ = db.Close() })
			key := session.Key{Namespace: "default", Session: "s"}
			_, err = db.Admit(b.Context(), Admission{
				Key: key, TemporalRun: "r", Team: "t",
				Caps: []budget.Budget{
					{Kind: session.BudgetOfDay, Name: "t", Base: spec.Cap{Tokens: 1e12}}, {Kind: session.BudgetOfSession, Base: spec.Cap{Tokens: 1e12}},
				},
			})
			require.NoError(b, err)
			want := cost.Amount{Tokens: 10}
			call := func() error {
				n := NewCall{
					ID: NewCallID(), CallKey: CallKey{AttemptKey: AttemptKey{Assignment: Assignment{Key: key, AssignmentID: spec.AssignmentID{Phase: "p", Persona: "d"}}, Pass: 1, Round: 1, Attempt: 1}, Call: NextCall},
					Fence: Fence{Run: 1}, Team: "t", Agent: "a", Want: want, Least: want,
				}
				if _, err := db.Begin(b.Context(), n); err != nil {
					return err
				}
				return db.End(b.Context(), n.ID, CallEnd{State: CallAnswered, Answer: "a", Usage: cost.Usage{OutputTokens: 5}})
			}
			for b.Loop() {
				var all sync.WaitGroup
				for range callers {
					all.Go(func() {
						if err := call(); err != nil {
							b.Error(err)
						}
					})
				}
				all.Wait()
			}
		})
	}
}
