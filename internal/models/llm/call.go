package llm

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/models/wire"
)

// spendEvery is after how many bytes of an answer the estimate of its cost is reported again.
const spendEvery = 2048

// errIdle aborts a call whose answer makes no progress for IdleTimeout, or for patienceFirst times of it before the first
// token.
var errIdle = errors.New("no progress")

const patienceFirst = 2

// maxAnswer bounds the body of an answer, in bytes.
const maxAnswer = 64 << 20

// receiver receives the answer of a call.
type receiver struct {
	*run
	forecast wire.Forecast
	// paid records the call's cost.
	paid session.Call
	// idle ends the call when no content comes.
	idle *time.Timer
	// meter reads the answer; nil until one has begun.
	meter *wire.Meter
	// progress is what was received of the answer's content, in bytes, and reported how much of it when the cost was last
	// reported, with the counted usage.
	progress, reported int64
	counted            cost.Usage
	// spent is the last reported cost, which only grows.
	spent cost.Usage
	// said: text was received and written to the transcript.
	said bool
	// abortErr is why the call has to be aborted.
	abortErr error
}

// call calls the model. The error is a *failures.Failure, or the cause of the context's end. With
// an error, used is what the call has cost, and rest an estimate of its further cost; zero if there is none.
func (r *run) call(ctx context.Context, turn int, f wire.Forecast, paid session.Call) (_ Answer, used, rest cost.Usage,
	err error,
) {
	r.log.Turn("turn %d: asking %s", turn, r.Model)
	r.say(fmt.Sprintf("turn %d: asking %s", turn, r.Model))
	calling, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	h := &receiver{run: r, forecast: f, paid: paid, idle: time.AfterFunc(patienceFirst*r.IdleTimeout, func() { stop(errIdle) })}
	defer h.idle.Stop()
	items, facts, err := h.receive(calling)
	r.log.End()
	if err == nil {
		answer := r.accept(items, f.Checked(facts), turn)
		answer.Usage, answer.Counted = f.Spent(facts), facts.Counted
		r.writeAnswer(answer, h.said)
		return answer, used, rest, nil
	}
	used, rest = f.Incomplete(facts, err, wire.UsualOutput)
	if stopped := ended(ctx); stopped != nil {
		return Answer{}, used, rest, stopped
	}
	if h.abortErr != nil {
		return Answer{}, used, rest, h.abortErr
	}
	if errors.Is(context.Cause(calling), errIdle) {
		return Answer{}, used, rest, failures.Failf(failures.APIError,
			"the provider's answer made no progress for %s (idle_timeout; before the first token %d times as long)", r.IdleTimeout,
			patienceFirst)
	}
	failed := wire.Failure(err, "", r.Now())
	tooLong := Answer{Stop: wire.Overflowed, Text: r.Mask(failed.Message), Usage: used.Add(rest)}
	switch {
	case failed.Category == failures.RateLimited && failed.Final:
		tooLong.Stop = wire.AboveLimit
		return tooLong, used, rest, nil
	case failed.Category == failures.ContextOverflow, r.mayOverflow(err, f):
		return tooLong, used, rest, nil
	}
	return Answer{}, used, rest, failed
}

// mayOverflow reports whether a request that the provider rejects without a known reason is about as long as what the
// model can read.
func (r *run) mayOverflow(err error, f wire.Forecast) bool {
	var fault *wire.Fault
	return errors.As(err, &fault) && fault.Rejects() && f.Guess() > r.ContextTokens-r.ContextTokens/10-r.MaxOutputTokens
}

// receive makes the call and receives its answer. With an error, facts are what the answer has stated before.
func (h *receiver) receive(ctx context.Context) (items []wire.Item, facts wire.Facts, err error) {
	prompt := h.talk.prompt
	prompt.MaxOutput = h.forecast.MaxOutput
	request, err := h.API.NewRequest(h.BaseURL, h.Key, prompt)
	if err != nil {
		return nil, facts, wire.Unsent{Err: err}
	}
	response, err := wire.Transport{RoundTripper: h.Transport}.RoundTrip(request.WithContext(ctx))
	if err != nil {
		return nil, facts, err
	}
	defer response.Body.Close() //nolint:errcheck // read to its end, or aborted
	if !wire.Answered(response.StatusCode) {
		fault, _ := wire.FaultOf(response, h.Mask)
		return nil, facts, fault
	}
	format := h.API.Programs().Spoken
	content, err := wire.Open(format, response)
	if err != nil {
		return nil, facts, err
	}
	body := bufio.NewReader(io.LimitReader(content, maxAnswer))
	first, err := firstByte(body)
	if err != nil {
		return nil, facts, err
	}
	kind := "application/json" // also if a stream was requested, or promised
	if first != '{' {
		kind = "text/event-stream"
	}
	h.meter = wire.NewMeter(format, 1, kind)
	h.meter.Header(response.Header)
	answer := wire.NewAnswer(format)
	err = h.read(answer, wire.Documents(first != '{', metered{body, h.meter}))
	if facts = h.meter.Facts(); err == nil {
		facts = h.meter.End()
	}
	items = answer.Items()
	switch {
	case h.abortErr != nil:
		return nil, facts, h.abortErr
	case facts.Fault != nil:
		return nil, facts, facts.Fault
	// the answer is complete, however the stream ends. It is paid for, so use it
	case facts.Stop != "", facts.Ended && len(items) > 0:
		return items, facts, nil
	case err == nil:
		err = &wire.Fault{Status: http.StatusOK, Cut: true, Message: "it has no end"}
	}
	return nil, facts, err
}

