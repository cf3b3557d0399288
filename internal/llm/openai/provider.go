// Package openai implements [llm.Provider] for OpenAI's Chat Completions and the servers that are
// compatible with it.
package openai

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
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
	client := sdk.Client{Options: options}
	var response *http.Response
	if err := client.Post(ctx, "chat/completions", params(request, wire.PublicOpenAI(p.BaseURL)), &response, option.WithJSONSet("stream", true)); err != nil {
		return llm.Answer{}, err
	}
	defer response.Body.Close() //nolint:errcheck // read to its end, or aborted
	c := collector{received: x.Received}
	broken, err := c.read(response, x.OnEvent)
	if err != nil {
		return llm.Answer{}, err
	}
	facts := x.Received.AtEnd(broken)
	switch {
	case facts.Fault != nil:
		return llm.Answer{}, facts.Fault
	case c.finish != "": // the answer is complete, however the stream ends. It is paid for, so use it
	case facts.Ended && c.text.Len()+len(c.calls) > 0: // some servers do not say why
	case broken != nil:
		return llm.Answer{}, wire.Broken(broken)
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
	places   map[int64]int
	finish   string
	received *llm.Received
	// counted is the usage that was last reported.
	counted cost.Usage
}

// read reads the answer to its end. broken is why a stream has none, and err the error of onEvent. The library's own
// stream takes each chunk with the key error for one, also if that is null.
func (c *collector) read(response *http.Response, onEvent func(llm.Event) error) (broken, err error) {
	if document := c.received.Document; document != nil {
		if c.received.Facts().Fault != nil {
			return nil, nil
		}
		var whole sdk.ChatCompletion
		if broken = json.Unmarshal(document, &whole); broken != nil {
			return broken, nil
		}
		return nil, onEvent(c.take(chunkOf(whole)))
	}
	events := ssestream.NewDecoder(response)
	for events.Next() {
		data := events.Event().Data
		if bytes.HasPrefix(data, []byte("[DONE]")) {
			return nil, nil
		}
		var chunk sdk.ChatCompletionChunk
		if broken = json.Unmarshal(data, &chunk); broken != nil {
			return broken, nil
		}
		event := c.take(chunk)
		failed := len(chunk.Choices) == 0 && c.received.Facts().Fault != nil
		if !failed || event.Usage != nil {
			err = onEvent(event)
		}
		if failed || err != nil { // the server may not close the connection
			return nil, err
		}
	}
	return events.Err(), nil
}

// chunkOf converts an answer that is no stream to the chunk of a stream that has all of it.
func chunkOf(whole sdk.ChatCompletion) (out sdk.ChatCompletionChunk) {
	for _, choice := range whole.Choices {
		one := sdk.ChatCompletionChunkChoice{Index: choice.Index, FinishReason: choice.FinishReason}
		one.Delta.Content, one.Delta.Refusal = choice.Message.Content, choice.Message.Refusal
		for i, call := range choice.Message.ToolCalls {
			one.Delta.ToolCalls = append(one.Delta.ToolCalls, sdk.ChatCompletionChunkChoiceDeltaToolCall{
				Index: int64(i), ID: call.ID, Function: sdk.ChatCompletionChunkChoiceDeltaToolCallFunction{Name: call.Function.Name, Arguments: call.Function.Arguments},
			})
		}
		out.Choices = append(out.Choices, one)
	}
	return out
}

// take adds a chunk, and returns what is new in it.
func (c *collector) take(chunk sdk.ChatCompletionChunk) llm.Event {
	facts := c.received.Facts()
	event := llm.Event{Progress: c.received.Progress(), Whole: facts.Whole}
	if facts.Counted && facts.Usage != c.counted {
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
	return event
}

// call adds a part of a tool call. Servers give every call the same index, or none, or the same id, or each part an id of
// its own. A part without a name continues the call with its id, or else the one at its index. A part with a name continues
// a call only if nothing tells the two apart.
func (c *collector) call(part sdk.ChatCompletionChunkChoiceDeltaToolCall) int {
	place, ok := c.places[part.Index]
	known := slices.IndexFunc(c.calls, func(call llm.Call) bool { return part.ID != "" && call.ID == part.ID })
	switch {
	case known >= 0 && (part.Function.Name == "" || ok && place == known):
		place, ok = known, true
	case ok && part.Function.Name != "":
		last := c.calls[place]
		ok = (part.ID == "" || last.ID == "") && (last.Name == "" || part.Function.Name == last.Name && last.Arguments == "" && part.ID == "")
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
	facts := c.received.Facts()
	a := llm.Answer{Text: c.text.String(), Calls: c.calls, Stop: llm.StopOf(c.finish), Usage: facts.Usage, Said: facts.Answer()}
	a.Usage.CostUSD = facts.Cost
	if c.refusal.Len() > 0 {
		a.Stop, a.Text = llm.Refused, a.Text+c.refusal.String()
	}
	return a
}
