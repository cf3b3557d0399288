package gateway

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/models/wire"
)

// StoredHeader is the header of a stored answer, which was paid for before.
const StoredHeader = "Maestro-Stored"

// serve answers a request. A request that is not a known call of a provider of the attempt is
// refused before anything is sent.
func (g *Gateway) serve(w http.ResponseWriter, r *http.Request) {
	// The path as it was received: servers differ in how they decode it.
	path, _, _ := strings.Cut(r.RequestURI, "?")
	name, rest, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	access := r.Context().Value(accessKey{}).(*Access) //nolint:forcetypeassert // of each connection
	if subtle.ConstantTimeCompare([]byte(wire.Credential(r)), []byte(access.Token)) == 0 {
		const message = "the token is not that of this attempt"
		// Once, and in words of its own: whoever has no token writes nothing into an attempt's transcript.
		access.denied.Do(func() { access.transcriber.writeRefused("a provider", errors.New(message)) })
		refuse(w, g.api(name), wire.Unauthorized, message, 0)
		return
	}
	leave, ok := access.track()
	if !ok {
		refuse(w, g.api(name), wire.Unauthorized, "the attempt has ended", 0)
		return
	}
	defer leave()
	// A program that neither sends nor reads data must not delay the end of its attempt.
	defer context.AfterFunc(access.ctx, func() { _ = http.NewResponseController(w).SetWriteDeadline(time.Unix(1, 0)) })()
	deny := func(api wire.API, message string) {
		why := fmt.Errorf("%s: %s %s", message, r.Method, textfmt.Shorten(path, 200))
		access.transcriber.writeRefused(textfmt.Shorten(name, 100), why)
		refuse(w, api, wire.NotFound, message, 0)
	}
	p := g.providerFor(access, name)
	if p == nil || r.Method == http.MethodConnect || r.URL.IsAbs() || r.URL.Host != "" {
		deny(g.api(name), "the attempt has no provider at this address")
		return
	}
	to, ok := p.API.Route(r.Method, "/"+rest)
	if !ok {
		deny(p.API, "the gateway permits only calls of models, counts of tokens and lists of models")
		return
	}
	select {
	case access.slots <- struct{}{}:
		defer func() { <-access.slots }()
	case <-r.Context().Done():
		return
	}
	size := g.o.MaxRequest
	if r.ContentLength >= 0 {
		size = min(size, r.ContentLength)
	}
	if access.bodies.Acquire(r.Context(), size) != nil {
		return
	}
	defer access.bodies.Release(size)
	one := &request{Access: access, gateway: g, provider: p, route: to, w: w, r: r}
	if to.Format == "" {
		one.serveFree()
		return
	}
	one.servePaid()
}

// request is a request of a program.
type request struct {
	*Access
	gateway  *Gateway
	provider *provider
	route    wire.Route
	w        http.ResponseWriter
	r        *http.Request
}

func refuse(w http.ResponseWriter, api wire.API, why wire.Refusal, message string, wait time.Duration) {
	status, header, body := api.Refuse(why, "Maestro's gateway: "+message, wait)
	for name, values := range header {
		w.Header()[name] = values
	}
	w.WriteHeader(status)
	_, _ = w.Write(body) // the program may have disconnected
}

func (q *request) refuse(why wire.Refusal, message string, wait time.Duration) {
	refuse(q.w, q.provider.API, why, message, wait)
}

// body reads the request's body. It fails for a program that sends it too slowly.
func (q *request) body() ([]byte, bool) {
	control := http.NewResponseController(q.w)
	_ = control.SetReadDeadline(q.gateway.o.Now().Add(time.Minute)) // a connection supports deadlines
	body, err := io.ReadAll(http.MaxBytesReader(q.w, q.r.Body, q.gateway.o.MaxRequest))
	_ = control.SetReadDeadline(time.Time{})
	why, message := wire.Invalid, ""
	switch {
	case err != nil && int64(len(body)) >= q.gateway.o.MaxRequest:
		why, message = wire.TooLarge, "the request is too large"
	case err != nil:
		message = "the request is incomplete"
	case q.r.Header.Get("Content-Encoding") != "":
		message = "compressed requests are not supported"
	default:
		return body, q.permits(body)
	}
	q.transcriber.writeRefused(q.provider.Name, errors.New(message))
	q.refuse(why, message, 0)
	return nil, false
}

