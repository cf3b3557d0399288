package gateway

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/models/wire"
)

// Causes of the cancellation of a call to a provider.
var (
	errIdle         = errors.New("the answer makes no progress")
	errDisconnected = errors.New("the program has disconnected")
)

// upstream is a call to the provider.
type upstream struct {
	cancel context.CancelCauseFunc
	timer  *time.Timer
	// detach makes the call continue after the program has disconnected.
	detach func() bool
	// response is the header of an answer, and first has its first bytes.
	response *http.Response
	first    []byte
	// err is why there is no answer: a *[wire.Fault] with the body in body, a network error, or a
	// *[failures.Failure] if nothing was sent.
	err  error
	body []byte
}

// send makes a call, and waits for the first bytes of its answer. Its timer runs until the first token. The call is
// cancelled with the attempt and, unless it is detached, with the program's request.
func (q *request) send(content []byte) *upstream {
	ctx, cancel := context.WithCancelCause(q.ctx)
	wait := q.gateway.o.FirstToken
	if q.route.Format == "" { // a free call needs no model
		wait = min(wait, freeWait)
	}
	u := &upstream{cancel: cancel, timer: time.AfterFunc(wait, func() { cancel(errIdle) })}
	u.detach = context.AfterFunc(q.r.Context(), func() { cancel(errDisconnected) })
	request, err := q.outgoing(ctx, content)
	if err != nil {
		u.err = wire.Unsent{Err: failures.Failf(failures.Auth, "provider %s: %v", q.provider.Name, err)}
		return u
	}
	response, err := wire.Transport{RoundTripper: q.gateway.o.Transport, Key: q.provider.secret}.RoundTrip(request)
	if err != nil {
		u.err = cause(ctx, err)
		return u
	}
	response.Header = passedHeaders(response.Header)
	if !wire.Answered(response.StatusCode) {
		u.response = response
		u.err, u.body = wire.FaultOf(response, q.attempt.Mask)
		return u
	}
	opened, err := wire.Open(q.route.Format, response)
	n := 0
	if err == nil {
		response.Body = body{wire.WithoutKey(q.route.Format, response, q.provider.secret, opened), response.Body}
		u.response, u.first = response, make([]byte, 32<<10)
		n, err = io.ReadAtLeast(response.Body, u.first, 1)
		u.first = u.first[:n]
	}
	if n == 0 {
		u.err = cause(ctx, err)
		_ = response.Body.Close()
	}
	return u
}

// body is a body of which a part was read before.
type body struct {
	io.Reader
	io.Closer
}

