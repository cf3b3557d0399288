package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/wire"
)

const (
	// spendEvery is after how many bytes of an answer the spending is told again.
	spendEvery = 2048
	// maxStored bounds an answer that is kept, in bytes.
	maxStored = 8 << 20
	// maxToken is more bytes than the tokens of an answer have on average.
	maxToken = 32
	// drain is how long the end of an answer is waited for whose program has gone.
	drain = 5 * time.Second
)

// errEndless breaks off an answer that is larger than any can be.
var errEndless = errors.New("the answer is too large")

// answer is an answer on its way to the program.
type answer struct {
	*paid
	from     *upstream
	call     session.Call
	forecast wire.Forecast
	// strip: the program has not asked for the usage.
	strip bool
	// limited is how many of its tokens count towards the provider's limits already.
	limited int64

	began time.Time
	meter *wire.Meter
	out   io.Writer
	kept  []byte
	size  int64
	// told is the size at which the spending was told, and reported is set when the provider's
	// first count was noted.
	told     int64
	reported bool
	booked   bool
	// whole is set when only the end is missing. gone: the program takes no more.
	whole atomic.Bool
	gone  bool
	// spent is why the call must stop: nothing is left to pay for it, or it cannot be booked.
	spent error
}

// pass passes the answer on, and books it. An answer that has ended is booked before its last
// bytes are passed, so that a program never acts on one that would be paid for again.
func (a *answer) pass() {
	a.began = a.gateway.o.Now()
	header := a.from.response.Header
	a.meter = wire.NewMeter(a.asked.Format, a.asked.Choices, header.Get("Content-Type"))
	for name, values := range header {
		a.w.Header()[name] = values
	}
	a.w.WriteHeader(http.StatusOK)
	a.out = a.w
	if a.strip {
		a.out = &wire.UsageStripper{To: a.w}
	}
	a.from.stay()
	stop := context.AfterFunc(a.r.Context(), func() {
		if a.whole.Load() {
			time.AfterFunc(drain, func() { a.from.cancel(errGone) })
			return
		}
		a.from.cancel(errGone)
	})
	defer stop()
	err := a.read()
	a.finish(err)
}

// read takes the answer to its end, and returns why it is not complete.
func (a *answer) read() error {
	part := a.from.first
	buffer := a.from.first[:cap(a.from.first)]
	for {
		a.take(part)
		if a.spent != nil {
			return a.spent
		}
		if a.size > a.gateway.o.MaxAnswer || a.meter.Facts().Bytes > maxToken*a.forecast.MaxOutput+maxError {
			return errEndless
		}
		n, err := a.from.response.Body.Read(buffer)
		if n == 0 && err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		a.from.timer.Reset(a.gateway.o.Idle)
		part = buffer[:n]
	}
}

// take meters a part and passes it on.
func (a *answer) take(part []byte) {
	a.size += int64(len(part))
	_, _ = a.meter.Write(part) // it takes everything
	if a.size <= maxStored {
		a.kept = append(a.kept, part...)
	}
	facts := a.meter.Facts()
	a.whole.Store(facts.Whole)
	if facts.Ended && facts.Fault == nil && !a.booked {
		a.settle(facts)
	}
	if a.gone || a.spent != nil {
		return
	}
	control := http.NewResponseController(a.w)
	_ = control.SetWriteDeadline(a.gateway.o.Now().Add(a.gateway.o.Idle)) // a connection has one
	_, err := a.out.Write(part)
	if err == nil {
		err = control.Flush()
	}
	a.gone = err != nil
	a.spending(facts)
}

// spending tells what the call has cost so far.
func (a *answer) spending(facts wire.Facts) {
	if a.booked {
		return
	}
	if facts.Counted && !a.reported {
		a.reported, a.told = true, a.size
		used := a.forecast.Priced(facts.Usage, facts.Tier)
		expected := a.forecast.Priced(cost.Usage{OutputTokens: min(wire.UsualOutput, a.forecast.MaxOutput)}, facts.Tier)
		a.stopIf(a.call.Report(used, expected), facts)
		return
	}
	if a.size-a.told >= spendEvery {
		a.told = a.size
		a.stopIf(a.call.Spending(a.forecast.Spent(facts)), facts)
	}
}

// stopIf stops an answer that spends more than there is, unless it is whole: then it is paid for.
func (a *answer) stopIf(err error, facts wire.Facts) {
	if err != nil && !facts.Whole {
		a.spent = err
	}
}