// permits refuses a request that has the provider reach the web if the program must not.
func (q *request) permits(body []byte) bool {
	if !q.attempt.Offline {
		return true
	}
	what := wire.Web(q.route.Model, body)
	if what == "" {
		return true
	}
	err := fmt.Errorf("%s is not permitted: the provider would reach the web, and the network of agent %s is restricted; "+
		"leave it out, or set web_tools: true for the agent in the worker file", textfmt.Shorten(what, 80), q.attempt.Agent)
	q.transcriber.writeRefused(q.provider.Name, err)
	q.refuse(wire.Invalid, err.Error(), 0)
	return false
}

// meteredCall is a call in flight that is paid for.
type meteredCall struct {
	*request
	parsed     *wire.Request
	digest     spec.Digest
	scale      *wire.Scale
	forecast   wire.Forecast
	transcript *callTranscript
	// deadline ends the waiting before the first byte.
	deadline time.Time
	// release gives the call's place within the provider's limits to others; nil while it has none. limited tokens were
	// counted there.
	release func()
	limited int64
	// failureReported: a failure of the call was reported to the breaker.
	failureReported bool
}

// servePaid passes on a call that is paid for.
func (q *request) servePaid() {
	body, ok := q.body()
	if !ok {
		return
	}
	asked, prices, err := q.read(body)
	if err != nil {
		q.transcriber.writeRefused(q.provider.Name, err)
		q.refuse(wire.Invalid, err.Error(), 0)
		return
	}
	p := &meteredCall{request: q, parsed: asked, digest: digest(q, body), deadline: q.gateway.o.Now().Add(q.gateway.o.Patience)}
	p.scale = q.gateway.Scale(q.attempt.Agent, q.provider.Name, asked.Model)
	p.forecast = asked.Forecast(prices)
	p.forecast.Learned = p.scale.Learned()
	p.transcript = q.transcriber.writeRequest(q.provider.Name, asked)
	// The call ends with its attempt. While it waits, it also ends with the program's request.
	ctx, cancel := context.WithCancel(q.ctx)
	defer cancel()
	defer context.AfterFunc(q.r.Context(), cancel)()
	if p.serveStored(ctx) {
		return
	}
	p.tryUntilDeadline(ctx)
}

// read parses a call, and finds its prices; nil: they are unknown. If there are prices, a call whose
// cost cannot be determined from its answer is an error.
func (q *request) read(body []byte) (asked *wire.Request, prices *cost.Prices, err error) {
	asked, err = wire.ReadRequest(q.route, wire.PublicOpenAI(q.provider.BaseURL), body)
	offered := true
	if err == nil {
		prices, offered = q.provider.Models.For(asked.Model)
	}
	switch {
	case !offered:
		err = fmt.Errorf("model %s is not among the models of provider %s in the worker file", textfmt.Shorten(asked.Model, 80),
			q.provider.Name)
	case err != nil || prices == nil:
	case asked.Unpriced != "":
		err = fmt.Errorf("%s has a cost that no answer reports, so that it cannot be booked; leave it out",
			textfmt.Shorten(asked.Unpriced, 80))
	case !prices.Has(asked.Tier) && asked.Tier != "flex": // flex costs less than the usual tier
		err = fmt.Errorf("the service tier %q of model %s has no prices; leave it out, or add its prices to provider %s in the "+
			"worker file, like `when: [{tier: %s, input: 5, output: 20}]`",
			asked.Tier, textfmt.Shorten(asked.Model, 80), q.provider.Name, asked.Tier)
	}
	return asked, prices, err
}

// digest identifies a request by everything that the answer depends on.
func digest(q *request, body []byte) spec.Digest {
	h := sha256.New()
	// a hash never fails
	_, _ = fmt.Fprintf(h, "%s\n%s\n%s\n%s\n", q.provider.Name, q.route.Path, query(q.r.URL), q.r.Header.Values("Anthropic-Beta"))
	_, _ = h.Write(body)
	return spec.Digest(hex.EncodeToString(h.Sum(nil)))
}

// stored is the form of a stored answer.
type stored struct {
	ContentType string `json:"content_type"`
	Body        []byte `json:"body"`
}