// cause returns the cause of a cancelled call, or the error of one that was not cancelled.
func cause(ctx context.Context, err error) error {
	if why := context.Cause(ctx); why != nil {
		if unsent := (wire.Unsent{}); errors.As(err, &unsent) {
			return wire.Unsent{Err: why}
		}
		return why
	}
	if err == nil || errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// outgoing returns the program's request with the provider's key and address.
func (q *request) outgoing(ctx context.Context, body []byte) (*http.Request, error) {
	if q.provider.KeyError != nil {
		return nil, q.provider.KeyError
	}
	to, err := url.Parse(q.provider.API.Base(q.provider.BaseURL) + q.route.Path)
	if err != nil {
		return nil, fmt.Errorf("base_url: %w", err)
	}
	to.RawQuery = query(q.r.URL)
	// The transport can send the body again: a server that shuts down may refuse a call that it has not begun.
	request, err := http.NewRequestWithContext(ctx, q.r.Method, to.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header = passedHeaders(q.r.Header)
	request.Header.Set("Accept-Encoding", "identity") // the meter reads the bytes as they are
	q.provider.API.Authorize(request.Header, q.provider.Key)
	return request, nil
}

// close frees the resources of the call.
func (u *upstream) close() {
	u.detach()
	u.timer.Stop()
	u.cancel(nil)
	if u.response != nil {
		_ = u.response.Body.Close() // read to its end, or cancelled
	}
}

const (
	// reportEvery is after how many bytes of an answer the spending is reported again.
	reportEvery = 2048
	// maxStored bounds an answer that is stored, in bytes.
	maxStored = 8 << 20
	// maxTokenBytes is more than the average size of an answer's tokens. A short answer may have answerSlack bytes more.
	maxTokenBytes, answerSlack = 32, 64 << 10
	// drainTimeout is how long the gateway waits for the end of a whole answer after the program has disconnected.
	drainTimeout = 5 * time.Second
)

// errAnswerTooLarge ends an answer that is larger than any can be.
var errAnswerTooLarge = errors.New("the answer is too large")

// answer passes an answer to the program.
type answer struct {
	*meteredCall
	from     *upstream
	call     session.Call
	forecast wire.Forecast
	// strip: the program has not requested the usage.
	strip bool
	// countedTokens is how many of its tokens are counted towards the provider's limits already.
	countedTokens int64

	began time.Time
	meter *wire.Meter
	out   io.Writer
	kept  []byte
	size  int64
	// progress is the size of the content that was received, and progressAt the time of its last piece.
	progress   int64
	progressAt time.Time
	// reportedSize is the size at the last report of the spending, and countReported is set when
	// the provider's first count was reported.
	reportedSize  int64
	countReported bool
	booked        bool
	// whole is set when only the end is missing. programGone: the program has disconnected.
	whole       atomic.Bool
	programGone bool
	// stopReason is why the call must stop: the budget is exhausted, or it cannot be booked.
	stopReason error
}

// forward passes the answer to the program, and books it. It books an answer before it passes the
// last bytes, so that a program never acts on an answer that a retry would pay for again.
func (a *answer) forward() {
	a.began = a.gateway.o.Now()
	header := a.from.response.Header
	a.meter = wire.NewMeter(a.parsed.Format, a.parsed.Choices, header.Get("Content-Type"))
	a.meter.Header(header)
	for name, values := range header {
		a.w.Header()[name] = values
	}
	a.w.WriteHeader(http.StatusOK)
	a.out = a.w
	if a.strip {
		a.out = &wire.UsageStripper{To: a.w}
	}
	a.from.detach()
	stop := context.AfterFunc(a.r.Context(), func() {
		if a.whole.Load() {
			time.AfterFunc(drainTimeout, func() { a.from.cancel(errDisconnected) })
			return
		}
		a.from.cancel(errDisconnected)
	})
	defer stop()
	err := a.forwardAll()
	a.finish(err)
}

// forwardAll passes on the answer to its end. An error is the reason why it is not complete.
func (a *answer) forwardAll() error {
	part := a.from.first
	buffer := a.from.first[:cap(a.from.first)]
	for {
		a.forwardPart(part)
		if a.stopReason != nil {
			return a.stopReason
		}
		if a.size > a.gateway.o.MaxAnswer || a.meter.Facts().Bytes > maxTokenBytes*a.forecast.MaxOutput+answerSlack {
			return errAnswerTooLarge
		}
		n, err := a.from.response.Body.Read(buffer)
		if n == 0 && err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		part = buffer[:n]
	}
}

// forwardPart meters a part and passes it on.
func (a *answer) forwardPart(part []byte) {
	a.size += int64(len(part))
	_, _ = a.meter.Write(part) // never fails
	if a.size <= maxStored {
		a.kept = append(a.kept, part...)
	}
	facts := a.meter.Facts()
	if now := a.meter.Progress(); now > a.progress || facts.Whole { // pings and empty pieces are no progress
		a.progress, a.progressAt = now, a.gateway.o.Now()
		a.from.timer.Reset(a.gateway.o.Idle)
	}
	a.whole.Store(facts.Whole)
	if facts.Ended && a.meter.End().Fault == nil && !a.booked {
		a.settle(facts)
	}
	if a.programGone || a.stopReason != nil {
		return
	}
	control := http.NewResponseController(a.w)
	_ = control.SetWriteDeadline(a.gateway.o.Now().Add(a.gateway.o.Idle)) // a connection supports deadlines
	_, err := a.out.Write(part)
	if err == nil {
		err = control.Flush()
	}
	a.programGone = err != nil
	a.reportSpending(facts)
}

// reportSpending reports the cost of the call so far.
func (a *answer) reportSpending(facts wire.Facts) {
	if a.booked {
		return
	}
	if facts.Counted && !a.countReported {
		a.countReported, a.reportedSize = true, a.size
		used := a.forecast.Priced(facts.Usage, facts.Tier)
		expected := a.forecast.Priced(cost.Usage{OutputTokens: min(wire.UsualOutput, a.forecast.MaxOutput)}, facts.Tier)
		a.stopIf(a.call.Report(used, expected), facts)
		return
	}
	if a.size-a.reportedSize >= reportEvery {
		a.reportedSize = a.size
		a.stopIf(a.call.Spending(a.forecast.Spent(facts)), facts)
	}
}

// stopIf stops an answer that exceeds its budget, unless it is whole: then its cost does not grow.
func (a *answer) stopIf(err error, facts wire.Facts) {
	if err != nil && !facts.Whole {
		a.stopReason = err
	}
}

// finish books the call if it is not booked yet, ends the program's answer, and reports to the breaker.
func (a *answer) finish(err error) {
	if errors.Is(err, errAnswerTooLarge) { // the program would repeat the request
		a.fail(failures.Failf(failures.APIError, "provider %s sent an answer of more than %d KB, longer than the request permits",
			a.provider.Name, a.size>>10))
	}
	facts := a.meter.Facts()
	if err == nil {
		facts = a.meter.End()
	}
	if facts.Whole && facts.Fault == nil && !a.booked {
		a.settle(facts)
	}
	if a.booked {
		a.report(nil)
		if a.stopReason != nil { // an answer that is not booked is not used
			panic(http.ErrAbortHandler)
		}
		a.deliver()
		return
	}
	a.noteStall(a.progressAt)
	a.unsettle(facts, err)
	var f *failures.Failure
	switch {
	case errors.As(a.stopReason, &f):
		a.fail(f)
		if a.isStream() {
			// the program may have disconnected
			_, _ = a.out.Write(a.provider.API.RefuseInStream(a.parsed.Format, wire.BudgetSpent, f.Message))
			return
		}
	case a.stopReason != nil:
		a.failIfNotBooked(a.stopReason)
	case facts.Fault != nil:
		failure := wire.Failure(facts.Fault, a.provider.Name, a.gateway.o.Now())
		a.report(failure)
		if failure.Category == failures.Auth { // as without an answer
			a.fail(failure)
		}
	case !errors.Is(cause(a.r.Context(), err), context.Canceled) && a.ctx.Err() == nil:
		a.report(failures.Failf(failures.APIError, "the answer of provider %s was incomplete: %v", a.provider.Name, err))
	}
	a.deliver()
	if err != nil || facts.Fault != nil && a.parsed.Format.BreaksOff() {
		panic(http.ErrAbortHandler) // the program gets a connection error
	}
}

// isStream reports whether the answer is a stream of events.
func (a *answer) isStream() bool {
	return strings.HasPrefix(a.from.response.Header.Get("Content-Type"), "text/event-stream")
}

// deliver passes on buffered data. An answer that did not reach the program is noted: the program
// gets it when it repeats the request.
func (a *answer) deliver() {
	if s, ok := a.out.(*wire.UsageStripper); ok && !a.programGone {
		a.programGone = s.Flush() != nil
	}
	if a.booked && (a.programGone || a.r.Context().Err() != nil) {
		a.undelivered(a.call.ID())
	}
}

// settle books the answer. It stores it, unless it is too large or contains a secret.
func (a *answer) settle(facts wire.Facts) {
	facts = a.forecast.Checked(facts)
	used := a.forecast.Spent(facts)
	a.scale.Wrote(used.OutputTokens, a.gateway.o.Now().Sub(a.began))
	if facts.Counted && a.parsed.Elsewhere+used.WebSearches == 0 { // the request contained the whole prompt
		a.scale.Learn(used.Prompt(), a.parsed.Size)
	}
	var document []byte
	if a.size <= maxStored {
		// The end of the last event, or of Gemini's list of documents, may be in the next part.
		if text := bytes.TrimSpace(a.kept); a.isStream() {
			a.kept = append(a.kept, "\n\n"...)
		} else if len(text) > 0 && text[0] == '[' && text[len(text)-1] != ']' {
			a.kept = append(a.kept, ']')
		}
		document, _ = json.Marshal(stored{a.from.response.Header.Get("Content-Type"), a.kept}) // bytes and a text
		if text := string(a.kept); a.attempt.Mask(text) != text {
			document = nil
		}
	}
	if tier := a.forecast.Unlisted(facts); tier != "" {
		a.gateway.o.Log.Warn("A call was answered in a service tier without prices, and booked at those of the usual one; add the "+
			"tier to the model's prices",
			"provider", a.provider.Name, "model", a.parsed.Model, "tier", tier)
	}
	how := cmp.Or(facts.Stop, "complete") + facts.Answer().Mark()
	if facts.Differs != "" {
		a.gateway.o.Log.Warn("The counts of a provider do not agree; the higher figure is booked", "provider", a.provider.Name, "model",
			a.parsed.Model, "why", facts.Differs)
	}
	a.writeTranscript(how, used)
	ctx := context.WithoutCancel(a.ctx) // booked also after the end of the attempt
	a.call.Answered(facts.Answer())
	a.addToBill(used, cost.Usage{}, false)
	a.stopReason = a.call.Settle(ctx, document, used)
	a.booked = true
	a.failIfNotBooked(a.stopReason)
	a.countTokens(used)
}

// writeTranscript adds the answer to the transcript, before the program gets the end of it.
func (a *answer) writeTranscript(how string, used cost.Usage) {
	a.transcript.writeAnswer(a.from.response.Header.Get("Content-Type"), a.kept, how, used)
}

// unsettle books the known cost of a broken call, and an estimate of the rest. err is why it has no end.
func (a *answer) unsettle(facts wire.Facts, err error) {
	how := "broken off"
	switch {
	case facts.Fault != nil:
		err = facts.Fault
		how += ": " + facts.Fault.Error()
	case a.stopReason != nil:
		how += ": " + a.stopReason.Error()
	}
	used, rest := a.forecast.Incomplete(facts, err, a.likelyOutput(a.scale.Writes(a.gateway.o.Now().Sub(a.began))))
	spent := used.Add(rest)
	a.writeTranscript(how, spent)
	said := facts.Answer()
	said.Category = cmp.Or(said.Category, failures.APIError)
	a.call.Answered(said)
	a.end(a.call, used, rest)
	a.countTokens(spent)
}

// countTokens counts the tokens of the call towards the provider's limits.
func (a *answer) countTokens(used cost.Usage) {
	a.provider.limits.addTokens(a.gateway.o.Now(), used.Tokens()-a.countedTokens)
}

// bookFailure books a call without an answer, and reports to the breaker.
func (p *meteredCall) bookFailure(call session.Call, u *upstream, f wire.Forecast) *failures.Failure {
	failure := wire.Failure(u.err, p.provider.Name, p.gateway.o.Now())
	call.Answered(session.CallAnswer{Category: failure.Category})
	used, rest := f.Incomplete(wire.Facts{}, u.err, p.likelyOutput(wire.UsualOutput))
	p.end(call, used, rest)
	p.transcript.writeFailed(failure.Message)
	if p.ctx.Err() == nil && p.r.Context().Err() == nil {
		p.report(failure)
	}
	return failure
}

// likelyOutput returns the likely number of tokens of an answer of which no byte was received. It is the usual number, unless the
// program has disconnected from an answer that is no stream: servers complete it, and it may cost all that its bound permits.
func (p *meteredCall) likelyOutput(usual int64) int64 {
	if !p.parsed.Stream && p.r.Context().Err() != nil {
		return p.forecast.MaxOutput
	}
	return usual
}

// report reports an outcome to the breaker: a failure, or nil for an answer. A call fails once, however often it is
// tried. A rejected request or a refused key is no failure of the provider.
func (p *meteredCall) report(f *failures.Failure) {
	if p.attempt.Breaker == nil || f != nil &&
		(p.failureReported || f.Final || failures.RuleFor(f.Category).Breaker != failures.CountsAsFailure) {
		return
	}
	p.failureReported = f != nil
	p.attempt.Breaker.Report(f)
}

// end books a call without a whole answer, also after the end of the attempt.
func (p *meteredCall) end(call session.Call, used, rest cost.Usage) {
	p.addToBill(used, cost.Usage{}, rest != (cost.Usage{}))
	p.failIfNotBooked(session.EndCall(context.WithoutCancel(p.ctx), call, used, rest))
}

// failIfNotBooked ends the attempt if the cost of a call could not be booked.
func (p *meteredCall) failIfNotBooked(err error) {
	if err != nil && p.ctx.Err() == nil {
		p.fail(failures.Failf(failures.ResourceError, "the gateway cannot book the cost of a call: %v", err))
	}
}
