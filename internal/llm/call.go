package llm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/textfmt"
	"github.com/maestro-hive/maestro/internal/wire"
)

// spendEvery is after how many bytes of an answer the estimate of its cost is reported again.
const spendEvery = 2048

// errIdle aborts a call whose answer makes no progress for IdleTimeout, or for patienceFirst times of it before the first
// token.
var errIdle = errors.New("no progress")

const patienceFirst = 2

// spending is the cost of a call without an answer: what the provider has counted, and an estimate of the rest. whole:
// there is no rest.
type spending struct {
	used, rest cost.Usage
	whole      bool
}

func (s spending) sum() cost.Usage { return s.used.Add(s.rest) }

// receiver collects what was received of an answer.
type receiver struct {
	run      *run
	turn     int
	forecast wire.Forecast
	// paid records the call's cost; may be nil.
	paid session.Call
	// limit bounds the tokens of the answer.
	limit int64
	// usage is what the provider has counted; nil: nothing yet.
	usage    *cost.Usage
	bytes    int
	reported int
	received Received
	// progress is what was received of the answer's content, and idle ends the call when there is none.
	progress int64
	idle     *time.Timer
	// began is set when a part of the answer was received.
	began bool
	// calls is the number of received tool calls; said is set once text was received.
	calls int
	said  bool
	// abortErr is why the call has to be aborted.
	abortErr error
}

// call calls the model. The error is a *failures.Failure, or the cause of the context's end. With
// an error, spending has the cost of the call.
func (r *run) call(ctx context.Context, turn int, f wire.Forecast, limit int64, paid session.Call) (Answer, spending, error) {
	r.log.Turn("turn %d: asking %s", turn, r.Model)
	r.say(fmt.Sprintf("turn %d: asking %s", turn, r.Model))
	calling, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	h := &receiver{run: r, turn: turn, forecast: f, limit: limit, paid: paid}
	h.idle = time.AfterFunc(patienceFirst*r.IdleTimeout, func() { stop(errIdle) })
	defer h.idle.Stop()
	client := &http.Client{
		Transport: transport{wire.Transport{RoundTripper: r.Transport}, formats[wire.API(r.Kind)], &h.received},
		CheckRedirect: func(to *http.Request, _ []*http.Request) error {
			return fmt.Errorf("it redirects to %s, to which the key is not sent; set base_url to that address if it is right", to.URL.Host)
		},
	}
	answer, err := r.Provider.Ask(calling, r.talk.request(limit), Exchange{HTTP: client, Received: &h.received, OnEvent: h.onStreamEvent})
	r.log.End()
	if err == nil {
		answer = r.accept(answer, h)
		r.writeAnswer(answer, h.said, h.calls)
		return answer, spending{}, nil
	}
	if stopped := ended(ctx); stopped != nil {
		return Answer{}, h.spent(err), stopped
	}
	if h.abortErr != nil {
		return Answer{}, h.spent(err), h.abortErr
	}
	if errors.Is(context.Cause(calling), errIdle) {
		return Answer{}, h.spent(err), failures.Failf(failures.APIError, "the provider's answer made no progress for %s (idle_timeout; before the first token %d times as long)", r.IdleTimeout, patienceFirst)
	}
	failed := wire.Failure(err, "", r.Now())
	tooLong := Answer{Stop: Overflow, Text: r.Mask(failed.Message), Usage: h.spent(err).sum()}
	switch {
	case failed.Category == failures.RateLimited && failed.Final:
		tooLong.Stop = AboveLimit
		return tooLong, spending{}, nil
	case failed.Category == failures.ContextOverflow, r.mayOverflow(err, f):
		return tooLong, spending{}, nil
	}
	return Answer{}, h.spent(err), failed
}

// mayOverflow reports whether a request that the provider rejects without a known reason is about as long as what the
// model can read.
func (r *run) mayOverflow(err error, f wire.Forecast) bool {
	var fault *wire.Fault
	return errors.As(err, &fault) && fault.Rejects() && f.Guess() > r.ContextTokens-r.ContextTokens/10-r.MaxOutputTokens
}

// onStreamEvent handles an event of the stream. If the answer exceeds its budget, the call is
// aborted, unless the answer is complete: then it is paid for and usable.
func (h *receiver) onStreamEvent(e Event) error {
	h.show(e)
	h.began = true
	if e.Progress > h.progress {
		h.progress = e.Progress
		h.idle.Reset(h.run.IdleTimeout)
	}
	if e.Usage != nil {
		h.usage = e.Usage
	}
	h.bytes += e.Bytes
	if e.Usage == nil && h.bytes-h.reported < spendEvery || h.paid == nil {
		return nil
	}
	h.reported = h.bytes
	if err := h.paid.Spending(h.soFar()); err != nil && !e.Whole {
		h.abortErr = err
	}
	return h.abortErr
}

