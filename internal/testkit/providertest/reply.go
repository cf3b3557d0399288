package providertest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/maestro-hive/maestro/internal/core/cost"
)

// Request is a call of a model, in the words that the APIs share.
type Request struct {
	// N counts the server's calls from 1.
	N           int
	Path, Query string
	Header      http.Header
	// Body is the request as it came.
	Body []byte

	Model string
	// Stream: the client wants events. IncludeUsage: and the usage among them,
	// which only Chat Completions has to be asked for.
	Stream, IncludeUsage bool
	MaxTokens            int64
	System               string
	// Tools are the names of the tools that the model may call.
	Tools    []string
	Messages []Message
}

// Message is one message of a conversation.
type Message struct {
	// Role is user or assistant; tool results are a user's.
	Role string
	// Text is all of its text.
	Text    string
	Calls   []Call
	Results []Result
}

// Call is a tool call.
type Call struct {
	// ID names the call among those of its conversation; empty in a reply: the
	// server chooses one.
	ID, Name string
	// Arguments is the JSON of the arguments.
	Arguments string
}

// Result is what a tool call brought.
type Result struct {
	// ID is the call's.
	ID, Text string
	// Error: the tool failed. Only Anthropic's API says so.
	Error bool
}

// Last is the newest message; empty if there is none.
func (r Request) Last() Message {
	if len(r.Messages) == 0 {
		return Message{}
	}
	return r.Messages[len(r.Messages)-1]
}

// Turn is which turn of its conversation the request is, from 1: one more than
// the model's answers in it.
func (r Request) Turn() int {
	turn := 1
	for _, m := range r.Messages {
		if m.Role == "assistant" {
			turn++
		}
	}
	return turn
}

// Stop is why an answer ends.
type Stop string

// The ends of an answer. The empty Stop is the one that fits the reply: Calls if
// it has tool calls, else Done.
const (
	Done      Stop = "done"
	Calls     Stop = "calls"
	Truncated Stop = "truncated"
	Refused   Stop = "refused"
)

// Reply is what the model says.
type Reply struct {
	Thinking string
	Text     string
	Calls    []Call
	Stop     Stop
	// Usage is what the call costs, each kind of token apart; the server says it
	// as its API does. Zero: a token for four bytes of the request and of the
	// reply.
	Usage cost.Usage
	// Tier is the service tier that the answer names; empty: none.
	Tier string
	// Fault is what goes wrong.
	Fault Fault
}

// Fault is how a call goes wrong; the zero Fault is none.
type Fault struct {
	// Status answers with this HTTP status and an error, of this type, code and
	// message, instead of the reply.
	Status              int
	Type, Code, Message string
	// RetryAfter is the header Retry-After of that answer, Header what else it has.
	RetryAfter string
	Header     http.Header
	// Reset resets the connection at a place in the answer; zero: it does not.
	Reset Reset
	// NoUsage leaves the usage out of the answer, Reported has it say another.
	NoUsage  bool
	Reported *cost.Usage
	// Flood puts so many bytes of text in the place of a streamed answer's end.
	Flood int64
	// NoAnswer closes the connection before the first byte.
	NoAnswer bool
	// Garbage answers with something that is no API's.
	Garbage bool
	// CutAfter, if positive, closes the connection after that many bytes of the
	// body.
	CutAfter int
	// InStream sends an error as an event, after the first event of the stream.
	InStream bool
	// Delay is the wait before the first byte, Stall the wait after the first
	// event of a stream. Both end when the client goes.
	Delay, Stall time.Duration
	// Hold is asked before every event of a stream, with the number of those that
	// were sent. The event waits until the channel is closed; nil: it does not wait.
	// The wait ends, too, when the client or the server goes. Of a list of Gemini only the end waits.
	Hold func(sent int) <-chan struct{}
}

// Reset is where in an answer the connection is reset.
type Reset string

// The places of a reset.
const (
	ResetBefore  Reset = "before"
	ResetHeaders Reset = "in the headers"
	ResetBody    Reset = "after the headers"
)

// Say is a reply of text.
func Say(text string) Reply { return Reply{Text: text} }

// Use is a reply of tool calls.
func Use(calls ...Call) Reply { return Reply{Calls: calls} }

// Tool is a call of a tool, with arguments that are encoded as JSON.
func Tool(name string, arguments any) Call {
	data, err := json.Marshal(arguments)
	if err != nil {
		panic(fmt.Sprintf("providertest: arguments of %s: %v", name, err))
	}
	return Call{Name: name, Arguments: string(data)}
}

// Failing is a reply that is an error.
func Failing(f Fault) Reply { return Reply{Fault: f} }

// RateLimited is a 429. retryAfter is the value of the header; empty: none.
func RateLimited(retryAfter string) Reply {
	return Failing(Fault{
		Status: http.StatusTooManyRequests, Type: "rate_limit_error", Message: "Too many requests.",
		RetryAfter: retryAfter,
	})
}

// ServerError is a 500.
func ServerError() Reply {
	return Failing(Fault{Status: http.StatusInternalServerError, Type: "api_error", Message: "Internal server error"})
}

// Overloaded is Anthropic's 529.
func Overloaded() Reply {
	return Failing(Fault{Status: 529, Type: "overloaded_error", Message: "Overloaded"})
}

// Unauthorized is a 401.
func Unauthorized() Reply {
	return Failing(Fault{
		Status: http.StatusUnauthorized, Type: "authentication_error", Code: "invalid_api_key",
		Message: "invalid key",
	})
}

// ContextOverflow is the 400 of a prompt that is longer than the model's window.
func ContextOverflow() Reply {
	return Failing(Fault{
		Status: http.StatusBadRequest, Type: "invalid_request_error", Code: "context_length_exceeded",
		Message: "prompt is too long: 250000 tokens > 200000 maximum",
	})
}

// bytesPerToken is the rate at which the server counts what no reply counts.
const bytesPerToken = 4

func (r Reply) withUsage(of Request) Reply {
	if r.Usage != (cost.Usage{}) {
		return r
	}
	said := len(r.Text) + len(r.Thinking)
	for _, c := range r.Calls {
		said += len(c.Name) + len(c.Arguments)
	}
	r.Usage = cost.Usage{InputTokens: int64(len(of.Body)/bytesPerToken) + 1, OutputTokens: int64(said/bytesPerToken) + 1}
	return r
}

// said is the usage that the answer has in it.
func (r Reply) said() cost.Usage {
	if r.Fault.Reported != nil {
		return *r.Fault.Reported
	}
	return r.Usage
}

// stop is why the reply ends.
func (r Reply) stop() Stop {
	switch {
	case r.Stop != "":
		return r.Stop
	case len(r.Calls) > 0:
		return Calls
	}
	return Done
}

// id names a call of the reply, the same for the same conversation; i is its index.
func (r Reply) id(prefix string, of Request, i int) string {
	if r.Calls[i].ID != "" {
		return r.Calls[i].ID
	}
	return fmt.Sprintf("%s%d_%d", prefix, of.Turn(), i)
}

// pieces cuts a text in parts as a stream brings it, in the middle of words. A long text
// has longer parts: the clients take time that grows with parts times length.
func pieces(text string) []string {
	size := max(24, len(text)/1000)
	var out []string
	for len(text) > size {
		cut := size
		for cut > 1 && text[cut]&0xC0 == 0x80 { // JSON holds whole characters only
			cut--
		}
		out, text = append(out, text[:cut]), text[cut:]
	}
	return append(out, text)
}