// firstByte returns the first byte that is not space. Servers send spaces while the model works.
func firstByte(r *bufio.Reader) (byte, error) {
	for {
		b, err := r.ReadByte()
		if err != nil {
			return 0, err
		}
		if b != ' ' && b != '\t' && b != '\r' && b != '\n' {
			return b, r.UnreadByte()
		}
	}
}

// metered reads an answer to its end, or to an error: a server may not close the connection.
type metered struct {
	io.Reader
	meter *wire.Meter
}

// Read reads the next part.
func (m metered) Read(p []byte) (int, error) {
	if facts := m.meter.Facts(); facts.Ended || facts.Fault != nil && facts.Stop == "" {
		return 0, io.EOF
	}
	n, err := m.Reader.Read(p)
	_, _ = m.meter.Write(p[:n]) // never fails
	return n, err
}

// read reads the documents of an answer to its end. The error is why it has none.
func (h *receiver) read(answer *wire.Answer, documents iter.Seq2[[]byte, error]) error {
	for document, err := range documents {
		if err != nil {
			return err
		}
		text := answer.Add(document)
		for _, line := range h.log.Piece(text) {
			h.say(line)
		}
		h.said = h.said || strings.TrimSpace(text) != ""
		if h.spend(h.meter.Facts()); h.abortErr != nil {
			return nil
		}
	}
	return nil
}

// spend reports the cost of the answer so far. If it exceeds its budget, the call is aborted, unless the answer is
// complete: then it is paid for and usable.
func (h *receiver) spend(facts wire.Facts) {
	if now := h.meter.Progress(); now > h.progress {
		h.progress = now
		h.idle.Reset(h.IdleTimeout)
	}
	news := facts.Counted && facts.Usage != h.counted
	if !news && h.progress-h.reported < spendEvery {
		return
	}
	h.reported, h.counted, h.spent = h.progress, facts.Usage, h.spent.Max(h.forecast.Spent(facts))
	if err := h.paid.Spending(h.spent); err != nil && !facts.Whole {
		h.abortErr = err
	}
}

// accept prepares an answer for storage and use: it masks secrets, and makes tool calls well-formed with unique ids.
func (r *run) accept(items []wire.Item, facts wire.Facts, turn int) Answer {
	answer := Answer{Stop: wire.EndingOf(facts.Stop), Said: facts.Answer()}
	seen := map[string]bool{}
	for _, it := range items {
		text := r.Mask(strings.ToValidUTF8(it.Text, "\uFFFD"))
		switch it.Kind { //nolint:exhaustive // others are not in answers
		case wire.Said:
			answer.Text += text
		case wire.Declined:
			answer.Stop, answer.Text = wire.Filtered, answer.Text+text
		case wire.Thought:
			// A thought with a masked secret cannot be sent back unchanged, so it is dropped.
			if text == it.Text && r.API.Programs().Spoken.RepeatsThoughts() {
				answer.Thinking = append(answer.Thinking, wire.Thinking{Text: it.Text, Signature: it.Signature, Redacted: it.Redacted})
			}
		case wire.ToolCall:
			c := wire.Call{ID: r.Mask(it.ID), Name: r.Mask(strings.ToValidUTF8(it.Name, "\uFFFD")), Arguments: it.Text}
			r.tidy(&c)
			if c.ID == "" || seen[c.ID] {
				c.ID = fmt.Sprintf("call_%d_%d", turn, len(answer.Calls)+1)
			}
			seen[c.ID] = true
			answer.Calls = append(answer.Calls, c)
		}
	}
	answer.Text = strings.TrimSpace(r.Mask(answer.Text)) // a secret may begin in one part and end in the next
	return answer
}

// tidy converts a call's arguments into a JSON object without secrets.
func (r *run) tidy(c *wire.Call) {
	raw := strings.TrimSpace(c.Arguments)
	if raw == "" {
		raw = "{}"
	}
	decoder := json.NewDecoder(bytes.NewReader([]byte(raw)))
	decoder.UseNumber()
	var object map[string]any
	err := decoder.Decode(&object)
	masked := r.Mask(string(wire.Encode(r.maskValue(object))))
	if err != nil || object == nil || decoder.More() || !json.Valid([]byte(masked)) {
		c.Arguments, c.Broken = "{}", textfmt.Shorten(r.Mask(raw), 500)
		return
	}
	c.Arguments, c.Masked = masked, masked != string(wire.Encode(object))
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
