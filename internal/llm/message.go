package llm

import (
	"context"
	"net/http"

	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/session"
)

// Provider asks a model. It is an adapter: it translates, and nothing else.
type Provider interface {
	// Ask makes one call, without retries, and returns the whole answer. An
	// error that the provider has put into words is a *[wire.Fault]; an answer that
	// ended early is one with Cut set. Anything else is the network's.
	Ask(ctx context.Context, request Request, x Exchange) (Answer, error)
}

// Exchange is what a provider makes a call with.
type Exchange struct {
	// HTTP carries the call.
	HTTP *http.Client
	// Hear is told what comes in while the answer does. An error is a reason to
	// read no further, and Ask returns it.
	Hear func(Event) error
}

// Event is a piece of news of an answer that is coming in.
type Event struct {
	// Bytes is how much of the answer's content came.
	Bytes int
	// Text is the part of the answer's text that came.
	Text string
	// Usage is what the provider has counted so far, nil if it did not say.
	Usage *cost.Usage
	// Call is a tool call that is complete.
	Call *Call
	// Whole: nothing more of the answer's content is to come.
	Whole bool
}

// Request is what a model is asked.
type Request struct {
	Model  string `json:"model"`
	System string `json:"system"`
	Tools  []Tool `json:"tools"`
	// Messages alternate, and the first and the last are the user's.
	Messages []Message `json:"messages"`
	// MaxOutput bounds the tokens of the answer. What the answer says does not
	// depend on it unless it is cut off, so it is no part of the request's digest.
	MaxOutput int64 `json:"-"`
}

// Tool is a tool that a model may call.
type Tool struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	// Properties are the JSON Schemas of the arguments; Required names those
	// that may not be left out.
	Properties map[string]any `json:"properties"`
	Required   []string       `json:"required,omitempty"`
}

// Role says whose a message is.
type Role string

// The roles.
const (
	User      Role = "user"
	Assistant Role = "assistant"
)

// Message is one message of a conversation: an assistant's has thinking, text and
// calls, a user's has results and text, in this order.
type Message struct {
	Role     Role       `json:"role"`
	Thinking []Thinking `json:"thinking,omitempty"`
	Results  []Result   `json:"results,omitempty"`
	Text     string     `json:"text,omitempty"`
	Calls    []Call     `json:"calls,omitempty"`
}

// Thinking is a block of a model's thoughts, which its provider wants back as it
// was.
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
	// Broken is what the model gave as arguments instead of a JSON object.
	Broken string `json:"broken,omitempty"`
	// Masked: the arguments held a secret, which is no longer in them.
	Masked bool `json:"masked,omitempty"`
}

// Result is what a tool call brought.
type Result struct {
	// ID is the call's.
	ID   string `json:"id"`
	Text string `json:"text"`
	// Error: the tool did not do what it was called for.
	Error bool `json:"error,omitempty"`
}

// Stop is why an answer ends.
type Stop string

// The ends of an answer.
const (
	// Done: the model has said what it had to say, or called tools.
	Done Stop = "done"
	// Truncated: the answer had reached its maximal length.
	Truncated Stop = "truncated"
	// Refused: the model declined.
	Refused Stop = "refused"
	// Overflow: the conversation is longer than the model's window.
	Overflow Stop = "overflow"
)

// Answer is what a model answered.
type Answer struct {
	Thinking []Thinking `json:"thinking,omitempty"`
	Text     string     `json:"text,omitempty"`
	Calls    []Call     `json:"calls,omitempty"`
	Stop     Stop       `json:"stop"`
	// Counted: the provider has said what the call cost; otherwise Usage is an
	// estimate.
	Counted bool `json:"counted,omitempty"`
	// Usage is what the provider says the call has cost, without money; zero if
	// it does not say. The journal keeps it beside the answer.
	Usage cost.Usage `json:"-"`
	// Said is what the provider says of the answer besides.
	Said session.CallAnswer `json:"-"`
}
