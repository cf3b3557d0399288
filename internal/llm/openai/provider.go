// Package openai translates between the chat loop and OpenAI's Chat Completions,
// as OpenAI and the many servers that are compatible with it speak it.
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

	"github.com/maestro-hive/maestro/internal/llm"
	"github.com/maestro-hive/maestro/internal/wire"
)

// Provider asks models behind a Chat Completions API.
type Provider struct {
	// BaseURL is the server's address up to /chat/completions; empty: OpenAI's.
	BaseURL string
	// Key is the API key; empty: the server wants none.
	Key string
}

// Ask makes one streamed call.
func (p Provider) Ask(ctx context.Context, request llm.Request, x llm.Exchange) (llm.Answer, error) {
	// A service of its own reads nothing from the environment, as a client would.
	options := []option.RequestOption{option.WithBaseURL(wire.OpenAI.Base(p.BaseURL)), option.WithHTTPClient(x.HTTP), option.WithMaxRetries(0)}
	if p.Key != "" {
		options = append(options, option.WithAPIKey(p.Key))
	}
	completions := sdk.NewChatCompletionService(options...)
	stream := completions.NewStreaming(ctx, params(request, wire.PublicOpenAI(p.BaseURL)))
	defer stream.Close() //nolint:errcheck // read to its end, or given up
	c := collector{meter: wire.NewMeter(wire.ChatCompletions, 1, "")}
	for stream.Next() {
		if err := x.Hear(c.take(stream.Current())); err != nil {
			return llm.Answer{}, err
		}
	}
	// An answer that has said why it ends is whole, however its stream ends: it
	// is paid for, and of use.
	if err := stream.Err(); err != nil && c.finish == "" {
		return llm.Answer{}, translate(err)
	}
	if c.finish == "" {
		return llm.Answer{}, &wire.Fault{Status: http.StatusOK, Cut: true, Message: "response too large"}
	}
	for i := range c.calls {
		if err := x.Hear(llm.Event{Call: &c.calls[i], Whole: true}); err != nil {
			return llm.Answer{}, err
		}
	}
	return c.answer(), nil
}

// collector puts the chunks of an answer together.
type collector struct {
	text, refusal strings.Builder
	calls         []llm.Call
	// places says which call of the answer the calls' chunks with an index go to.
	places map[int64]int
	finish string
	meter  *wire.Meter
}

// take takes up a chunk, and returns the news in it.
func (c *collector) take(chunk sdk.ChatCompletionChunk) llm.Event {
	event := llm.Event{}
	_, _ = c.meter.Write([]byte(chunk.RawJSON())) // it takes everything
	if u := chunk.Usage; u.PromptTokens > 0 || u.CompletionTokens > 0 {
		counted := c.meter.Facts().Usage
		event.Usage = &counted
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

// call takes a part of a tool call. Some servers number every call 0, but begin
// each with a name.
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
	a := llm.Answer{Text: c.text.String(), Calls: c.calls, Stop: llm.Done, Usage: c.meter.Facts().Usage, Said: c.meter.Facts().Answer()}
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

// translate turns an error of the SDK into a fault. Errors of the network stay
// what they are.
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
