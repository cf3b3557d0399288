package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
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
	booked, answered, exact := via.Bill()
	got.out.Usage = booked
	select {
	case f := <-via.failed:
		if ctx.Err() == nil {
			err = s.gatewayFailure(f, err)
		}
	default:
		if exact && err == nil && said != (cost.Usage{}) {
			s.compare(job.Agent, said, answered)
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
