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

// spendEvery is after how many bytes of an answer the estimate of its cost is
// told again.
const spendEvery = 2048

// errIdle stops a call in which nothing came in for too long.
var errIdle = errors.New("no data")

// spending is what a call that brought no answer has cost, and whether that is
// known or an estimate.
type spending struct {
	used  cost.Usage
	known bool
}

// hearing is a call under way: what came in so far.
type hearing struct {
	run      *run
	turn     int
	forecast wire.Forecast
	// paid keeps what the call costs; nil: nobody does.
	paid session.Call
	// limit is the most tokens that the answer may have.
	limit int64
	// usage is what the provider has counted; nil: nothing yet.
	usage *cost.Usage
	bytes int
	told  int
	// calls counts the tool calls that came in, and said is set once text has.
	calls int
	said  bool
	// broke is why the call has to stop.
	broke error
}

// call asks the model. An error is a *failures.Failure, or the cause of the context's
// end; what the call has cost is then told beside it.
func (r *run) call(ctx context.Context, turn int, f wire.Forecast, limit int64, paid session.Call) (Answer, spending, error) {
	r.log.Turn("turn %d: asking %s", turn, r.Model)
	r.say(fmt.Sprintf("turn %d: asking %s", turn, r.Model))
	calling, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	idle := time.AfterFunc(r.IdleTimeout, func() { stop(errIdle) })
	defer idle.Stop()
	h := &hearing{run: r, turn: turn, forecast: f, limit: limit, paid: paid}
	client := &http.Client{
		Transport: meter{r.Transport, func() { idle.Reset(r.IdleTimeout) }},
		CheckRedirect: func(to *http.Request, _ []*http.Request) error {
			return fmt.Errorf("it redirects to %s, to which the key is not sent; set base_url to that address if it is right", to.URL.Host)
		},
	}
	answer, err := r.Provider.Ask(calling, r.talk.request(limit), Exchange{HTTP: client, Hear: h.onStreamEvent})
	r.log.End()
	if err == nil {
		answer = r.accept(answer, h)
		r.tell(answer, h.said, h.calls)
		return answer, spending{}, nil
	}
	if stopped := ended(ctx); stopped != nil {
		return Answer{}, h.spent(err), stopped
	}
	if h.broke != nil {
		return Answer{}, h.spent(err), h.broke
	}
	if errors.Is(context.Cause(calling), errIdle) {
		return Answer{}, h.spent(err), failures.Failf(failures.APIError, "no data from the provider for %s (idle_timeout)", r.IdleTimeout)
	}
	failed := wire.Failure(err, "", r.Now())
	if failed.Category == failures.ContextOverflow && wire.Unbilled(err) {
		return Answer{Stop: Overflow}, spending{}, nil
	}
	return Answer{}, h.spent(err), failed
}

// onStreamEvent takes up a piece of news. An answer that spends more than it may is read
// no further, unless it is whole: then it is paid for, and of use.
func (h *hearing) onStreamEvent(e Event) error {
	h.tell(e)
	if e.Usage != nil {
		h.usage = e.Usage
	}
	h.bytes += e.Bytes
	if e.Usage == nil && h.bytes-h.told < spendEvery || h.paid == nil {
		return nil
	}
	h.told = h.bytes
	if err := h.paid.Spending(h.soFar()); err != nil && !e.Whole {
		h.broke = err
	}
	return h.broke
}

// tell has people see what came in.
func (h *hearing) tell(e Event) {
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
	gist := h.run.tellCall(call)
	h.calls++
	h.run.say(gist)
}

// soFar is what the call has cost up to now: what the provider has counted, and
// an estimate of the rest.
func (h *hearing) soFar() cost.Usage {
	output := min(wire.TokensOf(int64(h.bytes)), h.limit)
	if h.usage == nil {
		return h.forecast.Estimated(output)
	}
	u := *h.usage
	u.OutputTokens = max(u.OutputTokens, output)
	return h.forecast.Priced(u, "")
}

// complete fills in what a server does not say of the cost: an estimate is nearer
// to the truth than nothing. counted reports whether it says what the prompt cost.
func (h *hearing) complete(u cost.Usage, tier string) (complete cost.Usage, counted bool) {
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

// spent is what a call has cost that ended with an error.
func (h *hearing) spent(err error) spending {
	if h.usage == nil && h.bytes == 0 && wire.Unbilled(err) {
		return spending{known: true}
	}
	if h.usage == nil && h.bytes == 0 {
		return spending{used: h.forecast.Estimated(min(wire.UsualOutput, h.limit))}
	}
	return spending{used: h.soFar()}
}

// accept makes an answer fit to be kept and used: without secrets, its calls
// well-formed and with ids of their own, its usage complete.
func (r *run) accept(answer Answer, h *hearing) Answer {
	answer.Usage, answer.Counted = h.complete(answer.Usage, answer.Said.Tier)
	answer.Text = strings.TrimSpace(r.Mask(strings.ToValidUTF8(answer.Text, "\uFFFD")))
	thinking := make([]Thinking, 0, len(answer.Thinking))
	for _, t := range answer.Thinking {
		// A thought with a secret in it cannot be given back as it was.
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

// tidy makes a call's arguments a JSON object without secrets.
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

// maskValue masks the texts in a JSON value, however they were written.
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
