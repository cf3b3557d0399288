package gateway

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/textfmt"
	"github.com/maestro-hive/maestro/internal/wire"
)

// booking is how long what a call has cost may take to be noted, after its attempt has ended.
const booking = time.Minute

// paid is a call under way.
type paid struct {
	*request
	asked    *wire.Request
	digest   spec.Digest
	scale    *wire.Scale
	forecast wire.Forecast
	record   *record
	// deadline ends the waiting before the first byte.
	deadline time.Time
	// hasFailed: the breaker was told so.
	hasFailed bool
}

// paid passes on a call that is paid for.
func (q *request) paid() {
	body, ok := q.body()
	if !ok {
		return
	}
	asked, prices, err := q.read(body)
	if err != nil {
		q.recorder.refused(q.provider.Name, err)
		q.refuse(wire.Invalid, err.Error(), 0)
		return
	}
	p := &paid{request: q, asked: asked, digest: digest(q, body), deadline: q.gateway.o.Now().Add(q.gateway.o.Patience)}
	p.scale = q.gateway.scale(q.attempt.Agent, q.provider, asked.Model)
	p.forecast = wire.Forecast{
		Fresh: asked.Size, Total: asked.Size, Learned: p.scale.Learned(), MaxOutput: asked.MaxOutput, Floor: asked.Floor * asked.Choices,
		Prices: prices, Tier: asked.Tier, Hour: asked.Hour, Searches: asked.Searches, Elsewhere: asked.Elsewhere,
	}
	if p.forecast.MaxOutput == 0 {
		p.forecast.MaxOutput = wire.UnstatedOutput
	}
	p.record = q.recorder.begin(q.provider.Name, asked)
	defer p.record.end()
	// The call ends with its attempt, and while it waits with the program, too.
	ctx, cancel := context.WithCancel(q.ctx)
	defer cancel()
	defer context.AfterFunc(q.r.Context(), cancel)()
	if p.replay(ctx) {
		return
	}
	p.tryUntilDeadline(ctx)
}

// read reads a call, and what its tokens cost; nil: that is not known. A call whose cost nobody can say
// is an error where tokens have prices.
func (q *request) read(body []byte) (asked *wire.Request, prices *cost.Prices, err error) {
	asked, err = wire.ReadRequest(q.route, wire.PublicOpenAI(q.provider.BaseURL), body)
	if err == nil && q.provider.Prices != nil {
		prices, err = q.provider.Prices(asked.Model)
	}
	switch {
	case err != nil || prices == nil:
	case asked.Unpriced != "":
		err = fmt.Errorf("%s costs what no answer counts, so that it cannot be booked; leave it out", textfmt.Shorten(asked.Unpriced, 80))
	case !prices.Has(asked.Tier) && asked.Tier != "flex": // which costs less than the usual tier
		err = fmt.Errorf("the service tier %q of model %s has no prices; leave it out, or add its prices to provider %s in the worker file, like `when: [{tier: %s, input: 5, output: 20}]`",
			asked.Tier, textfmt.Shorten(asked.Model, 80), q.provider.Name, asked.Tier)
	}
	return asked, prices, err
}

// digest names what the answer depends on.
func digest(q *request, body []byte) spec.Digest {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%s\n%s\n%s\n%s\n", q.provider.Name, q.route.Path, query(q.r.URL), q.r.Header.Values("Anthropic-Beta")) // a hash takes everything
	_, _ = h.Write(body)
	return spec.Digest(hex.EncodeToString(h.Sum(nil)))
}

// stored is an answer as the journal keeps it.
type stored struct {
	ContentType string `json:"content_type"`
	Body        []byte `json:"body"`
}

// replay answers with what was paid for, if there is something.
func (p *paid) replay(ctx context.Context) bool {
	turn, err := p.attempt.Account.Stored(ctx, session.AnyTurn, p.digest)
	if err != nil {
		p.unavailable(ctx, err)
		return true
	}
	if turn == nil {
		return false
	}
	var answer stored
	if json.Unmarshal(turn.Answer, &answer) != nil {
		return false
	}
	p.record.answered(answer.ContentType, answer.Body, "given out again, nothing is paid,", turn.Usage)
	p.w.Header().Set("Content-Type", answer.ContentType)
	p.w.Header().Set(StoredHeader, "true")
	p.w.WriteHeader(http.StatusOK)
	_, err = p.w.Write(answer.Body)
	if err == nil {
		err = http.NewResponseController(p.w).Flush()
	}
	if err != nil {
		p.attempt.Account.Undelivered(turn.Call)
	}
	return true
}