// finish books what is not booked yet, ends the program's answer, and tells the breaker.
func (a *answer) finish(err error) {
	if errors.Is(err, errEndless) { // the program would ask again and again
		a.fail(failures.Failf(failures.APIError, "provider %s sent an answer of %d KB, which goes on after all that was asked for", a.provider.Name, a.size>>10))
	}
	facts := a.meter.Facts()
	if facts.Whole && facts.Fault == nil && !a.booked {
		a.settle(facts)
	}
	if a.booked {
		a.report(nil)
		if a.spent != nil { // an answer that is not booked is not used
			panic(http.ErrAbortHandler)
		}
		a.deliver()
		return
	}
	a.unsettle(facts)
	var f *failures.Failure
	switch {
	case errors.As(a.spent, &f):
		a.fail(f)
		if a.events() {
			_, _ = a.out.Write(a.provider.API.RefuseInStream(a.asked.Format, wire.BudgetSpent, f.Message)) // it may have gone
			return
		}
	case a.spent != nil:
		a.note(a.spent)
	case facts.Fault != nil:
		a.report(wire.Failure(facts.Fault, a.provider.Name, a.gateway.o.Now()))
	case !errors.Is(cause(a.r.Context(), err), context.Canceled) && a.ctx.Err() == nil:
		a.report(failures.Failf(failures.APIError, "the answer of provider %s was incomplete: %v", a.provider.Name, err))
	}
	a.deliver()
	if err != nil || facts.Fault != nil && a.asked.Format == wire.GenerateContent { // Gemini CLI takes an error for the end
		panic(http.ErrAbortHandler) // the program sees that it broke off
	}
}

// events reports whether the answer is a stream of events.
func (a *answer) events() bool {
	return strings.HasPrefix(a.from.response.Header.Get("Content-Type"), "text/event-stream")
}

// deliver passes on what is held. An answer that did not reach the program is given to it when it
// asks again.
func (a *answer) deliver() {
	if s, ok := a.out.(*wire.UsageStripper); ok && !a.gone {
		a.gone = s.Flush() != nil
	}
	if a.booked && (a.gone || a.r.Context().Err() != nil) {
		a.attempt.Account.Undelivered(a.call.ID())
	}
}

// settle books the answer and stores it, if it is not too large and holds no secret.
func (a *answer) settle(facts wire.Facts) {
	used := a.forecast.Spent(facts)
	a.scale.Wrote(used.OutputTokens, a.gateway.o.Now().Sub(a.began))
	if facts.Counted && a.asked.Elsewhere+used.WebSearches == 0 { // all of the prompt was in the request
		a.scale.Learn(used.Prompt(), a.asked.Size)
	}
	var document []byte
	if a.size <= maxStored {
		if a.events() { // its last event may end in the next part
			a.kept = append(a.kept, "\n\n"...)
		}
		document, _ = json.Marshal(stored{a.from.response.Header.Get("Content-Type"), a.kept}) // bytes and a text
		if text := string(a.kept); a.attempt.Mask(text) != text {
			document = nil
		}
	}
	if tier := a.forecast.Unlisted(facts); tier != "" {
		a.gateway.o.Log.Warn("A call was answered in a service tier without prices, and booked at those of the usual one; add the tier to the model's prices",
			"provider", a.provider.Name, "model", a.asked.Model, "tier", tier)
	}
	a.recorded(cmp.Or(facts.Stop, "complete"), used)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(a.ctx), booking)
	defer cancel()
	a.call.Answered(facts.Answer())
	a.spent = a.call.Settle(ctx, document, used)
	a.booked = true
	a.note(a.spent)
	a.count(used)
}

// recorded adds the answer to the transcript, before the program has the end of it.
func (a *answer) recorded(how string, used cost.Usage) {
	a.record.answered(a.from.response.Header.Get("Content-Type"), a.kept, how, used)
}

// unsettle books what is known of a broken call, and an estimate of the rest.
func (a *answer) unsettle(facts wire.Facts) {
	var used cost.Usage
	if facts.Counted {
		used = a.forecast.Priced(facts.Usage, facts.Tier)
	}
	spent := a.forecast.Spent(facts)
	if !facts.Counted && facts.Bytes == 0 { // a model may have reasoned all the time
		spent = a.unknown(a.forecast, a.scale.Writes(a.gateway.o.Now().Sub(a.began)))
	}
	how := "broken off"
	switch {
	case facts.Fault != nil:
		how += ": " + facts.Fault.Error()
	case a.spent != nil:
		how += ": " + a.spent.Error()
	}
	a.recorded(how, spent)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(a.ctx), booking)
	defer cancel()
	said := facts.Answer()
	if said.Category == "" {
		said.Category = failures.APIError
	}
	a.call.Answered(said)
	a.note(a.call.Unsettle(ctx, used, spent.Minus(used)))
	a.count(spent)
}

// count has later calls wait for the tokens that this one took.
func (a *answer) count(used cost.Usage) {
	a.provider.limits.used(a.gateway.o.Now(), used.Tokens()-a.limited)
}
