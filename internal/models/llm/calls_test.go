package llm_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// errKilled stands for the death of the worker.
var errKilled = errors.New("killed")

// callStore is session.Calls in memory. It outlives the runs that use it.
type callStore struct {
	mu       sync.Mutex
	turns    map[int]*storedCall
	blobs    map[spec.Digest][]byte
	steps    int
	plans    []session.CallPlan
	grants   []cost.Amount
	abandons []abandoned
	live     []cost.Usage
	// killBefore and killAfter are the numbers of the step before or after which
	// the worker dies; zero: it lives.
	killBefore, killAfter int
	// budget is what may be reserved; nil: anything.
	budget func(session.CallPlan) (cost.Amount, error)
	// overspent is what Spending returns.
	overspent error
}

type storedCall struct {
	request spec.Digest
	plan    session.CallPlan
	open    bool
	stored  *session.StoredTurn
}

type abandoned struct {
	turn  int
	used  cost.Usage
	known bool
}

func newCallStore() *callStore {
	return &callStore{turns: map[int]*storedCall{}, blobs: map[spec.Digest][]byte{}}
}

// step is one step of the bookkeeping, between any two of which a worker may die.
func (j *callStore) step(do func() error) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.steps++
	if j.steps == j.killBefore {
		return errKilled
	}
	if err := do(); err != nil {
		return err
	}
	if j.steps == j.killAfter {
		return errKilled
	}
	return nil
}

func (j *callStore) Stored(_ context.Context, turn int, request spec.Digest) (found *session.StoredTurn, err error) {
	err = j.step(func() error {
		if t := j.turns[turn]; t != nil && t.request == request && t.stored != nil {
			copied := *t.stored
			copied.Call = strconv.Itoa(turn)
			found = &copied
		}
		return nil
	})
	return found, err
}

func (j *callStore) Begin(_ context.Context, plan session.CallPlan) (session.Call, error) {
	granted := plan.Want
	err := j.step(func() (err error) {
		if j.budget != nil {
			if granted, err = j.budget(plan); err != nil {
				return err
			}
		}
		j.plans, j.grants = append(j.plans, plan), append(j.grants, granted)
		j.turns[plan.Turn] = &storedCall{request: plan.Request, plan: plan, open: true}
		return nil
	})
	return &openCall{j, plan.Turn, granted}, err
}

func (*callStore) Undelivered(string) {}

// openCall is a call in progress. Its id is its turn.
type openCall struct {
	*callStore
	turn    int
	granted cost.Amount
}

func (c *openCall) ID() string           { return strconv.Itoa(c.turn) }
func (c *openCall) Granted() cost.Amount { return c.granted }

func (c *openCall) Settle(_ context.Context, answer []byte, used cost.Usage) error {
	j, turn := c.callStore, c.turn
	return j.step(func() error {
		if !j.turns[turn].open {
			return fmt.Errorf("turn %d is not open", turn)
		}
		j.turns[turn].open = false
		j.turns[turn].stored = &session.StoredTurn{Answer: slices.Clone(answer), Usage: used}
		return nil
	})
}

func (c *openCall) Abandon(_ context.Context, used cost.Usage) error {
	return c.abandon(c.turn, used, true)
}

func (c *openCall) Unsettle(_ context.Context, used, estimate cost.Usage) error {
	return c.abandon(c.turn, used.Add(estimate), false)
}

func (*openCall) Report(_, _ cost.Usage) error { return nil }

func (j *callStore) abandon(turn int, used cost.Usage, known bool) error {
	return j.step(func() error {
		j.turns[turn].open = false
		j.abandons = append(j.abandons, abandoned{turn, used, known})
		return nil
	})
}

func (j *callStore) KeepTools(_ context.Context, call string, doc []byte) error {
	turn, err := strconv.Atoi(call)
	if err != nil {
		return err
	}
	return j.step(func() error {
		j.turns[turn].stored.Tools = slices.Clone(doc)
		return nil
	})
}

func (j *callStore) Put(_ context.Context, data []byte) (name spec.Digest, err error) {
	err = j.step(func() error {
		sum := sha256.Sum256(data)
		name = spec.Digest(hex.EncodeToString(sum[:]))
		j.blobs[name] = slices.Clone(data)
		return nil
	})
	return name, err
}

func (j *callStore) Get(_ context.Context, name spec.Digest) (data []byte, err error) {
	err = j.step(func() error {
		found, ok := j.blobs[name]
		if !ok {
			return session.ErrNotFound
		}
		data = found
		return nil
	})
	return data, err
}

func (*openCall) Answered(session.CallAnswer) {}

func (c *openCall) Spending(used cost.Usage) error {
	j := c.callStore
	j.mu.Lock()
	defer j.mu.Unlock()
	j.live = append(j.live, used)
	return j.overspent
}

// settled is what all settled turns have cost.
func (j *callStore) settled() cost.Usage {
	var sum cost.Usage
	for _, t := range j.turns {
		if t.stored != nil {
			sum = sum.Add(t.stored.Usage)
		}
	}
	return sum
}

// text is everything that is kept.
func (j *callStore) text() string {
	var b strings.Builder
	for _, turn := range slices.Sorted(maps.Keys(j.turns)) {
		if t := j.turns[turn]; t.stored != nil {
			fmt.Fprintf(&b, "%s\n%s\n", t.stored.Answer, t.stored.Tools)
		}
	}
	for _, data := range j.blobs {
		b.Write(data)
	}
	return b.String()
}
