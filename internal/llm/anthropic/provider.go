// Package anthropic implements [llm.Provider] for Anthropic's Messages.
package anthropic

import (
	"context"
	"encoding/json"
	"net/http"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/anthropics/anthropic-sdk-go/packages/ssestream"

	"github.com/maestro-hive/maestro/internal/llm"
	"github.com/maestro-hive/maestro/internal/wire"
)

// Provider calls models with Anthropic's Messages API.
type Provider struct {
	// BaseURL is the server's address, with or without /v1; empty: Anthropic's own.
	BaseURL string
	// Key is the API key; empty: the server needs none.
	Key string
}

// Ask makes one streamed call.
func (p Provider) Ask(ctx context.Context, request llm.Request, x llm.Exchange) (llm.Answer, error) {
	// Do not read options from the environment, as the client does by default.
	options := []option.RequestOption{option.WithBaseURL(wire.Anthropic.Base(p.BaseURL)), option.WithHTTPClient(x.HTTP), option.WithMaxRetries(0)}
	if p.Key != "" {
		options = append(options, option.WithAPIKey(p.Key))
	}
	messages := sdk.NewMessageService(options...)
	var response *http.Response
	err := messages.NewStreaming(ctx, params(request), option.WithResponseBodyInto(&response)).Err()
	if err != nil {
		return llm.Answer{}, wire.Broken(err)
	}
	stream := ssestream.NewStream[sdk.MessageStreamEventUnion](named{ssestream.NewDecoder(response)}, nil)
	defer stream.Close() //nolint:errcheck // read to its end, or aborted
	c := collector{inputs: map[int64]string{}, received: x.Received}
	for stream.Next() {
		news, err := c.take(stream.Current())
		if err == nil {
			err = x.OnEvent(news)
		}
		if err != nil {
			return llm.Answer{}, err
		}
	}
	err = stream.Err()
	if err == nil && x.Received.Document != nil {
		err = json.Unmarshal(x.Received.Document, &c.message)
	}
	facts := x.Received.AtEnd(err)
	switch {
	case facts.Fault != nil:
		return llm.Answer{}, facts.Fault
	case c.message.StopReason != "": // the answer is complete, however the stream ends. It is paid for, so use it
		return c.answer(), nil
	case err != nil:
		return llm.Answer{}, wire.Broken(err)
	}
	return llm.Answer{}, &wire.Fault{Status: http.StatusOK, Cut: true, Message: "it has no end"}
}

// named decodes events. Servers that are only nearly compatible leave out their names, which their data has, too.
type named struct{ ssestream.Decoder }

// Event returns the current event.
func (n named) Event() ssestream.Event {
	event := n.Decoder.Event()
	if event.Type == "" {
		var data struct{ Type string }
		_ = json.Unmarshal(event.Data, &data) // without a type, it is no event
		event.Type = data.Type
	}
	return event
}

// collector assembles an answer from its events.
type collector struct {
	message  sdk.Message
	received *llm.Received
	// inputs are the arguments of tool calls by their block, as received. The SDK drops arguments
	// that are not JSON.
	inputs map[int64]string
}

// take adds an event, and returns what is new in it.
func (c *collector) take(event sdk.MessageStreamEventUnion) (llm.Event, error) {
	if err := c.message.Accumulate(event); err != nil {
		return llm.Event{}, &wire.Fault{Status: http.StatusOK, Message: "not a valid answer: " + err.Error()}
	}
	switch event.Type {
	case "message_start", "message_delta":
		facts := c.received.Facts()
		news := llm.Event{Whole: facts.Whole}
		if facts.Counted {
			news.Usage = &facts.Usage
		}
		return news, nil
	case "content_block_delta":
		d := event.Delta
		c.inputs[event.Index] += d.PartialJSON
		return llm.Event{Bytes: len(d.Text) + len(d.PartialJSON) + len(d.Thinking), Progress: c.received.Progress(), Text: d.Text}, nil
	case "content_block_stop":
		if c.message.Content[event.Index].Type == "tool_use" {
			call := c.call(int(event.Index))
			return llm.Event{Call: &call}, nil
		}
	}
	return llm.Event{}, nil
}

func (c *collector) call(index int) llm.Call {
	block := c.message.Content[index]
	input := c.inputs[int64(index)]
	if input == "" { // it was complete at the start of the block
		input = string(block.Input)
	}
	return llm.Call{ID: block.ID, Name: block.Name, Arguments: input}
}

func (c *collector) answer() llm.Answer {
	facts := c.received.Facts()
	a := llm.Answer{Stop: llm.StopOf(string(c.message.StopReason)), Usage: facts.Usage, Said: facts.Answer()}
	a.Usage.CostUSD = facts.Cost
	for i, block := range c.message.Content {
		switch block.Type {
		case "text":
			a.Text += block.Text
		case "thinking":
			a.Thinking = append(a.Thinking, llm.Thinking{Text: block.Thinking, Signature: block.Signature})
		case "redacted_thinking":
			a.Thinking = append(a.Thinking, llm.Thinking{Redacted: block.Data})
		case "tool_use":
			a.Calls = append(a.Calls, c.call(i))
		}
	}
	return a
}