// show writes received text and tool calls to the transcript.
func (h *receiver) show(e Event) {
	for _, line := range h.run.log.Piece(e.Text) {
		h.run.say(line)
	}
	h.said = h.said || strings.TrimSpace(e.Text) != ""
	if e.Call == nil {
		return
	}
	call := *e.Call
	call.Name = h.run.Mask(call.Name)
	h.run.tidy(&call)
	gist := h.run.writeCall(call)
	h.calls++
	h.run.say(gist)
}

// soFar returns the cost up to now: what the provider has counted, and an estimate of the rest.
func (h *receiver) soFar() cost.Usage {
	output := min(wire.TokensOf(int64(h.bytes)), h.limit)
	if h.usage == nil {
		return h.forecast.Estimated(output)
	}
	u := *h.usage
	u.OutputTokens = max(u.OutputTokens, output)
	return h.forecast.Priced(u, "")
}

// complete estimates costs that a server does not report. counted reports whether the server has
// counted the prompt.
func (h *receiver) complete(u cost.Usage, tier string) (complete cost.Usage, counted bool) {
	guess := h.forecast.Estimated(min(wire.TokensOf(int64(h.bytes)), h.limit))
	if u.OutputTokens == 0 {
		u.OutputTokens = guess.OutputTokens
	}
	counted = u.Tokens() > u.OutputTokens
	if !counted {
		u.InputTokens, u.CacheReadTokens, u.CacheWriteTokens = guess.InputTokens, guess.CacheReadTokens, guess.CacheWriteTokens
	}
	return h.forecast.Priced(u, tier), counted
}

// spent returns the cost of a call that ended with an error.
func (h *receiver) spent(err error) spending {
	var fault *wire.Fault
	ended := errors.As(err, &fault) && !fault.Cut // by the provider
	switch {
	case h.usage == nil && h.bytes == 0 && (wire.Unbilled(err) || ended && !h.began):
		return spending{whole: true}
	case h.usage == nil && h.bytes == 0:
		return spending{rest: h.forecast.Estimated(min(wire.UsualOutput, h.limit))}
	case h.usage == nil:
		return spending{rest: h.soFar()}
	}
	used, all := h.forecast.Priced(*h.usage, ""), h.soFar()
	if all == used && !ended { // the model may have reasoned until now
		all.OutputTokens = max(all.OutputTokens, min(wire.UsualOutput, h.limit))
		all = h.forecast.Priced(all, "")
	}
	return spending{used, all.Minus(used), all == used}
}

// accept prepares an answer for storage and use: it masks secrets, makes tool calls well-formed
// with unique ids, and completes the usage.
func (r *run) accept(answer Answer, h *receiver) Answer {
	stated := wire.Facts{Usage: answer.Usage, Counted: true, Cost: answer.Usage.CostUSD, Tier: answer.Said.Tier, Differs: answer.Said.Differs}
	answer.Said.Differs = h.forecast.Checked(stated).Differs
	answer.Usage, answer.Counted = h.complete(answer.Usage, answer.Said.Tier)
	answer.Usage.CostUSD = max(answer.Usage.CostUSD, stated.Cost)
	answer.Text = strings.TrimSpace(r.Mask(strings.ToValidUTF8(answer.Text, "\uFFFD")))
	thinking := make([]Thinking, 0, len(answer.Thinking))
	for _, t := range answer.Thinking {
		// A thought with a masked secret cannot be sent back unchanged, so it is dropped.
		if masked := r.Mask(t.Text); masked == t.Text {
			thinking = append(thinking, t)
		}
	}
	answer.Thinking = thinking
	seen := map[string]bool{}
	for i := range answer.Calls {
		c := &answer.Calls[i]
		c.Name = r.Mask(strings.ToValidUTF8(c.Name, "\uFFFD"))
		r.tidy(c)
		c.ID = r.Mask(c.ID)
		if c.ID == "" || seen[c.ID] {
			c.ID = fmt.Sprintf("call_%d_%d", h.turn, i+1)
		}
		seen[c.ID] = true
	}
	return answer
}

// tidy converts a call's arguments into a JSON object without secrets.
func (r *run) tidy(c *Call) {
	raw := strings.TrimSpace(c.Arguments)
	if raw == "" {
		raw = "{}"
	}
	decoder := json.NewDecoder(bytes.NewReader([]byte(raw)))
	decoder.UseNumber()
	var object map[string]any
	err := decoder.Decode(&object)
	masked := r.Mask(string(encode(r.maskValue(object))))
	if err != nil || object == nil || decoder.More() || !json.Valid([]byte(masked)) {
		c.Arguments, c.Broken = "{}", textfmt.Shorten(r.Mask(raw), 500)
		return
	}
	c.Arguments, c.Masked = masked, masked != string(encode(object))
}

// maskValue masks the texts in a JSON value, however they are escaped.
func (r *run) maskValue(v any) any {
	switch v := v.(type) {
	case string:
		return r.Mask(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = r.maskValue(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, value := range v {
			out[r.Mask(key)] = r.maskValue(value)
		}
		return out
	}
	return v
}
