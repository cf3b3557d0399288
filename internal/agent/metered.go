package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

// metered runs an attempt of an agent with a gateway, which books its calls one by one. If the
// gateway has ended the attempt with a failure, this is the attempt's failure, however the
// program ends.
func (s *Set) metered(ctx context.Context, d Definition, job session.Job) (session.Outcome, error) {
	if job.Calls == nil {
		return session.Outcome{}, errors.New("an agent with a gateway needs a place to book its calls")
	}
	via := s.openPassage(ctx, d, job)
	defer via.Close()
	masking := *s
	masking.secrets = via.secrets
	s = &masking
	var call *programCall
	if d.Preset != "" {
		call = s.beginCall(d, job)
	}
	got, err := s.attempt(ctx, d, job, call, via)
	via.Close()
	said := got.out.Usage
	var exact bool
	got.out.Usage, exact = via.bill.sum()
	select {
	case f := <-via.failed:
		if ctx.Err() == nil {
			err = s.gatewayFailure(f, err)
		}
	default:
		if exact && err == nil && said != (cost.Usage{}) {
			s.compare(job.Agent, said, via.bill.answered())
		}
	}
	return got.out, err
}

// gatewayFailure returns the failure with which the gateway has ended an attempt. err is how the
// program ended.
func (s *Set) gatewayFailure(f *failures.Failure, err error) *failures.Failure {
	ended := *f
	ended.Message = s.message("%s", f.Message)
	var program *failures.Failure
	if errors.As(err, &program) {
		ended.Output = program.Output
	}
	return &ended
}

// compare reports a difference between a program's own count of its tokens and the provider's.
func (s *Set) compare(agent string, said, counted cost.Usage) {
	said.CostUSD, counted.CostUSD = 0, 0
	if said == counted {
		return
	}
	s.logger.Warn("an agent program counts its tokens otherwise than its provider; the provider's count is booked",
		"agent", agent, "program", fmt.Sprintf("%+v", said), "provider", fmt.Sprintf("%+v", counted))
	if s.differs != nil {
		s.differs(agent)
	}
}

// bill adds up the costs of the calls of an attempt.
type bill struct {
	session.Calls

	mu sync.Mutex
	// booked is the booked cost. stored is the cost of stored answers that were delivered again.
	booked, stored cost.Usage
	// uncertain: the cost of some call is unknown, or whether its answer has reached the program.
	uncertain bool
}

// sum returns the booked cost. exact reports whether it is the cost of exactly the answers that
// the program received.
func (b *bill) sum() (booked cost.Usage, exact bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.booked, !b.uncertain
}

// answered returns the cost of the answers that the program received.
func (b *bill) answered() cost.Usage {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.booked.Add(b.stored)
}

func (b *bill) add(sum *cost.Usage, used cost.Usage, uncertain bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	*sum = sum.Add(used)
	b.uncertain = b.uncertain || uncertain
}

// Stored returns a turn that was paid for.
func (b *bill) Stored(ctx context.Context, turn int, request spec.Digest) (*session.StoredTurn, error) {
	found, err := b.Calls.Stored(ctx, turn, request)
	if found != nil {
		b.add(&b.stored, found.Usage, false)
	}
	return found, err
}

// Undelivered marks an answer to be delivered again.
func (b *bill) Undelivered(call string) {
	b.add(&b.stored, cost.Usage{}, true)
	b.Calls.Undelivered(call)
}

// Begin begins a call whose end is added to the bill.
func (b *bill) Begin(ctx context.Context, plan session.CallPlan) (session.Call, error) {
	call, err := b.Calls.Begin(ctx, plan)
	if err != nil {
		return nil, err
	}
	return billed{call, b}, nil
}

// billed is a call on a bill.
type billed struct {
	session.Call
	bill *bill
}

// Settle books an answer.
func (c billed) Settle(ctx context.Context, answer []byte, used cost.Usage) error {
	c.bill.add(&c.bill.booked, used, false)
	return c.Call.Settle(ctx, answer, used)
}

// Abandon books a call without an answer.
func (c billed) Abandon(ctx context.Context, used cost.Usage) error {
	c.bill.add(&c.bill.booked, used, false)
	return c.Call.Abandon(ctx, used)
}

// Unsettle books a call whose cost is not completely known.
func (c billed) Unsettle(ctx context.Context, used, estimate cost.Usage) error {
	c.bill.add(&c.bill.booked, used, true)
	return c.Call.Unsettle(ctx, used, estimate)
}