// unavailable refuses a call that cannot be paid for because of the worker.
func (p *paid) unavailable(ctx context.Context, err error) {
	if ctx.Err() != nil {
		p.refuse(wire.Overloaded, "the attempt has ended", 0)
		return
	}
	var f *failures.Failure
	if !errors.As(err, &f) {
		f = failures.Failf(failures.ResourceError, "the gateway cannot note a call: %v", err)
	}
	why := wire.Overloaded
	if f.Category == failures.TokenBudget {
		why = wire.BudgetSpent
	}
	p.record.failed(f.Message)
	p.refuse(why, f.Message, f.RetryAfter.Std())
	p.fail(f)
}

// tryUntilDeadline makes the call, and again while the provider fails and there is time.
func (p *paid) tryUntilDeadline(ctx context.Context) {
	for try := 0; ; try++ {
		u, f := p.try(ctx)
		if f == nil {
			return
		}
		wait := p.wait(f, try)
		if !f.WaitedOut() || ctx.Err() != nil || p.gateway.o.Now().Add(wait).After(p.deadline) || p.refusedFor() > 0 {
			p.tell(u, f)
			if f.WaitedOut() && ctx.Err() == nil || f.Category == failures.Auth {
				p.fail(f)
			}
			return
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

// wait is the time until the next try: a second, doubled with each try, with jitter, or what the
// provider says if that is longer.
func (p *paid) wait(f *failures.Failure, try int) time.Duration {
	full := time.Second << min(try, 5)
	return max(f.RetryAfter.Std(), full/2+rand.N(full/2)) //nolint:gosec // jitter
}

// try makes the call once. It returns a failure where the program got no answer yet; what
// the call has cost is booked.
func (p *paid) try(ctx context.Context) (*upstream, *failures.Failure) {
	until, cancel := context.WithDeadline(ctx, p.deadline)
	defer cancel()
	leave, limited, err := p.provider.limits.enter(until, p.forecast.Guess())
	if err != nil {
		if ctx.Err() == nil {
			why := "the limits of provider " + p.provider.Name + " in the worker file are reached"
			p.record.failed(why)
			p.refuse(wire.RateLimited, why, 10*time.Second)
		}
		return nil, nil
	}
	defer leave()
	if open := p.refusedFor(); open > 0 {
		p.refuse(wire.Overloaded, "the circuit breaker of provider "+p.provider.Name+" is open", open)
		f := failures.Failf(failures.APIError, "the circuit breaker of provider %s is open", p.provider.Name)
		f.RetryAfter = textfmt.Duration(open)
		p.record.failed(f.Message)
		p.fail(f)
		return nil, nil
	}
	call, err := p.begin(ctx)
	if err != nil {
		p.unavailable(ctx, err)
		return nil, nil
	}
	f := p.forecast
	limit := f.Output(call.Granted())
	f.MaxOutput = limit
	if limit == p.forecast.MaxOutput {
		limit = 0 // as the program has bounded it
	}
	body, added := p.asked.Body(limit)
	u := p.send(body)
	defer u.end()
	if u.err != nil {
		return u, p.refused(call, u, f)
	}
	a := &answer{paid: p, from: u, call: call, limited: limited, forecast: f, strip: added}
	a.pass()
	return nil, nil
}

// begin sets aside what the call may cost. Where that is not all, the provider counts the prompt,
// and a prompt that turns out to cost more than what was set aside, or less than what was left, is reserved anew.
func (p *paid) begin(ctx context.Context) (session.Call, error) {
	begin := func() (session.Call, error) {
		f := p.forecast
		return p.attempt.Account.Begin(ctx, session.CallPlan{
			Turn: session.AnyTurn, Agent: p.attempt.Agent, Model: p.asked.Model, Request: p.digest,
			API: string(p.provider.API), Server: p.provider.API.Host(p.provider.BaseURL),
			Want: f.Want(), Least: f.Least(), Estimate: f.Estimate(),
		})
	}
	call, err := begin()
	var f *failures.Failure
	short := errors.As(err, &f) && f.Category == failures.TokenBudget && p.forecast.Elsewhere > 0
	switch {
	case err != nil && !short, err == nil && p.forecast.Output(call.Granted()) == p.forecast.MaxOutput:
		return call, err
	case !p.measure():
		if short {
			f.Message += fmt.Sprintf("; %d tokens of that are for what the request refers to, like an earlier answer or a file: the provider does not count it before the call", p.forecast.Elsewhere)
		}
		return call, err
	case short:
		return begin()
	}
	least, granted := p.forecast.Least(), call.Granted()
	if least.Tokens <= granted.Tokens && least.USD <= granted.USD {
		return call, nil
	}
	noting, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), booking)
	defer cancel()
	if err := call.Abandon(noting, cost.Usage{}); err != nil {
		return nil, err
	}
	return begin()
}

// measure has the provider count the prompt, once, where it offers that. It reports whether the forecast
// is another.
func (p *paid) measure() bool {
	path, body, ok := p.asked.Count()
	if !ok || p.forecast.Fresh == 0 {
		return false
	}
	free := *p.request
	free.route = wire.Route{Path: path}
	u := free.send(body)
	defer u.end()
	if u.err != nil {
		return false
	}
	answer, err := io.ReadAll(io.MultiReader(bytes.NewReader(u.first), io.LimitReader(u.response.Body, maxError)))
	n := wire.ReadCount(answer)
	if err != nil || n <= 0 || n > p.forecast.Total+p.forecast.Elsewhere {
		return false
	}
	if p.forecast.Elsewhere == 0 {
		p.scale.Learn(n, p.forecast.Total)
	}
	p.forecast = p.forecast.Measured(n)
	return true
}

// refused books a call that has no answer, and tells the breaker.
func (p *paid) refused(call session.Call, u *upstream, f wire.Forecast) *failures.Failure {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), booking)
	defer cancel()
	failure := wire.Failure(u.err, p.provider.Name, p.gateway.o.Now())
	call.Answered(session.CallAnswer{Category: failure.Category})
	var err error
	if wire.Unbilled(u.err) {
		err = call.Abandon(ctx, cost.Usage{})
	} else {
		err = call.Unsettle(ctx, cost.Usage{}, p.unknown(f, wire.UsualOutput))
	}
	p.note(err)
	p.record.failed(failure.Message)
	if p.ctx.Err() == nil && p.r.Context().Err() == nil {
		p.report(failure)
	}
	return failure
}

