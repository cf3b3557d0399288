// Package anthropic translates between the chat loop and Anthropic's Messages.
package anthropic

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/maestro-hive/maestro/internal/chat"
	"github.com/maestro-hive/maestro/internal/team"
)

// publicURL is the provider's own address.
const publicURL = "https://api.anthropic.com"

// Provider asks models behind Anthropic's Messages API.
type Provider struct {
	// BaseURL is the server's address, with or without /v1; empty: Anthropic's own.
	BaseURL string
	// Key is the API key; empty: the server wants none.
	Key string
}

// Ask makes one streamed call.
func (p Provider) Ask(ctx context.Context, request chat.Request, x chat.Exchange) (chat.Answer, error) {
	// Many write the address as OpenAI's compatible servers want it.
	base := strings.TrimSuffix(strings.TrimRight(p.BaseURL, "/"), "/v1")
	if base == "" {
		base = publicURL
	}
	// A service of its own reads nothing from the environment, as a client would.
	options := []option.RequestOption{option.WithBaseURL(base), option.WithHTTPClient(x.HTTP), option.WithMaxRetries(0)}
	if p.Key != "" {
		options = append(options, option.WithAPIKey(p.Key))
	}
	messages := sdk.NewMessageService(options...)
	stream := messages.NewStreaming(ctx, params(request))
	defer stream.Close() //nolint:errcheck // read to its end, or given up
	var message sdk.Message
	whole := false
	for stream.Next() {
		event := stream.Current()
		if err := message.Accumulate(event); err != nil {
			return chat.Answer{}, &chat.Fault{Status: http.StatusOK, Message: err.Error()}
		}
		whole = whole || event.Type == "message_stop"
		x.Hear(news(event, message))
	}
	if err := stream.Err(); err != nil {
		return chat.Answer{}, translate(err)
	}
	if !whole {
		return chat.Answer{}, &chat.Fault{Status: http.StatusOK, Cut: true, Message: "the stream has no end"}
	}
	return answer(message), nil
}

// news is what an event says; message is the answer with it.
func news(event sdk.MessageStreamEventUnion, message sdk.Message) chat.Event {
	switch event.Type {
	case "message_start", "message_delta":
		u := usage(message.Usage)
		return chat.Event{Usage: &u}
	case "content_block_delta":
		d := event.Delta
		return chat.Event{Bytes: len(d.Text) + len(d.PartialJSON) + len(d.Thinking)}
	case "content_block_stop":
		if block := message.Content[event.Index]; block.Type == "tool_use" {
			c := call(block)
			return chat.Event{Call: &c}
		}
	}
	return chat.Event{}
}

// usage is the provider's count; its cached tokens are apart from the input.
func usage(u sdk.Usage) team.Usage {
	return team.Usage{
		InputTokens: u.InputTokens, OutputTokens: u.OutputTokens,
		CacheReadTokens: u.CacheReadInputTokens, CacheWriteTokens: u.CacheCreationInputTokens,
		ReasoningTokens: u.OutputTokensDetails.ThinkingTokens,
	}
}

func call(block sdk.ContentBlockUnion) chat.Call {
	return chat.Call{ID: block.ID, Name: block.Name, Arguments: string(block.Input)}
}

func answer(message sdk.Message) chat.Answer {
	a := chat.Answer{Stop: stop(message.StopReason), Usage: usage(message.Usage)}
	for _, block := range message.Content {
		switch block.Type {
		case "text":
			a.Text += block.Text
		case "thinking":
			a.Thinking = append(a.Thinking, chat.Thinking{Text: block.Thinking, Signature: block.Signature})
		case "redacted_thinking":
			a.Thinking = append(a.Thinking, chat.Thinking{Redacted: block.Data})
		case "tool_use":
			a.Calls = append(a.Calls, call(block))
		}
	}
	return a
}

func stop(reason sdk.StopReason) chat.Stop {
	switch reason {
	case sdk.StopReasonMaxTokens:
		return chat.Truncated
	case sdk.StopReasonRefusal:
		return chat.Refused
	case sdk.StopReasonModelContextWindowExceeded:
		return chat.Overflow
	default:
		return chat.Done
	}
}

// translate turns an error of the SDK into a fault. Errors of the network stay
// what they are.
func translate(err error) error {
	var api *sdk.Error
	var syntax *json.SyntaxError
	var shape *json.UnmarshalTypeError
	switch {
	case errors.As(err, &api):
		fault := &chat.Fault{Status: api.StatusCode, Type: string(api.Type()), Message: said(api.RawJSON())}
		if api.Response != nil {
			fault.Header = api.Response.Header
		}
		return fault
	case errors.As(err, &syntax), errors.As(err, &shape):
		return &chat.Fault{Status: http.StatusOK, Message: "what it sent is no answer: " + err.Error()}
	}
	return err
}

// said is the message in the body of an error, or its text if it has none.
func said(body string) string {
	var e struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal([]byte(body), &e) == nil && e.Error.Message != "" {
		return e.Error.Message
	}
	return team.Shorten(body, team.MaxMessage)
}