// serveStored answers with a stored answer. It returns false if there is none.
func (p *meteredCall) serveStored(ctx context.Context) bool {
	turn, err := p.attempt.Calls.Stored(ctx, p.digest)
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
	p.addToBill(cost.Usage{}, turn.Usage, false)
	p.transcript.writeAnswer(answer.ContentType, answer.Body, "given out again, nothing is paid,", turn.Usage)
	p.w.Header().Set("Content-Type", answer.ContentType)
	p.w.Header().Set(StoredHeader, "true")
	p.w.WriteHeader(http.StatusOK)
	if err = p.writeStored(answer.Body); err == nil {
		err = http.NewResponseController(p.w).Flush()
	}
	if err != nil {
		p.undelivered(turn.Call)
	}
	return true
}

// writeStored passes on a stored answer like one of the provider: without a usage that the program
// has not requested.
func (p *meteredCall) writeStored(body []byte) error {
	if !p.parsed.AddsUsage() {
		_, err := p.w.Write(body)
		return err
	}
	out := &wire.UsageStripper{To: p.w}
	if _, err := out.Write(body); err != nil {
		return err
	}
	return out.Flush()
}

// unavailable refuses a call that cannot be reserved, and ends the attempt.
func (p *meteredCall) unavailable(ctx context.Context, err error) {
	if ctx.Err() != nil {
		p.refuse(wire.Overloaded, "the attempt has ended", 0)
		return
	}
	var f *failures.Failure
	if !errors.As(err, &f) {
		f = failures.Failf(failures.ResourceError, "the gateway cannot reserve a call: %v", err)
	}
	why := wire.Overloaded
	if f.Category == failures.TokenBudget {
		why = wire.BudgetSpent
	}
	p.transcript.writeFailed(f.Message)
	p.refuse(why, f.Message, f.RetryAfter.Std())
	p.fail(f)
}

// tryUntilDeadline makes the call, and repeats it until the deadline while the provider fails.
func (p *meteredCall) tryUntilDeadline(ctx context.Context) {
	for try := 0; ; try++ {
		u, f := p.try(ctx)
		if f == nil {
			return
		}
		wait := p.wait(f, try)
		if !f.MayPass() || ctx.Err() != nil || p.gateway.o.Now().Add(wait).After(p.deadline) || p.breakerOpenFor() > 0 {
			p.passError(u, f)
			if f.MayPass() && ctx.Err() == nil || f.Category == failures.Auth {
				p.fail(f)
			}
			return
		}
		p.sleep(ctx, wait)
	}
}

// sleep waits before the next try.
func (p *meteredCall) sleep(ctx context.Context, wait time.Duration) {
	defer p.beginWait()()
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	<-ctx.Done()
}

// wait returns the time until the next try: a second, doubled with each try, with jitter, or the
// provider's Retry-After if that is longer.
func (p *meteredCall) wait(f *failures.Failure, try int) time.Duration {
	full := time.Second << min(try, 5)
	return max(f.RetryAfter.Std(), full/2+rand.N(full/2)) //nolint:gosec // jitter
}

// try makes the call once and books its cost. It returns a failure if the program has not been
// answered.
func (p *meteredCall) try(ctx context.Context) (*upstream, *failures.Failure) {
	if !p.takePlace(ctx) {
		return nil, nil
	}
	defer p.leavePlace()
	if open := p.breakerOpenFor(); open > 0 {
		p.refuse(wire.Overloaded, "the circuit breaker of provider "+p.provider.Name+" is open", open)
		f := failures.Failf(failures.APIError, "the circuit breaker of provider %s is open", p.provider.Name)
		f.RetryAfter = textfmt.Duration(open)
		p.transcript.writeFailed(f.Message)
		p.fail(f)
		return nil, nil
	}
	call, err := p.reserve(ctx)
	if err != nil {
		p.unavailable(ctx, err)
		return nil, nil
	}
	if p.release == nil { // it has waited for its budget, which is not part of its patience
		p.deadline = p.gateway.o.Now().Add(p.gateway.o.Patience)
		if !p.takePlace(ctx) {
			p.end(call, cost.Usage{}, cost.Usage{})
			return nil, nil
		}
	}
	f := p.forecast
	limit := f.Output(call.Granted())
	f.MaxOutput = limit
	if limit == p.forecast.MaxOutput {
		limit = 0 // the program's own bound applies
	}
	body, added := p.parsed.Body(limit)
	begun := p.gateway.o.Now()
	u := p.send(body)
	defer u.close()
	if u.err != nil {
		p.noteStall(begun)
		return u, p.bookFailure(call, u, f)
	}
	a := &answer{meteredCall: p, from: u, call: call, countedTokens: p.limited, progressAt: begun, forecast: f, strip: added}
	a.forward()
	return nil, nil
}