// unknown is the estimate of a call of whose answer nothing came, which may have been so many tokens. Servers finish an answer that is no
// stream though nobody waits for it: a program that leaves may have it cost all that its bound permits.
func (p *paid) unknown(f wire.Forecast, output int64) cost.Usage {
	if !p.asked.Stream && p.r.Context().Err() != nil {
		return f.Estimated(f.MaxOutput)
	}
	return f.Estimated(min(output, f.MaxOutput))
}

// refusedFor is for how long the breaker refuses calls; zero: it does not.
func (p *paid) refusedFor() time.Duration {
	if p.attempt.Breaker == nil {
		return 0
	}
	return p.attempt.Breaker.Open()
}

// report tells the breaker of an outcome; nil: an answer. A call fails once, however often it is
// tried. A request that the provider does not take says nothing of the provider.
func (p *paid) report(f *failures.Failure) {
	if p.attempt.Breaker == nil || f != nil && (f.Final || p.hasFailed) {
		return
	}
	p.hasFailed = f != nil
	p.attempt.Breaker.Report(f)
}

// note ends the attempt where what a call has cost cannot be noted.
func (p *paid) note(err error) {
	if err != nil && p.ctx.Err() == nil {
		p.fail(failures.Failf(failures.ResourceError, "the gateway cannot note what a call has cost: %v", err))
	}
}
