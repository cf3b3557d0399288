package llm

import (
	"context"
	"net/http"

	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/wire"
)

// Provider calls a model. It only translates requests, answers and errors.
type Provider interface {
	// Ask makes one call, without retries, and returns the complete answer. An error that the
	// provider reports is a *[wire.Fault]; an incomplete answer is a *[wire.Fault] with Cut set.
	// Any other error is one of the network.
	Ask(ctx context.Context, request Request, x Exchange) (Answer, error)
}

// Exchange is what a provider needs for a call.
type Exchange struct {
	// HTTP sends the request, and Received is what was received of its answer.
	HTTP     *http.Client
	Received *Received
	// OnEvent is called for each event of the answer. If it returns an error, Ask stops and returns
	// that error.
	OnEvent func(Event) error
}

// Event is a received part of an answer.
type Event struct {
	// Bytes is the size of the received content, and Progress that of the whole answer so far, reasoning included.
	Bytes    int
	Progress int64
	// Text is the received part of the answer's text.
	Text string
	// Usage is what the provider has counted so far; nil if it is not stated.
	Usage *cost.Usage
	// Call is a complete tool call.
	Call *Call
	// Whole: the content of the answer is complete.
	Whole bool
}

// Request is a request to a model.
type Request struct {
	Model  string `json:"model"`
	System string `json:"system"`
	Tools  []Tool `json:"tools"`
	// Messages alternate between roles. The first and the last are the user's.
	Messages []Message `json:"messages"`
	// MaxOutput bounds the tokens of the answer. It does not change the answer unless it cuts it
	// off, so it is not part of the request's digest.
	MaxOutput int64 `json:"-"`
}

// Tool is a tool that a model may call.
type Tool struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	// Properties are the JSON Schemas of the arguments; Required are the names of required
	// arguments.
	Properties map[string]any `json:"properties"`
	Required   []string       `json:"required,omitempty"`
}

// Role is the author of a message.
type Role string

// The roles.
const (
	User      Role = "user"
	Assistant Role = "assistant"
)

// Message is one message of a conversation. An assistant's message has thinking, text and calls;
// a user's message has results and text, in this order.
type Message struct {
	Role     Role       `json:"role"`
	Thinking []Thinking `json:"thinking,omitempty"`
	Results  []Result   `json:"results,omitempty"`
	Text     string     `json:"text,omitempty"`
	Calls    []Call     `json:"calls,omitempty"`
}

// Thinking is a block of a model's thoughts. The provider requires it back unchanged.
type Thinking struct {
	Text      string `json:"text,omitempty"`
	Signature string `json:"signature,omitempty"`
	// Redacted is a block that only the provider can read.
	Redacted string `json:"redacted,omitempty"`
}

// Call is a tool call.
type Call struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// Arguments is a JSON object.
	Arguments string `json:"arguments"`
	// Broken is the arguments text of the model if it is not a JSON object.
	Broken string `json:"broken,omitempty"`
	// Masked: a secret in the arguments was masked.
	Masked bool `json:"masked,omitempty"`
}

// Result is the result of a tool call.
type Result struct {
	// ID is the ID of the call.
	ID   string `json:"id"`
	Text string `json:"text"`
	// Error: the tool failed.
	Error bool `json:"error,omitempty"`
}

// Stop is the reason why an answer ends.
type Stop string

// The reasons why an answer ends.
const (
	// Done: the model has finished its answer, or calls tools.
	Done Stop = "done"
	// Truncated: the answer has reached its maximum length.
	Truncated Stop = "truncated"
	// Refused: the model declined to answer.
	Refused Stop = "refused"
	// Overflow: the conversation is longer than the model's context window.
	Overflow Stop = "overflow"
	// AboveLimit: the conversation alone is above a limit of the provider's rate.
	AboveLimit Stop = "above_limit"
)

// StopOf returns the reason that a provider's word stands for.
func StopOf(word string) Stop {
	switch wire.EndingOf(word) {
	case wire.Filtered:
		return Refused
	case wire.CutOff:
		return Truncated
	case wire.Overflowed:
		return Overflow
	case wire.Complete, wire.Failed: // a failed answer has a fault
	}
	return Done
}

// Answer is a model's answer.
type Answer struct {
	Thinking []Thinking `json:"thinking,omitempty"`
	Text     string     `json:"text,omitempty"`
	Calls    []Call     `json:"calls,omitempty"`
	Stop     Stop       `json:"stop"`
	// Counted: the provider has reported the usage of the call; otherwise Usage is an estimate.
	Counted bool `json:"counted,omitempty"`
	// Usage is the usage that the provider reports, without money; zero if it reports none. It
	// is stored separately.
	Usage cost.Usage `json:"-"`
	// Said has the other facts that the provider reports about the answer.
	Said session.CallAnswer `json:"-"`
}
