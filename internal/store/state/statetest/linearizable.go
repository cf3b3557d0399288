package statetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// op is an operation on one budget, and what came of it.
type op struct {
	id string
	// want begins a call with this reservation; zero: the call ends, and has cost spent.
	want, spent int64
	// unknown: the caller has given up before it knew the outcome.
	unknown                 bool
	granted, waits, refused bool
}

// books are the model's state of the budget: what the calls hold, and what they have cost.
type books struct {
	held, spent map[string]int64
}

func (b books) sum() (spent, held int64) {
	for _, n := range b.spent {
		spent += n
	}
	for _, n := range b.held {
		held += n
	}
	return spent, held
}

func (b books) with(o op) books {
	next := books{maps.Clone(b.held), maps.Clone(b.spent)}
	if o.want > 0 {
		next.held[o.id] = o.want
		return next
	}
	delete(next.held, o.id)
	next.spent[o.id] = o.spent
	return next
}

// after lists the states that the operation can leave, given its outcome; none if it cannot have it.
func (b books) after(limit int64, o op) []books {
	spent, held := b.sum()
	grants := o.want == 0 || spent+held+o.want <= limit
	switch {
	case o.unknown && grants:
		return []books{b, b.with(o)}
	case o.unknown:
		return []books{b}
	case o.want == 0 || o.granted:
		if !grants {
			return nil
		}
		return []books{b.with(o)}
	case o.refused:
		if spent+o.want <= limit {
			return nil
		}
	case o.waits:
		if grants || spent+o.want > limit {
			return nil
		}
	}
	return []books{b}
}

// linearizable has many callers begin and end calls of one budget, some of which give up, and looks for an order of all
// operations that explains what each was told.
func linearizable(t *testing.T, b *bench) {
	const limit, callers, each = 100, 6, 12
	b.admit(t, "s", "r", capOf(session.BudgetOfSession, "", limit))
	var clock atomic.Int64 // counts calls and returns
	var mu sync.Mutex
	var history []porcupine.Operation
	var done sync.WaitGroup
	for caller := range callers {
		done.Go(func() {
			random := rand.New(rand.NewPCG(uint64(caller), 1)) //nolint:gosec // a test
			for i := range each {
				n := b.call(dev("s"), 1, 10+random.Int64N(40))
				n.ID = fmt.Sprintf("%d-%d", caller, i)
				start := op{id: n.ID, want: n.Want.Tokens}
				end := op{id: n.ID, spent: random.Int64N(6)}
				for _, o := range []*op{&start, &end} {
					if o == &end && !start.granted {
						continue
					}
					ctx, stop := context.WithCancel(t.Context())
					if random.IntN(4) == 0 && o == &start {
						ctx, stop = context.WithTimeout(ctx, time.Duration(random.IntN(3000))*time.Microsecond)
					}
					called := clock.Add(1)
					b.do(ctx, t, n, o)
					stop()
					returned := clock.Add(1)
					if o.unknown {
						returned = math.MaxInt64 // it may still happen
					}
					mu.Lock()
					history = append(history, porcupine.Operation{ClientId: len(history), Input: *o, Call: called, Output: *o, Return: returned})
					mu.Unlock()
				}
			}
		})
	}
	done.Wait()
	model := porcupine.NondeterministicModel{
		Init: func() []any { return []any{books{map[string]int64{}, map[string]int64{}}} },
		Step: func(now, input, _ any) (next []any) {
			for _, s := range now.(books).after(limit, input.(op)) { //nolint:forcetypeassert // they are its own
				next = append(next, s)
			}
			return next
		},
		Equal: func(a, b any) bool {
			x, y := a.(books), b.(books) //nolint:forcetypeassert // they are its own
			return maps.Equal(x.held, y.held) && maps.Equal(x.spent, y.spent)
		},
	}
	require.NotEqual(t, porcupine.Illegal, porcupine.CheckOperationsTimeout(model.ToModel(), history, 20*time.Second))
	require.True(t, slices.ContainsFunc(history, func( //nolint:forcetypeassert // they are its own
		o porcupine.Operation,
	) bool {
		return o.Input.(op).waits
	}), "nobody had to wait")
}

// do does an operation and records its outcome.
func (b *bench) do(ctx context.Context, t *testing.T, n state.NewCall, o *op) {
	if o.want == 0 {
		if err := b.End(ctx, n.ID, state.CallEnd{State: state.CallAnswered, Usage: cost.Usage{OutputTokens: o.spent}}); err != nil {
			t.Error(err)
		}
		return
	}
	v, err := b.Begin(ctx, n)
	switch {
	case err != nil && (errors.Is(err, context.DeadlineExceeded) || errors.Is(ctx.Err(), context.DeadlineExceeded)):
		o.unknown = true
	case err != nil:
		t.Error(err)
	default:
		o.waits, o.refused, o.granted = v.Wait, v.Refused != nil && !v.Wait, v.Refused == nil
	}
}
