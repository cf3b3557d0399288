// Package openai implements [llm.Provider] for OpenAI's Chat Completions and the servers that are
// compatible with it.
package openai

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"

	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/llm"
	"github.com/maestro-hive/maestro/internal/wire"
)

// Provider calls models with a Chat Completions API.
type Provider struct {
	// BaseURL is the server's address up to /chat/completions; empty: OpenAI's.
	BaseURL string
	// Key is the API key; empty: the server needs none.
	Key string
}

// Ask makes one streamed call.
func (p Provider) Ask(ctx context.Context, request llm.Request, x llm.Exchange) (llm.Answer, error) {
	// Do not read options from the environment, as the client does by default.
	options := []option.RequestOption{option.WithBaseURL(wire.OpenAI.Base(p.BaseURL)), option.WithHTTPClient(x.HTTP), option.WithMaxRetries(0)}
	if p.Key != "" {
		options = append(options, option.WithAPIKey(p.Key))
	}
	completions := sdk.NewChatCompletionService(options...)
	stream := completions.NewStreaming(ctx, params(request, wire.PublicOpenAI(p.BaseURL)))
	defer stream.Close() //nolint:errcheck // read to its end, or aborted
	c := collector{meter: wire.NewMeter(wire.ChatCompletions, 1, "")}
	for stream.Next() {
		if err := x.OnEvent(c.take(stream.Current())); err != nil {
			return llm.Answer{}, err
		}
	}
	err := stream.Err()
	fault := c.meter.Facts().Fault
	var inStream *ssestream.StreamError
	switch {
	case errors.As(err, &inStream):
		return llm.Answer{}, wire.ReadFault(http.StatusOK, nil, inStream.Event.Data)
	case fault != nil:
		return llm.Answer{}, fault
	case c.finish != "": // the answer is complete, however the stream ends. It is paid for, so use it
	case err != nil:
		return llm.Answer{}, wire.Broken(err)
	default:
		return llm.Answer{}, &wire.Fault{Status: http.StatusOK, Cut: true, Message: "it has no end"}
	}
	for i := range c.calls {
		if err := x.OnEvent(llm.Event{Call: &c.calls[i], Whole: true}); err != nil {
			return llm.Answer{}, err
		}
	}
	return c.answer(), nil
}

// collector assembles an answer from its chunks.
type collector struct {
	text, refusal strings.Builder
	calls         []llm.Call
	// places maps the index of a chunk's call to the call of the answer.
	places map[int64]int
	finish string
	meter  *wire.Meter
	// counted is the usage that was last reported.
	counted cost.Usage
}

// take adds a chunk, and returns what is new in it.
func (c *collector) take(chunk sdk.ChatCompletionChunk) llm.Event {
	event := llm.Event{}
	_, _ = c.meter.Write([]byte(chunk.RawJSON())) // never fails
	if facts := c.meter.Facts(); facts.Counted && facts.Usage != c.counted {
		c.counted = facts.Usage
		event.Usage = &facts.Usage
	}
	for _, choice := range chunk.Choices {
		if choice.Index != 0 {
			continue
		}
		d := choice.Delta
		c.text.WriteString(d.Content)
		c.refusal.WriteString(d.Refusal)
		event.Bytes += len(d.Content) + len(d.Refusal)
		event.Text += d.Content + d.Refusal
		for _, part := range d.ToolCalls {
			event.Bytes += c.call(part)
		}
		if choice.FinishReason != "" {
			c.finish = choice.FinishReason
		}
	}
	event.Whole, event.Progress = c.finish != "", c.meter.Progress()
	return event
}

// call adds a part of a tool call. Some servers give every call the same index, or none. A part with another id than the
// call at its index, or with a name where that call has its arguments already, begins a call; a part with a known id
// continues that call.
func (c *collector) call(part sdk.ChatCompletionChunkChoiceDeltaToolCall) int {
	place, ok := c.places[part.Index]
	if known := slices.IndexFunc(c.calls, func(call llm.Call) bool { return part.ID != "" && call.ID == part.ID }); known >= 0 {
		place, ok = known, true
	} else if ok {
		last := c.calls[place]
		ok = (part.ID == "" || last.ID == "") && (part.Function.Name == "" || last.Name == "" || part.Function.Name == last.Name && last.Arguments == "" && part.ID == "")
	}
	if !ok {
		place = len(c.calls)
		c.calls = append(c.calls, llm.Call{})
	}
	if c.places == nil {
		c.places = map[int64]int{}
	}
	c.places[part.Index] = place
	call := &c.calls[place]
	call.ID, call.Name = cmp.Or(call.ID, part.ID), cmp.Or(call.Name, part.Function.Name)
	call.Arguments += part.Function.Arguments
	return len(part.Function.Arguments)
}

func (c *collector) answer() llm.Answer {
	facts := c.meter.Facts()
	a := llm.Answer{Text: c.text.String(), Calls: c.calls, Stop: llm.Done, Usage: facts.Usage, Said: facts.Answer()}
	a.Usage.CostUSD = facts.Cost
	switch wire.EndingOf(c.finish) {
	case wire.Filtered:
		a.Stop = llm.Refused
	case wire.CutOff:
		a.Stop = llm.Truncated
	case wire.Overflowed:
		a.Stop = llm.Overflow
	case wire.Complete, wire.Failed: // a failed answer has a fault
	}
	if c.refusal.Len() > 0 {
		a.Stop, a.Text = llm.Refused, a.Text+c.refusal.String()
	}
	return a
}