// takePlace waits for a place within the provider's limits, until the call's deadline. If there is none, it refuses the call.
func (p *meteredCall) takePlace(ctx context.Context) bool {
	defer p.beginWait()()
	until, cancel := context.WithDeadline(ctx, p.deadline)
	defer cancel()
	leave, limited, err := p.provider.limits.takePlace(until, p.forecast.Guess())
	if err == nil {
		p.holding.Add(1)
		p.limited, p.release = limited, func() { leave(); p.holding.Add(-1) }
		return true
	}
	if ctx.Err() == nil {
		why := "the limits of provider " + p.provider.Name + " in the worker file are reached"
		p.transcript.writeFailed(why)
		p.refuse(wire.RateLimited, why, 10*time.Second)
	}
	return false
}

// leavePlace gives the place to others: at the end of a try, and while the call waits for a budget. That time is not part of its
// patience.
func (p *meteredCall) leavePlace() {
	if p.release != nil {
		p.release()
		p.release = nil
	}
}

// reserve reserves the cost of the call. If the budget does not cover all of it, the provider counts the prompt. The cost
// is reserved anew if the count shows that the reservation is too small, or that a refused call is covered.
func (p *meteredCall) reserve(ctx context.Context) (session.Call, error) {
	begin := func() (session.Call, error) {
		plan := p.forecast.Plan()
		plan.Agent, plan.Model, plan.Request = p.attempt.Agent, p.parsed.Model, p.digest
		plan.API, plan.Server, plan.OnWait = string(p.provider.API), p.provider.API.Host(p.provider.BaseURL), p.leavePlace
		return p.attempt.Calls.Begin(ctx, plan)
	}
	call, err := begin()
	var f *failures.Failure
	short := errors.As(err, &f) && f.Category == failures.TokenBudget && p.forecast.Elsewhere > 0
	switch {
	case err != nil && !short, err == nil && p.forecast.Output(call.Granted()) == p.forecast.MaxOutput:
		return call, err
	case !p.measure():
		if short {
			f.Message += fmt.Sprintf("; %d tokens of that are for what the request refers to, like an earlier answer or a file: the "+
				"provider does not count it before the call", p.forecast.Elsewhere)
		}
		return call, err
	case short:
		return begin()
	}
	least, granted := p.forecast.Least(), call.Granted()
	if least.Tokens <= granted.Tokens && least.USD <= granted.USD {
		return call, nil
	}
	noting := context.WithoutCancel(p.ctx) // booked also after the end of the attempt
	if err := call.Abandon(noting, cost.Usage{}); err != nil {
		return nil, err
	}
	return begin()
}

// breakerOpenFor returns for how long the breaker refuses calls, and zero if it permits them.
func (p *meteredCall) breakerOpenFor() time.Duration {
	if p.attempt.Breaker == nil {
		return 0
	}
	return p.attempt.Breaker.RetryAfter()
}

// passError passes a provider's error to the program, with the provider's own body if there is one.
func (q *request) passError(u *upstream, f *failures.Failure) {
	if u.response == nil || len(u.body) == 0 || u.response.StatusCode < 400 {
		why := wire.Overloaded
		switch f.Category { //nolint:exhaustive // others may be over at the next try
		case failures.Auth:
			why = wire.Unauthorized
		case failures.InvalidRequest:
			why = wire.NotFound
		}
		q.refuse(why, f.Message, f.RetryAfter.Std())
		return
	}
	for name, values := range u.response.Header {
		q.w.Header()[name] = values
	}
	q.w.WriteHeader(u.response.StatusCode)
	_, _ = q.w.Write(u.body) // the program may have disconnected
}
