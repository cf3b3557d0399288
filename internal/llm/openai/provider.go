// Package openai implements [llm.Provider] for OpenAI's Chat Completions and the servers that are
// compatible with it.
package openai

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
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
	// If the answer has its finish reason, it is complete, however the stream ends. It is paid
	// for, so use it.
	if err := stream.Err(); err != nil && c.finish == "" {
		return llm.Answer{}, translate(err)
	}
	if c.finish == "" {
		return llm.Answer{}, &wire.Fault{Status: http.StatusOK, Cut: true, Message: "response too large"}
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
	event.Whole = c.finish != ""
	return event
}

// call adds a part of a tool call. Some servers give every call the index 0, but start each one
// with a name.
func (c *collector) call(part sdk.ChatCompletionChunkChoiceDeltaToolCall) int {
	place, ok := c.places[part.Index]
	if ok && part.Function.Name != "" && json.Valid([]byte(c.calls[place].Arguments)) && (part.ID == "" || part.ID != c.calls[place].ID) {
		ok = false
	}
	if !ok {
		if c.places == nil {
			c.places = map[int64]int{}
		}
		place = len(c.calls)
		c.places[part.Index] = place
		c.calls = append(c.calls, llm.Call{})
	}
	call := &c.calls[place]
	if part.ID != "" {
		call.ID = part.ID
	}
	if part.Function.Name != "" {
		call.Name = part.Function.Name
	}
	call.Arguments += part.Function.Arguments
	return len(part.Function.Arguments)
}

func (c *collector) answer() llm.Answer {
	facts := c.meter.Facts()
	a := llm.Answer{Text: c.text.String(), Calls: c.calls, Stop: llm.Done, Usage: facts.Usage, Said: facts.Answer()}
	a.Usage.CostUSD = facts.Cost
	switch {
	case c.refusal.Len() > 0:
		a.Stop, a.Text = llm.Refused, a.Text+c.refusal.String()
	case c.finish == "content_filter":
		a.Stop = llm.Refused
	case c.finish == "length":
		a.Stop = llm.Truncated
	}
	return a
}

// translate converts an error of the SDK into a fault. It returns network errors unchanged.
func translate(err error) error {
	var api *sdk.Error
	var inStream *ssestream.StreamError
	switch {
	case errors.As(err, &api):
		var header http.Header
		if api.Response != nil {
			header = api.Response.Header
		}
		body := api.RawJSON()
		if body != "" { // the SDK has unwrapped it
			body = `{"error":` + body + `}`
		}
		return wire.ReadFault(api.StatusCode, header, []byte(body))
	case errors.As(err, &inStream):
		return wire.ReadFault(http.StatusOK, nil, inStream.Event.Data)
	}
	return wire.Broken(err)
}
